//! Owns the admin service: status on every node, the rest on the leader.

use std::sync::Arc;

use ha_rpc::v1::admin_service_server::AdminService as Service;
use ha_rpc::v1::{
    Durability, SetPolicyReply, SetPolicyRequest, StatusReply, StatusRequest, StepDownReply, StepDownRequest,
};
use master::{Master, MasterError, Policy, PolicyChange};
use tonic::{Request, Response, Status};

use super::convert;
use crate::node::Shared;

/// The admin service of one node.
#[derive(Clone, Debug)]
pub(super) struct AdminService {
    node: Arc<Shared>,
}

impl AdminService {
    pub(super) fn new(node: Arc<Shared>) -> Self {
        Self { node }
    }
}

/// The times after the change, or the times as they are if none was named. A time that is named with its value of now is logged
/// all the same: the value may still be on its way, and naming it again is how the quarantine after shorter times shrinks.
async fn changed_policy(master: &Master, request: SetPolicyRequest) -> Result<Policy, MasterError> {
    if request == SetPolicyRequest::default() {
        return master.durable_policy().await;
    }
    let SetPolicyRequest { put_grant_ms, default_lease_ms, longest_lease_ms } = request;
    master.change_policy(PolicyChange { put_grant_ms, default_lease_ms, longest_lease_ms }).await
}

#[tonic::async_trait]
impl Service for AdminService {
    async fn step_down(&self, _: Request<StepDownRequest>) -> Result<Response<StepDownReply>, Status> {
        let call = self.node.enter().await?;
        call.term.ask_to_step_down();
        Ok(Response::new(StepDownReply { epoch: call.term.epoch.get() }))
    }

    async fn set_policy(&self, request: Request<SetPolicyRequest>) -> Result<Response<SetPolicyReply>, Status> {
        let request = request.into_inner();
        let call = self.node.enter().await?;
        let master = &call.term.master;
        match changed_policy(master, request).await {
            Ok(policy) => {
                let policy = Some(convert::policy(policy));
                Ok(Response::new(SetPolicyReply { durability: Durability::Durable.into(), policy }))
            }
            Err(MasterError::NotLeader { reason }) => Err(self.node.not_leader(&reason).await.into()),
            Err(error) => Err(convert::error(&error).into()),
        }
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        let figures = self.node.figures();
        let (durable_batch_id, durable_seq) = figures.durable();
        let master = figures.term.as_ref().map(|t| &t.master);
        Ok(Response::new(StatusReply {
            node: self.node.info.node.to_string(),
            cluster: self.node.info.cluster.to_string(),
            role: figures.role.role.wire().into(),
            reason: figures.role.reason.clone().unwrap_or_default(),
            epoch: figures.epoch(),
            durable_batch_id,
            durable_seq,
            applied_seq: figures.applied(),
            leader_address: self.node.leader_address().await.unwrap_or_default(),
            objects: master.map_or(0, |m| m.objects),
            quarantine_ms: master.map_or(0, |m| m.quarantine_ms),
            policy: master.map(|m| convert::policy(m.policy)),
        }))
    }
}
