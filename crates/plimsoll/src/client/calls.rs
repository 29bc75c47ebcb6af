//! Owns the calls by name. Each says whether it changes anything.

use ha_rpc::v1::{
    BatchRemoveReply, BatchRemoveRequest, GetReply, GetRequest, ListReply, ListRequest, ListSegmentsReply,
    ListSegmentsRequest, MountSegmentReply, MountSegmentRequest, PutEndReply, PutEndRequest, PutRevokeReply,
    PutRevokeRequest, PutStartReply, PutStartRequest, RemoveReply, RemoveRequest, SetPolicyReply, SetPolicyRequest,
    StatusReply, StatusRequest, StepDownReply, StepDownRequest, UnmountSegmentReply, UnmountSegmentRequest,
    UpdateSegmentReply, UpdateSegmentRequest,
};

use super::follow::Kind;
use super::{CallError, Client};

macro_rules! calls {
    ($($client:ident { $($name:ident($request:ty) -> $reply:ty, $kind:ident;)* })*) => {
        impl Client {
            $($(
                #[doc = concat!("`", stringify!($name), "`, answered by the leader.")]
                pub(crate) async fn $name(&self, request: $request) -> Result<$reply, CallError> {
                    self.call(Kind::$kind, request, |channel, request| async move {
                        ha_rpc::$client(channel).$name(request).await
                    })
                    .await
                }
            )*)*
        }
    };
}

calls! {
    metadata_client {
        mount_segment(MountSegmentRequest) -> MountSegmentReply, Change;
        update_segment(UpdateSegmentRequest) -> UpdateSegmentReply, Change;
        unmount_segment(UnmountSegmentRequest) -> UnmountSegmentReply, Change;
        list_segments(ListSegmentsRequest) -> ListSegmentsReply, Read;
        put_start(PutStartRequest) -> PutStartReply, Change;
        put_end(PutEndRequest) -> PutEndReply, Change;
        put_revoke(PutRevokeRequest) -> PutRevokeReply, Change;
        get(GetRequest) -> GetReply, Read;
        list(ListRequest) -> ListReply, Read;
        remove(RemoveRequest) -> RemoveReply, Change;
        batch_remove(BatchRemoveRequest) -> BatchRemoveReply, Change;
    }
    admin_client {
        step_down(StepDownRequest) -> StepDownReply, Order;
        set_policy(SetPolicyRequest) -> SetPolicyReply, Change;
        status(StatusRequest) -> StatusReply, Read;
    }
}
