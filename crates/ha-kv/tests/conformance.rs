//! Runs the exported suite on the backends that need no server.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::conformance::{self, Client, Factory};
use ha_kv::faulty::FaultyKv;
use ha_kv::{MemoryKv, SqliteKv, SqliteOptions};
use ha_types::{ManualClock, SeededEntropy};

#[derive(Debug)]
struct Memory {
    clock: Arc<ManualClock>,
    store: Arc<MemoryKv>,
}

impl Memory {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        Self { store: Arc::new(MemoryKv::with_clock(clock.clone())), clock }
    }
}

#[async_trait::async_trait]
impl Factory for Memory {
    async fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|_| Client::full(self.store.clone())).collect()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

#[derive(Debug)]
struct Faulty(Memory);

#[async_trait::async_trait]
impl Factory for Faulty {
    async fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|seed| Client::full(FaultyKv::new(self.0.store.clone(), seed as u64))).collect()
    }

    async fn pass(&self, time: Duration) {
        self.0.pass(time).await;
    }
}

/// Each client is a handle of its own, with its own clock origin, as another process would have.
#[derive(Debug)]
struct Sqlite {
    clock: Arc<ManualClock>,
    entropy: Arc<SeededEntropy>,
    directory: tempfile::TempDir,
}

#[async_trait::async_trait]
impl Factory for Sqlite {
    async fn clients(&self, count: usize) -> Vec<Client> {
        let mut clients = Vec::new();
        for _ in 0..count {
            let mut options = SqliteOptions::new(self.directory.path().join("store"));
            options.max_reply_bytes = 1 << 20;
            let store =
                SqliteKv::open(options, self.clock.clone(), self.entropy.clone()).await.expect("the file opens");
            clients.push(Client::full(Arc::new(store)));
        }
        clients
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

#[tokio::test]
async fn memory_keeps_its_promises() {
    let report = conformance::run(&Memory::new()).await;
    let skipped: Vec<_> = report.skipped.iter().map(|(name, _)| *name).collect();
    assert_eq!(skipped, ["replies_above_the_limit_are_paged"], "{report}");
}

#[tokio::test]
async fn memory_with_small_limits_keeps_its_promises() {
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryKv::with_clock(clock.clone()).with_limits(64 << 10, 16, 128 << 10));
    let report = conformance::run(&Memory { clock, store }).await;
    assert_eq!(report.skipped, [], "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faulty_without_faults_keeps_the_stores_promises() {
    let report = conformance::run(&Faulty(Memory::new())).await;
    assert_eq!(report.skipped.len(), 1, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_its_promises() {
    let factory = Sqlite {
        clock: Arc::new(ManualClock::new()),
        entropy: Arc::new(SeededEntropy::new(1)),
        directory: tempfile::tempdir().expect("a directory for the test"),
    };
    let report = conformance::run(&factory).await;
    assert_eq!(report.skipped, [], "{report}");
}
