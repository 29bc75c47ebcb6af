//! Owns what these tests share: a state that trusts nobody about the order, entries put by hand, and a standby in paused time.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::RuntimeClock;
use ha_kv::{Kv, MemoryKv, TxnKv};
use ha_types::{Clock, MonoTime, SeededEntropy};
use oplog_core::legacy::LegacyEntry;
use oplog_core::{
    ApplyError, BatchStorage, DurablePrefix, EntryRef, NewEntry, Position, Replica, Seq, StateMachine, claim_and_verify,
};
use standby::{Fault, LegacyConfig, LegacyMode, Standby, StandbyConfig, StandbyEnv, Step, StepError};

use crate::support::{BAD_OP, Scribe, Switch, config, keys, open};

/// Every entry and every hole, and nothing twice.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) at: Seq,
    pub(crate) entries: Vec<(u64, String)>,
    pub(crate) holes: Vec<(u64, u64)>,
}

impl StateMachine for Journal {
    fn last_applied(&self) -> Seq {
        self.at
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        assert_eq!(Some(entry.seq), self.at.next(), "S1: no entry is skipped or applied twice");
        if entry.op_type == BAD_OP || entry.payload == b"bad" {
            return Err(ApplyError { reason: "told to refuse it".into() });
        }
        self.at = entry.seq;
        self.entries.push((self.at.get(), String::from_utf8_lossy(entry.payload).into_owned()));
        Ok(())
    }

    fn pass_hole(&mut self, through: Seq) -> Result<(), ApplyError> {
        self.holes.push((self.at.get() + 1, through.get()));
        self.at = through;
        Ok(())
    }
}

pub(crate) fn seq(n: u64) -> Seq {
    Seq::new(n)
}

pub(crate) fn text(n: u64) -> String {
    format!("entry number {n}, of the legacy log")
}

/// What a state holds that has applied these legacy entries.
pub(crate) fn entries(seqs: impl IntoIterator<Item = u64>) -> Vec<(u64, String)> {
    seqs.into_iter().map(|n| (n, text(n))).collect()
}

pub(crate) fn entry(n: u64) -> LegacyEntry {
    keyed(n, "key", None)
}

pub(crate) fn keyed(n: u64, key: &str, key_sequence_id: Option<u64>) -> LegacyEntry {
    let payload = text(n);
    let new = NewEntry { op_type: 1, tenant: "default", key: key.as_bytes(), payload: payload.as_bytes() };
    LegacyEntry { key_sequence_id, ..LegacyEntry::new(seq(n), 1000 + n, &new).unwrap() }
}

pub(crate) async fn put(kv: &dyn Kv, entry: &LegacyEntry) {
    kv.put(&keys().legacy_entry(entry.seq), entry.encode()).await.unwrap();
}

pub(crate) async fn latest(kv: &dyn Kv, latest: u64) {
    kv.put(&keys().legacy_latest(), latest.to_string().into()).await.unwrap();
}

/// Entries one by one, and `latest` after them, as the original writes.
pub(crate) async fn fill(kv: &dyn Kv, seqs: impl IntoIterator<Item = u64>, last: u64) {
    for n in seqs {
        put(kv, &entry(n)).await;
    }
    latest(kv, last).await;
}

/// A store with the entries `1..=last`.
pub(crate) async fn log_to(last: u64) -> Arc<MemoryKv> {
    let kv = Arc::new(MemoryKv::new());
    fill(&*kv, 1..=last, last).await;
    kv
}

/// The first prefix at `base`, as the cutover creates it.
pub(crate) async fn cut_over(kv: &dyn Kv, base: u64) -> DurablePrefix {
    let first = DurablePrefix { last_seq: seq(base), ..DurablePrefix::FRESH };
    kv.put(&keys().durable_prefix(), first.encode().into()).await.unwrap();
    first
}

/// The first primary after the cutover at `base`.
pub(crate) async fn scribe(kv: Arc<dyn TxnKv>, base: u64) -> Scribe {
    let storage = open(kv).await;
    let position = Position { last_seq: seq(base), ..Position::default() };
    let replica = Replica::restored(Journal { at: seq(base), ..Journal::default() }, position).unwrap();
    let (clock, entropy) = (RuntimeClock::new(), SeededEntropy::new(3));
    let pause = Duration::from_millis(1);
    let claimed = claim_and_verify(storage.clone(), replica, &*Switch::on(), &clock, &entropy, pause).await.unwrap();
    let prefix = *claimed.prefix();
    Scribe { storage, prefix, crc: 0, log: Vec::new(), positions: Vec::new() }
}

/// Batches of one entry each, which say so.
pub(crate) async fn batches(scribe: &mut Scribe, seqs: impl IntoIterator<Item = u64>) {
    for n in seqs {
        assert_eq!(scribe.prefix.last_seq.next(), Some(seq(n)));
        assert!(scribe.append(&[batched(n).into_bytes()]).await);
    }
}

pub(crate) fn batched(n: u64) -> String {
    format!("entry {n}, in a batch")
}

/// What a state holds that crossed at `base` and applied the batches up to `last`.
pub(crate) fn crossed(base: u64, last: u64) -> Vec<(u64, String)> {
    let mut all = entries(1..=base);
    all.extend((base + 1..=last).map(|n| (n, batched(n))));
    all
}

pub(crate) fn mode(config: LegacyConfig) -> LegacyMode<Journal> {
    LegacyMode { config, fresh: Arc::new(Journal::default) }
}

/// A standby whose clock is the runtime's, so that a paused test moves it.
pub(crate) async fn standby(kv: Arc<dyn TxnKv>) -> Standby<Journal> {
    standby_with(&open(kv).await, LegacyConfig::default())
}

pub(crate) fn standby_with(storage: &BatchStorage, legacy: LegacyConfig) -> Standby<Journal> {
    plain(storage, config()).with_legacy(mode(legacy)).unwrap()
}

/// One in which the legacy mode is not switched on.
pub(crate) fn plain(storage: &BatchStorage, config: StandbyConfig) -> Standby<Journal> {
    Standby::new(storage.clone(), Replica::empty(Journal::default()), config, reader_env()).unwrap()
}

/// Time of the runtime, no hints.
pub(crate) fn reader_env() -> StandbyEnv {
    StandbyEnv { clock: Arc::new(RuntimeClock::new()), entropy: Arc::new(SeededEntropy::new(7)), watch: None }
}

pub(crate) fn lenient() -> LegacyConfig {
    LegacyConfig { accept_lost_entries: true, ..LegacyConfig::default() }
}

/// The pause between two rounds.
pub(crate) const POLL: Duration = Duration::from_millis(100);

/// Rounds for `time`, as `run` makes them: the last step, or the verdict.
pub(crate) async fn follow_for(standby: &mut Standby<Journal>, time: Duration) -> Result<Step, Fault> {
    let clock = RuntimeClock::new();
    loop {
        let step = match standby.step().await {
            Ok(step) => Some(step),
            Err(StepError::Unhealthy(fault)) => return Err(fault),
            Err(StepError::Store(_)) => None,
        };
        tokio::time::sleep(POLL).await;
        if let (Some(step), true) = (step, clock.now() >= MonoTime::from_origin(time)) {
            return Ok(step);
        }
    }
}

/// One round that reached the store: enough for whatever needs no wait.
pub(crate) async fn follow(standby: &mut Standby<Journal>) -> Result<Step, Fault> {
    follow_for(standby, POLL).await
}
