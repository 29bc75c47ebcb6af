//! Uses the crate as a client of another project does, by its public names only: what does not compile here any more breaks it.

use std::fmt::Debug;

use ha_rpc::v1::{ErrorCode, ErrorDetail};
use ha_rpc::{MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_BYTES, MAX_MESSAGE_BYTES};

fn shared<T: Debug + Send + Sync + 'static>() {}

#[test]
fn clients_and_messages_cross_threads() {
    shared::<ha_rpc::v1::metadata_service_client::MetadataServiceClient<tonic::transport::Channel>>();
    shared::<ha_rpc::v1::admin_service_client::AdminServiceClient<tonic::transport::Channel>>();
    shared::<ErrorDetail>();
}

#[test]
fn the_limits_are_these() {
    assert_eq!(MAX_MESSAGE_BYTES, 4 << 20, "both sides must agree, across releases");
    assert_eq!(MAX_HEADER_LIST_BYTES, 16 << 10);
    assert_eq!(MAX_CONCURRENT_STREAMS, 1024);
}

#[test]
fn a_typed_error_travels_in_the_status_and_nothing_else_looks_like_one() {
    let sent = ErrorDetail::new(ErrorCode::NotLeader, "this node follows; ask the leader");
    assert_eq!(ErrorDetail::of(&tonic::Status::from(sent.clone())), Some(sent));
    assert_eq!(ErrorDetail::of(&tonic::Status::unavailable("a proxy says so")), None);
}
