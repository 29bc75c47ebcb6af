//! Owns what the tests of the legacy log share: a state that passes holes, and entries put by hand as the original puts them.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{FaultyKv, RuntimeClock};
use ha_kv::{Kv, MemoryKv, RangeLimit, TxnKv};
use ha_types::{ClusterId, ManualClock, SeededEntropy, Seq};
use oplog_core::legacy::{
    CutoverCheck, CutoverDone, CutoverError, CutoverOptions, CutoverPlan, LegacyCommitError, LegacyEntry,
    LegacyFollower, LegacyLog, LegacyReplica, LegacyStartError, LegacyWriter, LegacyWriterConfig,
};
use oplog_core::{
    ApplyError, BatchStorage, EntryRef, LogError, LogKeys, NewEntry, OpenOptions, Outcome, ReplayFault, StateMachine,
    WriterEnv,
};
use parking_lot::Mutex;

/// Remembers every entry and every hole.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) at: u64,
    pub(crate) entries: Vec<(u64, String)>,
    pub(crate) holes: Vec<(u64, u64)>,
    pub(crate) refuse: Option<u64>,
}

impl StateMachine for Journal {
    fn last_applied(&self) -> Seq {
        Seq::new(self.at)
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        if self.refuse == Some(entry.seq.get()) {
            return Err(ApplyError { reason: "told to refuse it".into() });
        }
        self.at = entry.seq.get();
        self.entries.push((self.at, String::from_utf8_lossy(entry.payload).into_owned()));
        Ok(())
    }

    fn pass_hole(&mut self, through: Seq) -> Result<(), ApplyError> {
        self.holes.push((self.at + 1, through.get()));
        self.at = through.get();
        Ok(())
    }
}

impl Journal {
    pub(crate) fn seqs(&self) -> Vec<u64> {
        self.entries.iter().map(|(seq, _)| *seq).collect()
    }
}

pub(crate) fn keys(cluster: &str) -> LogKeys {
    LogKeys::of(&ClusterId::new(cluster).unwrap())
}

pub(crate) fn seq(n: u64) -> Seq {
    Seq::new(n)
}

/// The entry that tests put at `n`.
pub(crate) fn entry(n: u64) -> LegacyEntry {
    let payload = format!("p{n}");
    let new = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: payload.as_bytes() };
    LegacyEntry::new(seq(n), n.wrapping_add(1000), &new).unwrap()
}

pub(crate) async fn put(kv: &dyn Kv, keys: &LogKeys, entry: &LegacyEntry) {
    kv.put(&keys.legacy_entry(entry.seq), entry.encode()).await.unwrap();
}

/// Entries put one by one, and `latest` after them, as the original writes.
pub(crate) async fn fill(kv: &dyn Kv, keys: &LogKeys, seqs: impl IntoIterator<Item = u64>, latest: Option<u64>) {
    for n in seqs {
        put(kv, keys, &entry(n)).await;
    }
    if let Some(latest) = latest {
        kv.put(&keys.legacy_latest(), latest.to_string().into()).await.unwrap();
    }
}

pub(crate) fn log(kv: &Arc<MemoryKv>, keys: &LogKeys) -> LegacyLog {
    LegacyLog::new(Arc::clone(kv) as Arc<dyn TxnKv>, keys.clone())
}

pub(crate) fn follower(log: LegacyLog) -> (LegacyFollower<Journal>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (LegacyFollower::new(log, LegacyReplica::empty(Journal::default()), clock.clone(), 1 << 20), clock)
}

pub(crate) fn fault(error: LogError) -> ReplayFault {
    match error {
        LogError::Fault(fault) => fault,
        other => panic!("a fault, not {other}"),
    }
}

/// The runtime's own time, so that a paused test moves it.
pub(crate) fn env() -> WriterEnv {
    WriterEnv { clock: Arc::new(RuntimeClock::new()), entropy: Arc::new(SeededEntropy::new(7)) }
}

/// A client of `kv` and the log opened through it.
pub(crate) async fn open(kv: &Arc<MemoryKv>, keys: &LogKeys) -> (Arc<FaultyKv>, BatchStorage) {
    let client = FaultyKv::new(kv.clone(), 1);
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(client.clone(), keys.clone(), options).await.unwrap();
    (client, storage)
}

pub(crate) async fn plan(
    storage: &BatchStorage,
    options: CutoverOptions,
) -> Result<CutoverPlan<Journal>, CutoverError> {
    match CutoverPlan::prepare(storage, Journal::default(), options, env()).await? {
        CutoverCheck::Ready(plan) => Ok(*plan),
        CutoverCheck::Done(prefix) => panic!("cut over already: {prefix}"),
    }
}

pub(crate) async fn cut_over(
    storage: &BatchStorage,
    options: CutoverOptions,
) -> Result<CutoverDone<Journal>, CutoverError> {
    plan(storage, options).await?.execute().await
}

/// Everything in the store.
pub(crate) async fn contents(kv: &MemoryKv) -> Vec<(String, String)> {
    let pairs = kv.range(b"\0", b"\xff", RangeLimit::pairs(10_000)).await.unwrap().pairs;
    pairs.iter().map(|p| (p.key.escape_ascii().to_string(), p.value.escape_ascii().to_string())).collect()
}

/// What the operator says who has stopped the old primary.
pub(crate) fn stopped() -> CutoverOptions {
    CutoverOptions { old_primary_stopped: true, ..CutoverOptions::default() }
}

/// An entry for the writer.
pub(crate) fn new(payload: &str) -> NewEntry<'_> {
    NewEntry { op_type: 1, tenant: "default", key: b"key", payload: payload.as_bytes() }
}

/// A writer behind an empty state.
pub(crate) async fn start(storage: &BatchStorage) -> LegacyWriter {
    start_with(storage, LegacyWriterConfig::default()).await.unwrap()
}

pub(crate) async fn start_with(
    storage: &BatchStorage,
    config: LegacyWriterConfig,
) -> Result<LegacyWriter, LegacyStartError> {
    let replica = LegacyReplica::empty(Journal::default());
    let started = LegacyWriter::start(storage, replica, config, env()).await;
    started.map(|(_, writer)| writer).map_err(|failed| failed.error)
}

/// Every callback in the order in which it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<(u64, Outcome)>>>);

impl Ledger {
    pub(crate) fn commit(&self, writer: &LegacyWriter, payload: &str) -> Result<Seq, LegacyCommitError> {
        let ledger = Arc::clone(&self.0);
        writer.commit_with(new(payload), move |seq, outcome| ledger.lock().push((seq.get(), outcome)))
    }

    pub(crate) fn seen(&self) -> Vec<(u64, Outcome)> {
        self.0.lock().clone()
    }

    /// Waits for that many callbacks and gives all there are.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<(u64, Outcome)> {
        let enough = async {
            while self.seen().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), enough).await.expect("the callbacks come");
        self.seen()
    }
}
