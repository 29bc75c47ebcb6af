//! Owns the metadata service: only a term that serves answers; everything else says NOT_LEADER and where to go.

use std::sync::Arc;

use ha_rpc::v1::metadata_service_server::MetadataService as Service;
use ha_rpc::v1::{
    BatchRemoveReply, BatchRemoveRequest, Durability, ErrorCode, ErrorDetail, ExistsReply, ExistsRequest, GetReply,
    GetRequest, ListReply, ListRequest, ListSegmentsReply, ListSegmentsRequest, MountSegmentReply, MountSegmentRequest,
    PutEndReply, PutEndRequest, PutRevokeReply, PutRevokeRequest, PutStartReply, PutStartRequest, RemoveReply,
    RemoveRequest, RemoveResult, UnmountSegmentReply, UnmountSegmentRequest, UpdateSegmentReply, UpdateSegmentRequest,
    remove_result,
};
use master::{Master, MasterError, MountSegment, PutStart};
use tonic::{Request, Response, Status};

use super::convert;
use crate::node::Shared;

/// The metadata service of one node.
#[derive(Clone, Debug)]
pub(super) struct MetadataService {
    node: Arc<Shared>,
}

/// What a reply to a change of a segment promises.
const SEGMENTS_PROMISE: i32 = Durability::Durable as i32;

/// Keys of at most 4096 bytes: a page stays below the largest message.
const LIST_PAGE: usize = 900;
/// Ids and endpoints of at most 255 bytes: so does this.
const SEGMENTS_PAGE: usize = 5000;
/// 10,000 results of a batch with such messages: so does that.
const RESULT_MESSAGE_BYTES: usize = 256;

impl MetadataService {
    pub(super) fn new(node: Arc<Shared>) -> Self {
        Self { node }
    }

    /// Enters a call, answers it, and completes a failure.
    async fn answer<T, F>(&self, call: impl FnOnce(Master) -> F) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let entered = self.node.enter().await?;
        match call(entered.term.master.clone()).await {
            Ok(reply) => Ok(Response::new(reply)),
            Err(Failure(detail)) if detail.code() == ErrorCode::NotLeader => {
                Err(self.node.not_leader(&detail.message).await.into())
            }
            Err(Failure(detail)) => Err(detail.into()),
        }
    }
}

/// A failed call, on its way to the wire.
struct Failure(ErrorDetail);

impl From<ErrorDetail> for Failure {
    fn from(detail: ErrorDetail) -> Self {
        Self(detail)
    }
}

impl From<MasterError> for Failure {
    fn from(error: MasterError) -> Self {
        Self(convert::error(&error))
    }
}

