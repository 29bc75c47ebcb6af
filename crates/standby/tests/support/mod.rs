//! Owns what the tests share: the counter machine, a scribe that writes batches by hand, and how a standby is set up.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses its part")]

pub mod tamper;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ha_kv::{MemoryKv, TxnKv, TxnOutcome, WatchKv};
use ha_types::{ClusterId, LeaderGuard, ManualClock, MonoTime, SeededEntropy};
use oplog_core::record::{BatchHeader, OpenBatch, SealedRecord};
use oplog_core::{
    ApplyError, BatchStorage, DurablePrefix, EntryRef, FirstPrefix, LogKeys, NewEntry, OpenOptions, Position, Replica,
    Seq, StateMachine, claim_and_verify,
};
use standby::{Health, Standby, StandbyConfig, StandbyEnv, Step, StepError};

/// An op type that the counter cannot apply.
pub const BAD_OP: u8 = 200;

/// A state that is exactly the fold of the log: it keeps every payload, and trusts nobody about the order.
#[derive(Debug, Default, PartialEq, Eq, Clone)]
pub struct Counter {
    pub payloads: Vec<Vec<u8>>,
    pub base: u64,
}

impl StateMachine for Counter {
    fn last_applied(&self) -> Seq {
        Seq::new(self.base + self.payloads.len() as u64)
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        assert_eq!(Some(entry.seq), self.last_applied().next(), "S1: no entry is skipped or applied twice");
        if entry.op_type == BAD_OP {
            return Err(ApplyError { reason: format!("op type {BAD_OP} is not for counters") });
        }
        self.payloads.push(entry.payload.to_vec());
        Ok(())
    }
}

/// Leadership that a test switches.
#[derive(Debug)]
pub struct Switch(AtomicBool);

impl Switch {
    pub fn on() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }
}

