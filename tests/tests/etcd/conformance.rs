//! The suite that every backend passes, on every version of etcd that is there.

use std::time::Duration;

use async_trait::async_trait;
use ha_kv::conformance::{self, Client, Factory};
use plimsoll_tests::{EtcdProgram, EtcdServer};

use crate::support::{connect, start};

#[derive(Debug)]
struct Etcd(EtcdServer);

#[async_trait]
impl Factory for Etcd {
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

async fn run_on(program: EtcdProgram) {
    let report = conformance::run(&Etcd(start(&program).await)).await;
    println!("{}\n{report}", program.etcd.display());
    assert!(report.skipped.is_empty(), "etcd has everything, and yet: {report}");
}

#[tokio::test]
async fn etcd_passes_the_conformance_suite() {
    let mut versions = tokio::task::JoinSet::new();
    for program in plimsoll_tests::etcds("etcd_passes_the_conformance_suite") {
        versions.spawn(run_on(program));
    }
    versions.join_all().await;
}