#[tonic::async_trait]
impl Service for MetadataService {
    async fn mount_segment(
        &self,
        request: Request<MountSegmentRequest>,
    ) -> Result<Response<MountSegmentReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let segment = convert::segment_id(&request.segment_id)?;
            let MountSegmentRequest { endpoint, base, size, .. } = request;
            master.mount_segment(MountSegment { segment, endpoint: endpoint.into(), base, size }).await?;
            Ok(MountSegmentReply { durability: SEGMENTS_PROMISE })
        })
        .await
    }

    async fn update_segment(
        &self,
        request: Request<UpdateSegmentRequest>,
    ) -> Result<Response<UpdateSegmentReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let segment = convert::segment_id(&request.segment_id)?;
            master.update_segment(&segment, request.endpoint.into()).await?;
            Ok(UpdateSegmentReply { durability: SEGMENTS_PROMISE })
        })
        .await
    }

    async fn unmount_segment(
        &self,
        request: Request<UnmountSegmentRequest>,
    ) -> Result<Response<UnmountSegmentReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            master.unmount_segment(&convert::segment_id(&request.segment_id)?).await?;
            Ok(UnmountSegmentReply { durability: SEGMENTS_PROMISE })
        })
        .await
    }

    async fn list_segments(
        &self,
        request: Request<ListSegmentsRequest>,
    ) -> Result<Response<ListSegmentsReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let limit = page_limit(request.limit, SEGMENTS_PAGE);
            let all = master.list_segments()?;
            let from = all.partition_point(|s| s.segment.as_str() <= request.start_after.as_str());
            let more = all.len() - from > limit;
            let segments = all.into_iter().skip(from).take(limit).map(convert::segment).collect();
            Ok(ListSegmentsReply { segments, more })
        })
        .await
    }

    async fn put_start(&self, request: Request<PutStartRequest>) -> Result<Response<PutStartReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let start = PutStart {
                tenant: convert::tenant(&request.tenant)?,
                key: convert::key(&request.key)?,
                size: request.size,
                replicas: request.replicas.max(1) as usize,
                client: convert::client_id(&request.client_id)?,
            };
            Ok(convert::grant(master.put_start(&start)?))
        })
        .await
    }

    async fn put_end(&self, request: Request<PutEndRequest>) -> Result<Response<PutEndReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let (tenant, key) = (convert::tenant(&request.tenant)?, convert::key(&request.key)?);
            let incarnation = convert::incarnation(&request.incarnation)?;
            let client = convert::client_id(&request.client_id)?;
            let promise = convert::promise(request.durability)?;
            master.put_end(&tenant, &key, incarnation, client, promise).await?;
            Ok(PutEndReply { durability: convert::promised(promise) })
        })
        .await
    }

    async fn put_revoke(&self, request: Request<PutRevokeRequest>) -> Result<Response<PutRevokeReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let (tenant, key) = (convert::tenant(&request.tenant)?, convert::key(&request.key)?);
            let incarnation = convert::incarnation(&request.incarnation)?;
            master.put_revoke(&tenant, &key, incarnation, convert::client_id(&request.client_id)?)?;
            Ok(PutRevokeReply {})
        })
        .await
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let (tenant, key) = (convert::tenant(&request.tenant)?, convert::key(&request.key)?);
            Ok(convert::get_reply(master.get(&tenant, &key, request.lease_ms)?))
        })
        .await
    }

    async fn exists(&self, request: Request<ExistsRequest>) -> Result<Response<ExistsReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let (tenant, key) = (convert::tenant(&request.tenant)?, convert::key(&request.key)?);
            Ok(ExistsReply { exists: master.exists(&tenant, &key)? })
        })
        .await
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let tenant = convert::tenant(&request.tenant)?;
            let after = if request.start_after.is_empty() { None } else { Some(convert::key(&request.start_after)?) };
            let limit = page_limit(request.limit, LIST_PAGE);
            Ok(convert::page(master.list(&tenant, after.as_ref(), limit).await?))
        })
        .await
    }

    async fn remove(&self, request: Request<RemoveRequest>) -> Result<Response<RemoveReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let (tenant, key) = (convert::tenant(&request.tenant)?, convert::key(&request.key)?);
            let promise = convert::promise(request.durability)?;
            master.remove(&tenant, &key, promise).await?;
            Ok(RemoveReply { durability: convert::promised(promise) })
        })
        .await
    }

    async fn batch_remove(&self, request: Request<BatchRemoveRequest>) -> Result<Response<BatchRemoveReply>, Status> {
        let request = request.into_inner();
        self.answer(|master| async move {
            let tenant = convert::tenant(&request.tenant)?;
            let promise = convert::promise(request.durability)?;
            let keys = request.keys.iter().map(|k| convert::key(k)).collect::<Result<Vec<_>, _>>()?;
            let results = master.batch_remove(&tenant, &keys, promise).await?;
            let results = results.into_iter().map(|result| one_removal(result, convert::promised(promise)));
            Ok(BatchRemoveReply { results: results.collect() })
        })
        .await
    }
}

fn one_removal(result: Result<(), MasterError>, durability: i32) -> RemoveResult {
    let result = match result {
        Ok(()) => remove_result::Result::Removed(RemoveReply { durability }),
        Err(error) => remove_result::Result::Error(convert::error(&error).shortened(RESULT_MESSAGE_BYTES)),
    };
    RemoveResult { result: Some(result) }
}

fn page_limit(asked: u32, most: usize) -> usize {
    if asked == 0 { most } else { (asked as usize).min(most) }
}