impl LeaderGuard for Switch {
    fn serve_until(&self) -> Option<MonoTime> {
        self.holds().then_some(MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c1").unwrap())
}

pub async fn open(kv: Arc<dyn TxnKv>) -> BatchStorage {
    let options = OpenOptions { accept_lost_writes: true, max_batch_bytes: 2 << 20 };
    BatchStorage::open(kv, keys(), options).await.unwrap()
}

pub async fn fresh() -> (Arc<MemoryKv>, BatchStorage) {
    let kv = Arc::new(MemoryKv::new());
    (kv.clone(), open(kv).await)
}

pub fn config() -> StandbyConfig {
    StandbyConfig { retry_min: Duration::from_millis(1), retry_max: Duration::from_millis(50), ..Default::default() }
}

pub fn env(seed: u64) -> StandbyEnv {
    StandbyEnv { clock: Arc::new(ManualClock::new()), entropy: Arc::new(SeededEntropy::new(seed)), watch: None }
}

pub fn env_with_hints(seed: u64, watch: Arc<dyn WatchKv>) -> StandbyEnv {
    StandbyEnv { watch: Some(watch), ..env(seed) }
}

pub fn standby(storage: &BatchStorage) -> Standby<Counter> {
    standby_with(storage, config())
}

pub fn standby_with(storage: &BatchStorage, config: StandbyConfig) -> Standby<Counter> {
    Standby::new(storage.clone(), Replica::empty(Counter::default()), config, env(7)).unwrap()
}

/// Steps until the prefix is reached or the verdict is given.
pub async fn follow(standby: &mut Standby<Counter>) -> Result<Step, standby::Fault> {
    for _ in 0..100 {
        match standby.step().await {
            Ok(step) => return Ok(step),
            Err(StepError::Unhealthy(fault)) => return Err(fault),
            Err(StepError::Store(_)) => {}
        }
    }
    panic!("the store never answered");
}

pub fn is_unhealthy(standby: &Standby<Counter>) -> bool {
    matches!(standby.health(), Health::Unhealthy { .. })
}

/// A primary without a writer: it claims, and commits batches by hand. It knows what it was told is durable.
pub struct Scribe {
    pub storage: BatchStorage,
    pub prefix: DurablePrefix,
    pub crc: u32,
    /// Every durable payload, from entry 1 on.
    pub log: Vec<Vec<u8>>,
    /// Where each batch ended.
    pub positions: Vec<Position>,
}

impl Scribe {
    /// On a fresh log.
    pub async fn begin(storage: &BatchStorage) -> Self {
        let first = storage.create_first_prefix().await.unwrap();
        assert!(matches!(first, FirstPrefix::Created(_)));
        Self::take(storage, 1).await
    }

    /// Claims the log as it is.
    pub async fn take(storage: &BatchStorage, seed: u64) -> Self {
        let (clock, entropy, guard) = (ManualClock::new(), SeededEntropy::new(seed), Switch::on());
        let replica = Replica::empty(Counter::default());
        let pause = Duration::from_millis(1);
        let caught_up = claim_and_verify(storage.clone(), replica, &*guard, &clock, &entropy, pause).await.unwrap();
        let prefix = *caught_up.prefix();
        let log = caught_up.machine().payloads.clone();
        let crc = match prefix.batch_id.get() {
            0 => 0,
            _ => {
                let record = storage.read_batch(prefix.batch_id).await.unwrap().unwrap();
                oplog_core::record::BatchRecord::decode(record).unwrap().crc()
            }
        };
        Self { storage: storage.clone(), prefix, crc, log, positions: Vec::new() }
    }

    pub fn seal(&self, op_type: u8, payloads: &[Vec<u8>]) -> (DurablePrefix, SealedRecord) {
        let ops: Vec<_> = payloads.iter().map(|p| (op_type, p.clone())).collect();
        self.seal_ops(&ops)
    }

    pub fn seal_ops(&self, ops: &[(u8, Vec<u8>)]) -> (DurablePrefix, SealedRecord) {
        let batch_id = self.prefix.batch_id.next().unwrap();
        let first_seq = self.prefix.last_seq.next().unwrap();
        let epoch = self.prefix.epoch;
        self.seal_as(BatchHeader { batch_id, first_seq, epoch, prev_crc: self.crc, timestamp_ms: 1 }, ops)
    }

    pub fn seal_as(&self, header: BatchHeader, ops: &[(u8, Vec<u8>)]) -> (DurablePrefix, SealedRecord) {
        let mut batch = OpenBatch::new();
        for (op_type, payload) in ops {
            batch.push(&NewEntry { op_type: *op_type, tenant: "default", key: b"k", payload }).unwrap();
        }
        let sealed = batch.seal(header).unwrap();
        let batch_id = self.prefix.batch_id.next().unwrap();
        (DurablePrefix { batch_id, last_seq: sealed.last_seq, ..self.prefix }, sealed)
    }

    /// Commits one batch; `false` if the fence refused it.
    pub async fn append(&mut self, payloads: &[Vec<u8>]) -> bool {
        let (new, sealed) = self.seal(1, payloads);
        match self.storage.append(&self.prefix, &new, sealed.bytes).await.unwrap() {
            TxnOutcome::CompareFailed => false,
            TxnOutcome::Committed => {
                self.moved(new, sealed.crc);
                self.log.extend_from_slice(payloads);
                true
            }
        }
    }

    pub fn moved(&mut self, new: DurablePrefix, crc: u32) {
        (self.prefix, self.crc) = (new, crc);
        self.positions.push(Position { batch_id: new.batch_id, last_seq: new.last_seq, epoch: new.epoch, crc });
    }

    /// Commits `batches` batches of `entries` entries of `bytes` bytes.
    pub async fn fill(&mut self, batches: usize, entries: usize, bytes: usize) {
        for _ in 0..batches {
            let at = self.log.len();
            let payloads: Vec<_> = (at..at + entries).map(|n| payload(n, bytes)).collect();
            assert!(self.append(&payloads).await);
        }
    }
}

pub fn payload(n: usize, bytes: usize) -> Vec<u8> {
    let mut payload = (n as u64).to_le_bytes().to_vec();
    payload.resize(bytes.max(1), 0xa5);
    payload
}
