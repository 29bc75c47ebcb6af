//! The gRPC interface of Plimsoll: generated messages, clients and servers, the limits both sides keep to, and how an error
//! travels. No logic: nothing here decides, waits, retries or follows a leader.
//!
#![doc = include_str!("../README.md")]

mod error_detail;
mod limits;

pub use limits::{
    HTTP2_KEEPALIVE_INTERVAL, HTTP2_KEEPALIVE_TIMEOUT, MAX_CONCURRENT_CALLS_PER_CONNECTION, MAX_CONCURRENT_STREAMS,
    MAX_ERROR_MESSAGE_BYTES, MAX_HEADER_LIST_BYTES, MAX_MESSAGE_BYTES, admin_client, admin_server, endpoint,
    metadata_client, metadata_server, server,
};

/// The messages and services of `plimsoll.v1`, as generated; the `.proto` files in `proto/plimsoll/v1` document them.
#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod v1 {
    tonic::include_proto!("plimsoll.v1");
}
