//! Owns what most tests begin with. It asserts nothing about Plimsoll.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Compare, EtcdKv, EtcdOptions, KvPair, Txn};
use plimsoll_tests::{EtcdProgram, EtcdServer, EtcdServerOptions};

/// Short enough to fail fast, long enough for a loaded machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// More than any call may take, connection included, on a machine that does other things too.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// The etcd to test on, or a return from a test that was announced as skipped.
macro_rules! etcd_or_skip {
    ($test:literal) => {
        match plimsoll_tests::etcd($test) {
            Some(program) => program,
            None => return,
        }
    };
}
pub(crate) use etcd_or_skip;

pub(crate) async fn start(program: &EtcdProgram) -> EtcdServer {
    start_with(program, EtcdServerOptions::default()).await
}

pub(crate) async fn start_with(program: &EtcdProgram, options: EtcdServerOptions<'_>) -> EtcdServer {
    EtcdServer::start(program, options).await.expect("etcd starts")
}

pub(crate) fn options<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> EtcdOptions {
    EtcdOptions {
        request_timeout: REQUEST_TIMEOUT,
        keep_alive: Duration::from_millis(500),
        ..EtcdOptions::new(endpoints)
    }
}

pub(crate) async fn connect(server: &EtcdServer) -> Arc<EtcdKv> {
    connect_to([server.endpoint()]).await
}

/// A client for a test that is not about slow answers: no answer is too slow for it.
pub(crate) async fn connect_patiently(server: &EtcdServer) -> Arc<EtcdKv> {
    let options = EtcdOptions { request_timeout: Duration::from_secs(60), ..options([server.endpoint()]) };
    Arc::new(EtcdKv::connect(options).await.expect("etcd is reachable"))
}

pub(crate) async fn connect_to<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Arc<EtcdKv> {
    Arc::new(EtcdKv::connect(options(endpoints)).await.expect("etcd is reachable"))
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
