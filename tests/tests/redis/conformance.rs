//! The suite that every backend passes, on a server that is durable.

use std::time::Duration;

use async_trait::async_trait;
use ha_kv::Kv as _;
use ha_kv::conformance::{self, Client, Factory};
use plimsoll_tests::RedisServer;

use crate::support::{connect, redis_or_skip, start};

#[derive(Debug)]
struct Redis(RedisServer);

#[async_trait]
impl Factory for Redis {
    async fn clients(&self, count: usize) -> Vec<Client> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(Client::full(connect(&self.0).await));
        }
        clients
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

#[tokio::test]
async fn redis_passes_the_conformance_suite() {
    let program = redis_or_skip!("redis_passes_the_conformance_suite");
    let redis = Redis(start(&program).await);
    let store = connect(&redis.0).await;
    assert!(store.capabilities().durable_ack.is_yes(), "{:?}", store.capabilities());
    let report = conformance::run(&redis).await;
    println!("{report}");
    assert!(report.skipped.is_empty(), "redis has everything, and yet: {report}");
}
