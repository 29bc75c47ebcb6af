//! Owns what the writer's tests share: a log over one memory store, clients with faults, claims, and reading the log back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::faulty::{FaultyKv, RuntimeClock, Stage};
use ha_kv::{Kv, MemoryKv};
use ha_types::{AlwaysLeads, ClusterId, SeededEntropy, Seq};
use oplog_core::record::BatchRecord;
use oplog_core::{
    ApplyError, BatchId, BatchStorage, ClaimedLog, DurablePrefix, EntryRef, LogKeys, NewEntry, OpenOptions,
    OrderedWriter, Replica, Reservation, StateMachine, WriterConfig, WriterEnv, WriterStatus, claim_and_verify,
};

/// A machine that keeps the payloads.
#[derive(Debug, Default)]
pub(crate) struct Payloads(pub(crate) Vec<Vec<u8>>);

impl StateMachine for Payloads {
    fn last_applied(&self) -> Seq {
        Seq::new(self.0.len() as u64)
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.0.push(entry.payload.to_vec());
        Ok(())
    }
}

/// One log in one memory store, with a clock, and as many clients as a test wants.
pub(crate) struct Log {
    pub(crate) store: Arc<MemoryKv>,
    pub(crate) clock: Arc<RuntimeClock>,
    entropy: Arc<SeededEntropy>,
    seeds: AtomicU64,
}

/// One node: its client, and its writer.
pub(crate) struct Node {
    pub(crate) kv: Arc<FaultyKv>,
    pub(crate) writer: OrderedWriter,
}

impl Log {
    pub(crate) async fn new() -> Self {
        Self::seeded(1).await
    }

    pub(crate) async fn seeded(seed: u64) -> Self {
        let log = Self {
            store: Arc::new(MemoryKv::new()),
            clock: Arc::new(RuntimeClock::new()),
            entropy: Arc::new(SeededEntropy::new(seed)),
            seeds: AtomicU64::new(seed),
        };
        log.storage(log.client()).await.create_first_prefix().await.expect("a fresh log");
        log
    }

    /// Another client of the store, without faults so far. One that asks without end and without a pause, during which no timer
    /// can end the test, panics.
    pub(crate) fn client(&self) -> Arc<FaultyKv> {
        let kv = FaultyKv::new(Arc::clone(&self.store), self.seeds.fetch_add(1, Ordering::SeqCst));
        let asked = AtomicU64::new(0);
        kv.observe(move |op, stage| {
            if stage == Stage::Called {
                assert!(asked.fetch_add(1, Ordering::SeqCst) < 100_000, "asked the store without end, now for {op:?}");
            }
        });
        kv
    }

    pub(crate) fn keys() -> LogKeys {
        LogKeys::of(&ClusterId::new("c1").expect("a cluster id"))
    }

    pub(crate) async fn storage(&self, kv: Arc<FaultyKv>) -> BatchStorage {
        let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
        BatchStorage::open(kv, Self::keys(), options).await.expect("the log opens")
    }

    /// Claims the log through `kv`.
    pub(crate) async fn claim(&self, kv: Arc<FaultyKv>) -> ClaimedLog {
        self.claim_state(kv).await.1
    }

    pub(crate) async fn claim_state(&self, kv: Arc<FaultyKv>) -> (Payloads, ClaimedLog) {
        let storage = self.storage(kv).await;
        let replica = Replica::empty(Payloads::default());
        let pause = Duration::from_millis(1);
        let claim = claim_and_verify(storage, replica, &AlwaysLeads, &*self.clock, &*self.entropy, pause).await;
        claim.expect("the claim").into_parts()
    }

    pub(crate) fn env(&self) -> WriterEnv {
        WriterEnv { clock: self.clock.clone(), entropy: self.entropy.clone() }
    }

    /// A node that has claimed the log and writes.
    pub(crate) async fn node(&self, config: WriterConfig) -> Node {
        let kv = self.client();
        let claimed = self.claim(kv.clone()).await;
        let writer = OrderedWriter::start(claimed, config, self.env()).expect("the writer starts");
        Node { kv, writer }
    }

    /// The prefix in the store.
    pub(crate) async fn prefix(&self) -> DurablePrefix {
        let value = self.store.get(&Self::keys().durable_prefix()).await.expect("memory").expect("a prefix");
        DurablePrefix::decode(&value).expect("a prefix that decodes")
    }

    /// The batches in the store, each checked against the one before it (L1, L2, L16).
    pub(crate) async fn batches(&self) -> Vec<BatchRecord> {
        let prefix = self.prefix().await;
        let mut batches: Vec<BatchRecord> = Vec::new();
        for id in 1..=prefix.batch_id.get() {
            let bytes = self.store.get(&Self::keys().batch(BatchId::new(id))).await.expect("memory").expect("a batch");
            let batch = BatchRecord::decode(bytes).expect("a batch that decodes");
            let (last, crc) = batches.last().map_or((0, 0), |b| (b.last_seq().get(), b.crc()));
            assert_eq!(batch.header().batch_id.get(), id);
            assert_eq!(batch.header().first_seq.get(), last + 1, "batch {id} does not follow");
            assert_eq!(batch.header().prev_crc, crc, "batch {id} does not name the one before it");
            batches.push(batch);
        }
        assert_eq!(batches.last().map_or(0, |b| b.last_seq().get()), prefix.last_seq.get());
        let beyond = Self::keys().batch(prefix.batch_id.next().expect("room"));
        assert_eq!(self.store.get(&beyond).await.expect("memory"), None, "a batch above the prefix");
        batches
    }

    /// The payloads in the store in order of sequence.
    pub(crate) async fn payloads(&self) -> Vec<Vec<u8>> {
        let batches = self.batches().await;
        batches.iter().flat_map(|b| b.entries().map(|e| e.payload.to_vec()).collect::<Vec<_>>()).collect()
    }
}

/// Runs a test's body, which fails instead of waiting for what never comes. Only for paused time: the bound is in its minutes.
pub(crate) async fn ends(body: impl Future<Output = ()>) {
    let bound = Duration::from_secs(600);
    tokio::time::timeout(bound, body).await.unwrap_or_else(|_| panic!("the test still waits after {bound:?}"));
}

/// An entry that carries `payload`.
pub(crate) fn entry(payload: &[u8]) -> NewEntry<'_> {
    NewEntry { op_type: 1, tenant: "default", key: b"key", payload }
}

impl Node {
    pub(crate) fn reserve(&self) -> Reservation {
        self.writer.reserve().expect("a slot")
    }

    pub(crate) fn status(&self) -> WriterStatus {
        self.writer.status().borrow().clone()
    }

    /// Waits until the status is as wanted: two hours, which is no time where time is paused.
    pub(crate) async fn until(&self, wanted: impl FnMut(&WriterStatus) -> bool) -> WriterStatus {
        let mut status = self.writer.status();
        let waited = tokio::time::timeout(Duration::from_secs(7200), status.wait_for(wanted)).await;
        waited.expect("the status never came").expect("the writer holds the sender").clone()
    }
}
