//! Owns what most tests begin with. It asserts nothing about Plimsoll.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Compare, KvError, KvPair, RedisKv, RedisOptions, Txn};
use ha_types::SystemEntropy;
use plimsoll_tests::{REDIS_DURABLE, RedisProgram, RedisServer, RedisServerOptions};

/// Short enough to fail fast, long enough for a loaded machine.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The Redis to test on, or a return from a test that was announced as skipped.
macro_rules! redis_or_skip {
    ($test:literal) => {
        match plimsoll_tests::redis($test) {
            Some(program) => program,
            None => return,
        }
    };
}
pub(crate) use redis_or_skip;

/// A server that keeps what it acknowledges.
pub(crate) async fn start(program: &RedisProgram) -> RedisServer {
    start_with(program, REDIS_DURABLE).await
}

pub(crate) async fn start_with(program: &RedisProgram, settings: &[(&str, &str)]) -> RedisServer {
    let options = RedisServerOptions { settings, ..RedisServerOptions::default() };
    RedisServer::start(program, options).await.expect("redis starts")
}

pub(crate) fn options(address: SocketAddr) -> RedisOptions {
    RedisOptions { request_timeout: REQUEST_TIMEOUT, ..RedisOptions::single(address.to_string()) }
}

pub(crate) async fn open(options: RedisOptions) -> Result<RedisKv, KvError> {
    RedisKv::connect(options, Arc::new(SystemEntropy)).await
}

pub(crate) async fn connect(server: &RedisServer) -> Arc<RedisKv> {
    connect_to(server.address()).await
}

pub(crate) async fn connect_to(address: SocketAddr) -> Arc<RedisKv> {
    Arc::new(open(options(address)).await.expect("redis is reachable"))
}

/// Sets `key` to `new` if it holds `old`.
pub(crate) fn swap(key: &'static str, old: &'static str, new: &'static str) -> Txn {
    Txn {
        compares: vec![Compare::ValueEquals { key: key.into(), value: old.into() }],
        puts: vec![KvPair::new(key, new)],
        deletes: Vec::new(),
    }
}

pub(crate) fn text(value: Option<Bytes>) -> Option<String> {
    value.map(|v| String::from_utf8(v.into()).expect("tests write text"))
}
