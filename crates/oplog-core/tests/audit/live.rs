//! Others write, claim, cut over, take over and truncate while the audit reads, at every one of its reads: no fault comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ha_kv::{Capabilities, Kv, KvError, RangeLimit, RangePage, Txn, TxnKv, TxnOutcome};
use ha_types::{BatchId, Owner, Seq};
use oplog_core::audit::{AuditReport, audit};
use oplog_core::{BatchStorage, DurablePrefix};
use tokio::sync::Mutex;

use crate::kit::{Log, faults, options};
use crate::support::keys;

/// What somebody else does between two reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Append,
    Claim,
    CutOver,
    Mooncake,
    TakeOver,
    /// Another writer's claim under the same epoch, as after a store was rolled back.
    Usurp,
    /// Removes the durable prefix.
    LosePrefix,
    /// Removes all batches but the last one.
    Truncate,
    /// The legacy primary's next entry; `latest` lags.
    Entry,
    /// The legacy primary's next entry but one; the next one lands a moment later.
    EntriesTurned,
    /// `latest` catches up.
    Latest,
    /// Removes all legacy entries but the last one.
    CleanUp,
}

/// A store in which something happens before reads are answered.
#[derive(Debug)]
struct Beside {
    log: Mutex<Log>,
    reads: AtomicU64,
    /// Happens before this read.
    once: (u64, Act),
    /// Happens before every later one.
    then: Option<Act>,
}

impl Beside {
    fn new(log: &Log, once: (u64, Act), then: Option<Act>) -> Arc<Self> {
        Arc::new(Self { log: Mutex::new(log.clone()), reads: AtomicU64::new(0), once, then })
    }

    async fn before_read(&self) {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        let mut log = self.log.lock().await;
        if read == self.once.0 {
            log.act(self.once.1).await;
        } else if read > self.once.0
            && let Some(then) = self.then
        {
            log.act(then).await;
        }
    }
}

impl Log {
    async fn last_entry(&self) -> u64 {
        let (start, end) = keys().legacy_range(Seq::ZERO, Seq::new(u64::MAX));
        let page = self.kv.range(&start, &end, RangeLimit::pairs(10_000)).await.unwrap();
        page.pairs.last().and_then(|pair| keys().legacy_seq(&pair.key)).map_or(0, Seq::get)
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Append => self.batches(1).await,
            Act::Claim => self.claim(self.prefix.epoch.get() + 1).await,
            Act::CutOver => {
                let base = self.last_entry().await;
                self.put_key(&keys().legacy_latest(), base.to_string()).await;
                self.prefix = DurablePrefix { last_seq: Seq::new(base), ..DurablePrefix::FRESH };
                self.put_prefix().await;
                self.claim(1).await;
            }
            Act::Usurp => {
                self.prefix.owner = Owner::new(0xbad);
                self.put_prefix().await;
            }
            Act::LosePrefix => self.remove(&keys().durable_prefix()).await,
            Act::Mooncake => self.mooncake_batch().await,
            Act::TakeOver => {
                self.put_key(&keys().producer_view(), "8").await;
                self.claim(1).await;
            }
            Act::Truncate => {
                let (start, end) = (keys().all_batches().0, keys().batch(self.prefix.batch_id));
                self.kv.delete_range(&start, &end).await.unwrap();
            }
            Act::Entry => self.entry(self.last_entry().await + 1).await,
            Act::EntriesTurned => {
                let (log, last) = (self.clone(), self.last_entry().await);
                self.entry(last + 2).await;
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    log.entry(last + 1).await;
                });
            }
            Act::Latest => self.put_key(&keys().legacy_latest(), self.last_entry().await.to_string()).await,
            Act::CleanUp => {
                let (start, _) = keys().legacy_range(Seq::ZERO, Seq::new(1));
                let end = keys().legacy_entry(Seq::new(self.last_entry().await));
                self.kv.delete_range(&start, &end).await.unwrap();
            }
        }
    }
}

