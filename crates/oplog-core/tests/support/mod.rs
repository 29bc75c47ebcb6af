//! Owns what the tests of the log share: a small state machine, a guard, a writer by hand and a store that lies.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

mod crooked;
mod hand;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ha_kv::TxnKv;
use ha_types::{ClusterId, LeaderGuard, ManualClock, MonoTime, SeededEntropy, Seq};
use oplog_core::{
    ApplyError, BatchStorage, CaughtUp, ClaimFailed, EntryRef, LogKeys, OpenOptions, Replica, StateMachine,
    claim_and_verify,
};

pub(crate) use self::crooked::Crooked;
pub(crate) use self::hand::Hand;

/// Remembers every entry, and refuses the one it is told to.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) entries: Vec<(u64, Vec<u8>)>,
    pub(crate) refuse: Option<u64>,
    /// Claims to have applied an entry that it has not.
    pub(crate) lie_at: Option<u64>,
}

impl StateMachine for Journal {
    fn last_applied(&self) -> Seq {
        Seq::new(self.entries.last().map_or(0, |(seq, _)| *seq))
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        let seq = entry.seq.get();
        if self.refuse == Some(seq) {
            return Err(ApplyError { reason: "told to refuse it".into() });
        }
        if self.lie_at != Some(seq) {
            self.entries.push((seq, entry.payload.to_vec()));
        }
        Ok(())
    }
}

impl Journal {
    /// S1: nothing skipped, nothing twice, each entry the one that was written.
    pub(crate) fn assert_is_fold_of(&self, written: &[Vec<u8>]) {
        let expected: Vec<_> = (1..).zip(written.iter().cloned()).collect();
        assert_eq!(self.entries, expected);
    }
}

/// Leadership that a test gives and takes.
#[derive(Debug)]
pub(crate) struct Guard(AtomicBool);

impl Guard {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(true)))
    }

    pub(crate) fn lose(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl LeaderGuard for Guard {
    fn serve_until(&self) -> Option<MonoTime> {
        self.holds().then_some(MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c1").unwrap())
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions { accept_lost_writes: true, ..OpenOptions::default() }
}

pub(crate) async fn open(kv: Arc<dyn TxnKv>) -> BatchStorage {
    BatchStorage::open(kv, keys(), options()).await.unwrap()
}

/// An open log with its first prefix.
pub(crate) async fn fresh(kv: Arc<dyn TxnKv>) -> BatchStorage {
    let storage = open(kv).await;
    storage.create_first_prefix().await.unwrap();
    storage
}

pub(crate) async fn claim(
    storage: &BatchStorage,
    replica: Replica<Journal>,
    guard: &Guard,
    seed: u64,
) -> Result<CaughtUp<Journal>, Box<ClaimFailed<Journal>>> {
    let (clock, entropy) = (ManualClock::new(), SeededEntropy::new(seed));
    claim_and_verify(storage.clone(), replica, guard, &clock, &entropy, Duration::from_millis(10)).await
}

/// Claims with an empty replica that has leadership.
pub(crate) async fn claim_new(storage: &BatchStorage, seed: u64) -> CaughtUp<Journal> {
    claim(storage, Replica::empty(Journal::default()), &Guard::new(), seed).await.unwrap()
}
