//! Owns the limits of both sides: message sizes, streams, concurrency, keep-alive.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Server};

use crate::v1::admin_service_client::AdminServiceClient;
use crate::v1::admin_service_server::{AdminService, AdminServiceServer};
use crate::v1::metadata_service_client::MetadataServiceClient;
use crate::v1::metadata_service_server::{MetadataService, MetadataServiceServer};

/// Largest message in either direction: a batch remove of 10,000 short keys, or a page of a listing.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Most calls open on one connection, as told to the peer.
pub const MAX_CONCURRENT_STREAMS: u32 = 1024;
/// Most calls of one connection that the server works on at once; more wait.
pub const MAX_CONCURRENT_CALLS_PER_CONNECTION: usize = 1024;
/// Largest header list.
pub const MAX_HEADER_LIST_BYTES: u32 = 16 << 10;
/// Longest message of an error that travels as a status: percent-encoded and beside its base64 it stays below
/// [`MAX_HEADER_LIST_BYTES`].
pub const MAX_ERROR_MESSAGE_BYTES: usize = 1024;
/// A silent connection is asked for a sign of life this often.
pub const HTTP2_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// A connection that does not answer for so long is closed.
pub const HTTP2_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A server with the limits set; the caller adds TLS and services.
#[must_use]
pub fn server() -> Server {
    Server::builder()
        .concurrency_limit_per_connection(MAX_CONCURRENT_CALLS_PER_CONNECTION)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
        .http2_keepalive_interval(Some(HTTP2_KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(HTTP2_KEEPALIVE_TIMEOUT))
        .tcp_nodelay(true)
}

/// The metadata service with the limits set.
#[must_use]
pub fn metadata_server<T: MetadataService>(service: T) -> MetadataServiceServer<T> {
    MetadataServiceServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// The admin service with the limits set.
#[must_use]
pub fn admin_server<T: AdminService>(service: T) -> AdminServiceServer<T> {
    AdminServiceServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// An endpoint with keep-alive set and `connect_timeout`; the caller adds TLS.
#[must_use]
pub fn endpoint(endpoint: Endpoint, connect_timeout: Duration) -> Endpoint {
    endpoint
        .connect_timeout(connect_timeout)
        .http2_keep_alive_interval(HTTP2_KEEPALIVE_INTERVAL)
        .keep_alive_timeout(HTTP2_KEEPALIVE_TIMEOUT)
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
        .tcp_nodelay(true)
}

/// A metadata client with the limits set.
#[must_use]
pub fn metadata_client(channel: Channel) -> MetadataServiceClient<Channel> {
    MetadataServiceClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// An admin client with the limits set.
#[must_use]
pub fn admin_client(channel: Channel) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}