#[async_trait]
impl Kv for Beside {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.before_read().await;
        self.log.lock().await.kv.get(key).await
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.before_read().await;
        self.log.lock().await.kv.range(start, end, limit).await
    }

    async fn put(&self, _: &[u8], _: Bytes) -> Result<(), KvError> {
        panic!("an audit writes nothing")
    }

    async fn delete(&self, _: &[u8]) -> Result<(), KvError> {
        panic!("an audit writes nothing")
    }

    async fn delete_range(&self, _: &[u8], _: &[u8]) -> Result<u64, KvError> {
        panic!("an audit writes nothing")
    }

    fn capabilities(&self) -> Capabilities {
        self.log.try_lock().expect("nobody acts now").kv.capabilities()
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

#[async_trait]
impl TxnKv for Beside {
    async fn txn(&self, _: &Txn) -> Result<TxnOutcome, KvError> {
        panic!("an audit writes nothing")
    }
}

/// Audits `log` once for each read before which `once` may happen, and gives how many reads there were.
async fn at_every_read(log: impl AsyncFn() -> Log, once: Act, then: Option<Act>, sound: impl Fn(&AuditReport)) {
    let mut most = 1;
    let mut at = 0;
    while at < most {
        let log = log().await;
        let beside = Beside::new(&log, (at, once), then);
        let storage = BatchStorage::open_for_reading(beside.clone(), keys());
        let report = audit(&storage, &options(), &mut |_| {}).await.unwrap();
        let context = format!("{once:?} before read {at}, then {then:?}: {:?}", report.faults.listed());
        assert!(faults(&report).is_empty(), "{context}");
        sound(&report);
        most = most.max(beside.reads.load(Ordering::SeqCst)).min(60);
        at += 1;
    }
    assert!(most > 8, "only {most} reads: the log is too small for this test");
}

#[tokio::test(start_paused = true)]
async fn a_writer_of_ours_beside_the_audit_makes_no_fault() {
    for then in [None, Some(Act::Append), Some(Act::Claim)] {
        at_every_read(Log::ours, Act::Append, then, |report| {
            let prefix = report.prefix.unwrap();
            assert!(report.batches.last.unwrap() >= prefix.batch_id, "all that the prefix covers was judged");
        })
        .await;
    }
    at_every_read(Log::mixed, Act::Claim, Some(Act::Append), |_| {}).await;
    at_every_read(async || Log::empty(), Act::CutOver, Some(Act::Append), |_| {}).await;
}

#[tokio::test(start_paused = true)]
async fn a_cutover_beside_the_audit_makes_no_fault() {
    for then in [None, Some(Act::Append)] {
        at_every_read(Log::legacy, Act::CutOver, then, |report| {
            if report.prefix.is_some() {
                assert_eq!(report.legacy.base, Some(Seq::new(5)));
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn mooncakes_primary_and_a_take_over_beside_the_audit_make_no_fault() {
    at_every_read(Log::mooncakes, Act::Mooncake, Some(Act::Mooncake), |_| {}).await;
    for then in [None, Some(Act::Append)] {
        at_every_read(Log::mooncakes, Act::TakeOver, then, |_| {}).await;
    }
}

#[tokio::test(start_paused = true)]
async fn truncation_and_clean_up_beside_the_audit_make_no_fault() {
    let with_snapshot = async |log: Log| {
        log.put_key(&keys().snapshot("s1"), "an entry of the catalogue").await;
        log
    };
    for then in [None, Some(Act::Append), Some(Act::Truncate)] {
        at_every_read(async || with_snapshot(Log::ours().await).await, Act::Truncate, then, |_| {}).await;
        at_every_read(async || with_snapshot(Log::mixed().await).await, Act::Truncate, then, |_| {}).await;
    }
    for then in [None, Some(Act::Append)] {
        at_every_read(async || with_snapshot(Log::cut_over().await).await, Act::CleanUp, then, |_| {}).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_primary_beside_the_audit_makes_no_fault() {
    for then in [None, Some(Act::Entry), Some(Act::Latest)] {
        at_every_read(Log::legacy, Act::Entry, then, |_| {}).await;
    }
    at_every_read(Log::legacy, Act::EntriesTurned, Some(Act::Latest), |_| {}).await;
}

#[tokio::test(start_paused = true)]
async fn damage_beside_a_writer_is_still_named() {
    let log = Log::ours().await;
    log.remove(&keys().batch(BatchId::new(2))).await;
    let beside = Beside::new(&log, (0, Act::Append), Some(Act::Append));
    let storage = BatchStorage::open_for_reading(beside, keys());
    let report = audit(&storage, &options(), &mut |_| {}).await.unwrap();
    assert_eq!(faults(&report), [("batch_missing", crate::kit::batch_key(2))]);
}

#[tokio::test(start_paused = true)]
async fn l3_a_prefix_that_falls_while_the_audit_runs_is_named() {
    let mut claimed = Log::empty();
    claimed.claim(2).await;
    for (log, act, kind, expected, found) in [
        (Log::ours().await, Act::Usurp, "prefix_regressed", "owner 000000000000abc3", "owner 0000000000000bad"),
        (claimed, Act::LosePrefix, "prefix_missing", "as there was one (epoch 2", "no such key"),
    ] {
        let beside = Beside::new(&log, (1, act), None);
        let storage = BatchStorage::open_for_reading(beside, keys());
        let report = audit(&storage, &options(), &mut |_| {}).await.unwrap();
        assert_eq!(faults(&report), [(kind, "durable_prefix".to_owned())]);
        let fault = &report.faults.listed()[0];
        assert!(fault.expected.contains(expected) && fault.found.contains(found), "{fault}");
    }
}
