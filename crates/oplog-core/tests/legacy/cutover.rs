//! Owns the tests of the cutover's rules: the base, what is refused, and that a refusal changes nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ha_kv::test_kit::Detour;
use ha_kv::{Kv, KvError, MemoryKv, RangeLimit, RangePage, TxnKv};
use ha_types::{AlwaysLeads, BatchId, Seq};
use oplog_core::legacy::{CutoverCheck, CutoverError, CutoverOptions, CutoverPlan, LegacyHole, OLD_PRIMARY_QUIET};
use oplog_core::record::BatchRef;
use oplog_core::{
    BatchStorage, DurablePrefix, FaultKind, FirstPrefix, LogError, LogKeys, NewEntry, OpenOptions, OrderedWriter,
    Outcome, WriterConfig, claim_and_verify,
};
use parking_lot::Mutex;

use crate::support::{Journal, contents, cut_over, entry, env, fill, keys, open, plan, put, seq, stopped};

fn first(base: u64) -> DurablePrefix {
    DurablePrefix { last_seq: seq(base), ..DurablePrefix::FRESH }
}

async fn legacy_log(seqs: impl IntoIterator<Item = u64>, latest: Option<u64>) -> (Arc<MemoryKv>, LogKeys) {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, seqs, latest).await;
    (kv, keys)
}

/// Refused, and nothing in the store has changed.
async fn refused(kv: &Arc<MemoryKv>, keys: &LogKeys, options: CutoverOptions) -> CutoverError {
    let (_, storage) = open(kv, keys).await;
    let before = contents(kv).await;
    let error = cut_over(&storage, options).await.unwrap_err();
    assert_eq!(contents(kv).await, before, "{error}");
    error
}

fn kind(error: CutoverError) -> FaultKind {
    match error {
        CutoverError::Log(LogError::Fault(fault)) => fault.kind,
        other => panic!("a fault, not {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_compatibility_cutover_initialises_the_prefix_from_latest() {
    let (kv, keys) = legacy_log(1..=7, Some(7)).await;
    let (_, storage) = open(&kv, &keys).await;
    let before = contents(&kv).await;
    let done = cut_over(&storage, CutoverOptions::default()).await.unwrap();
    assert_eq!((done.prefix, done.base), (FirstPrefix::Created(first(7)), seq(7)));
    assert_eq!((done.holes.len(), done.above), (0, None));
    let replica = done.replica.unwrap();
    assert_eq!(replica.machine().seqs(), (1..=7).collect::<Vec<_>>());
    assert_eq!((replica.position().batch_id, replica.position().last_seq), (BatchId::ZERO, seq(7)));
    let mut after = contents(&kv).await;
    after.retain(|pair| !before.contains(pair));
    assert_eq!(after, [("/oplog/c/durable_prefix".to_owned(), first(7).encode())], "one key, and nothing else");
}

#[tokio::test(start_paused = true)]
async fn legacy_compatibility_cutover_does_not_look_for_a_higher_sequence() {
    let (kv, keys) = legacy_log((1..=9).chain([20]), Some(6)).await;
    let (_, storage) = open(&kv, &keys).await;
    let done = cut_over(&storage, CutoverOptions::default()).await.unwrap();
    assert_eq!(done.base, seq(6), "latest is trusted");
    assert_eq!(done.replica.unwrap().machine().seqs(), (1..=6).collect::<Vec<_>>());
    let alarm = done.above.unwrap();
    assert_eq!((alarm.kind, alarm.seq), (FaultKind::LegacyAboveBase, Some(seq(7))), "and the entry is named");
}

#[tokio::test(start_paused = true)]
async fn l14_legacy_compatibility_the_first_batch_follows_latest_which_is_never_written_again() {
    let (kv, keys) = legacy_log(1..=5, Some(5)).await;
    let (client, storage) = open(&kv, &keys).await;
    let written = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&written);
    client.on_txn(move |txn| log.lock().extend(txn.puts.iter().map(|put| put.key.clone())));
    let replica = cut_over(&storage, stopped()).await.unwrap().replica.unwrap();
    let env = env();
    let pause = Duration::from_millis(10);
    let claimed =
        claim_and_verify(storage.clone(), replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await.unwrap();
    let (_, claimed) = claimed.into_parts();
    let writer = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why).unwrap();
    for _ in 0..3 {
        let new = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: b"p" };
        assert_eq!(writer.ready().await.unwrap().commit(new).unwrap().await, Outcome::Durable);
    }
    let record = storage.read_batch(BatchId::new(1)).await.unwrap().unwrap();
    assert_eq!(BatchRef::decode(&record).unwrap().header().first_seq, seq(6), "first_seq == legacy_latest + 1");
    assert_eq!(kv.get(&keys.legacy_latest()).await.unwrap().as_deref(), Some(&b"5"[..]));
    let legacy = |key: &[u8]| keys.legacy_seq(key).is_some() || key == &keys.legacy_latest()[..];
    assert!(written.lock().len() > 4 && !written.lock().iter().any(|key| legacy(key)), "no entry in both formats");
}

#[tokio::test(start_paused = true)]
async fn an_empty_cluster_is_cut_over_at_zero_and_what_is_cut_over_is_found() {
    let (kv, keys) = legacy_log([], None).await;
    let (_, storage) = open(&kv, &keys).await;
    let done = cut_over(&storage, stopped()).await.unwrap();
    assert_eq!(done.prefix, FirstPrefix::Created(DurablePrefix::FRESH));
    let again = CutoverPlan::prepare(&storage, Journal::default(), stopped(), env()).await.unwrap();
    assert!(matches!(again, CutoverCheck::Done(found) if found == DurablePrefix::FRESH));
}

#[tokio::test(start_paused = true)]
async fn latest_missing_or_no_number_is_refused() {
    let (kv, keys) = legacy_log(1..=3, None).await;
    assert_eq!(kind(refused(&kv, &keys, stopped()).await), FaultKind::LegacyLatest);
    for bad in ["three", "03", "", "18446744073709551616", "18446744073709551615"] {
        kv.put(&keys.legacy_latest(), bad.into()).await.unwrap();
        assert_eq!(kind(refused(&kv, &keys, stopped()).await), FaultKind::LegacyLatest, "{bad:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_elected_old_primary_is_refused_unless_it_was_stopped() {
    let (kv, keys) = legacy_log(1..=3, Some(3)).await;
    kv.put(b"mooncake-store/c/master_view", "10.0.0.1:50051".into()).await.unwrap();
    kv.put(b"mooncake-store/c2/master_view", "another cluster's".into()).await.unwrap();
    let error = refused(&kv, &keys, CutoverOptions::default()).await;
    let CutoverError::OldPrimaryElected { key, found } = error else { panic!("{error}") };
    assert_eq!((key.as_str(), found.as_str()), ("mooncake-store/c/master_view", "10.0.0.1:50051"));
    let (_, storage) = open(&kv, &keys).await;
    assert_eq!(cut_over(&storage, stopped()).await.unwrap().base, seq(3));
}

#[tokio::test(start_paused = true)]
async fn a_latest_that_moves_within_five_seconds_is_refused() {
    let (kv, keys) = legacy_log(1..=4, Some(3)).await;
    let (_, storage) = open(&kv, &keys).await;
    let env = env();
    let begun = env.clock.now();
    let (mover, latest) = (kv.clone(), keys.legacy_latest());
    let moves = tokio::spawn(async move {
        tokio::time::sleep(OLD_PRIMARY_QUIET - Duration::from_millis(1)).await;
        mover.put(&latest, "4".into()).await.unwrap();
    });
    let planned = CutoverPlan::prepare(&storage, Journal::default(), CutoverOptions::default(), env.clone()).await;
    moves.await.unwrap();
    let error = planned.unwrap_err();
    let CutoverError::OldPrimaryWrites { key, expected, found } = error else { panic!("{error}") };
    assert_eq!((key.as_str(), expected.as_str(), found.as_str()), ("/oplog/c/latest", "\"3\"", "\"4\""));
    assert!(env.clock.now().saturating_since(begun) >= OLD_PRIMARY_QUIET);
    assert_eq!(storage.read_prefix().await.unwrap(), None);
    assert_eq!(cut_over(&storage, CutoverOptions::default()).await.unwrap().base, seq(4), "quiet now");
}

#[tokio::test(start_paused = true)]
async fn the_transaction_compares_what_the_plan_rests_on() {
    let view = "mooncake-store/c/master_view";
    for (key, value) in [("/oplog/c/latest", "4"), ("/oplog/c/latest", "2"), (view, "new")] {
        let (kv, keys) = legacy_log(1..=4, Some(3)).await;
        let (_, storage) = open(&kv, &keys).await;
        let planned = plan(&storage, stopped()).await.unwrap();
        kv.put(key.as_bytes(), value.into()).await.unwrap();
        let error = planned.execute().await.unwrap_err();
        assert!(matches!(&error, CutoverError::OldPrimaryWrites { key: named, .. } if named == key), "{error}");
        assert_eq!(storage.read_prefix().await.unwrap(), None);
    }
    // An operator who says that it was stopped has the key compared as it was read.
    let (kv, keys) = legacy_log(1..=3, Some(3)).await;
    kv.put(view.as_bytes(), "old".into()).await.unwrap();
    let (_, storage) = open(&kv, &keys).await;
    let planned = plan(&storage, stopped()).await.unwrap();
    kv.put(view.as_bytes(), "elected meanwhile".into()).await.unwrap();
    assert!(matches!(planned.execute().await.unwrap_err(), CutoverError::OldPrimaryWrites { .. }));
}

#[tokio::test(start_paused = true)]
async fn holes_are_listed_and_refused_unless_accepted() {
    let hole = |first, last| LegacyHole { first: seq(first), last: seq(last) };
    let (kv, keys) = legacy_log([1, 2, 5, 6, 8], Some(10)).await;
    let error = refused(&kv, &keys, stopped()).await;
    assert!(error.to_string().contains("3 to 4, 7, 9 to 10"), "{error}");
    let CutoverError::Holes { key, holes, missing, base } = error else { panic!("{error}") };
    assert_eq!((key.as_str(), missing, base), ("/oplog/c/00000000000000000003", 5, seq(10)));
    assert_eq!(holes, [hole(3, 4), hole(7, 7), hole(9, 10)]);
    let (_, storage) = open(&kv, &keys).await;
    let accept = CutoverOptions { accept_holes: true, ..stopped() };
    let done = cut_over(&storage, accept).await.unwrap();
    assert_eq!((done.base, done.holes), (seq(10), holes));
    let replica = done.replica.unwrap();
    assert_eq!(replica.machine().seqs(), [1, 2, 5, 6, 8]);
    assert_eq!(replica.machine().holes, [(3, 4), (7, 7), (9, 10)]);
}

#[tokio::test(start_paused = true)]
async fn a_hole_of_any_length_is_told_without_counting_it_out() {
    let (kv, keys) = legacy_log([1, u64::MAX - 2], Some(u64::MAX - 1)).await;
    let error = refused(&kv, &keys, stopped()).await;
    assert!(matches!(error, CutoverError::Holes { missing, .. } if missing == u64::MAX - 3), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_log_whose_start_is_gone_is_refused_by_name_whatever_is_accepted() {
    let accept = CutoverOptions { accept_holes: true, ..stopped() };
    for seqs in [vec![4, 5], vec![], vec![9]] {
        let (kv, keys) = legacy_log(seqs, Some(5)).await;
        kv.put(b"/oplog/c/snapshot/20260719_101500_000/sequence_id", "4".into()).await.unwrap();
        let error = refused(&kv, &keys, accept).await;
        assert!(error.to_string().contains("/oplog/c/00000000000000000001"), "{error}");
        assert!(error.to_string().contains("a snapshot of ours"), "{error}");
        assert_eq!(kind(error), FaultKind::LegacyStartGone);
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_cannot_be_read_is_refused_and_named() {
    let (kv, keys) = legacy_log(1..=3, Some(3)).await;
    let mut other = entry(2);
    other.seq = seq(9);
    kv.put(&keys.legacy_entry(seq(2)), other.encode()).await.unwrap();
    let error = refused(&kv, &keys, stopped()).await;
    assert!(error.to_string().contains("/oplog/c/00000000000000000002: expected sequence_id"), "{error}");
    assert_eq!(kind(error), FaultKind::LegacyUndecodable);
    let (_, storage) = open(&kv, &keys).await;
    put(&*kv, &keys, &entry(2)).await;
    let refusing = Journal { refuse: Some(2), ..Journal::default() };
    let error = CutoverPlan::prepare(&storage, refusing, stopped(), env()).await.unwrap_err();
    assert_eq!(kind(error), FaultKind::Apply);
}

#[tokio::test(start_paused = true)]
async fn last_seq_above_reality_below_latest_below_the_prefix_and_after_cutover_is_refused() {
    let with = |n| CutoverOptions { last_seq: Some(seq(n)), ..stopped() };
    let (kv, keys) = legacy_log(1..=6, Some(5)).await;
    let error = refused(&kv, &keys, with(7)).await;
    assert!(matches!(&error, CutoverError::LastSeqAboveReality { key, .. } if key.ends_with("07")), "{error}");
    let error = refused(&kv, &keys, with(3)).await;
    assert!(matches!(&error, CutoverError::LastSeqBelowLatest { key, .. } if key.ends_with("04")), "{error}");
    let (_, storage) = open(&kv, &keys).await;
    let done = cut_over(&storage, with(6)).await.unwrap();
    assert_eq!(done.base, seq(6), "latest lagged, and an operator knew");
    for (asked, below) in [(5, true), (6, false), (7, false)] {
        let before = contents(&kv).await;
        let error = CutoverPlan::prepare(&storage, Journal::default(), with(asked), env()).await.unwrap_err();
        let expected = match below {
            true => matches!(&error, CutoverError::LastSeqBelowPrefix { key, .. } if key == "/oplog/c/durable_prefix"),
            false => {
                matches!(&error, CutoverError::LastSeqAfterCutover { key, .. } if key == "/oplog/c/durable_prefix")
            }
        };
        assert!(expected, "{asked}: {error}");
        assert_eq!(contents(&kv).await, before);
    }
}

#[tokio::test(start_paused = true)]
async fn last_seq_stands_in_for_a_latest_that_leads_is_missing_or_is_no_number() {
    let with = |n| CutoverOptions { last_seq: Some(seq(n)), ..stopped() };
    for latest in [Some("9"), None, Some("junk")] {
        let (kv, keys) = legacy_log(1..=4, None).await;
        if let Some(latest) = latest {
            kv.put(&keys.legacy_latest(), latest.into()).await.unwrap();
        }
        let (_, storage) = open(&kv, &keys).await;
        assert_eq!(cut_over(&storage, with(4)).await.unwrap().base, seq(4), "{latest:?}");
        assert_eq!(kv.get(&keys.legacy_latest()).await.unwrap().as_deref(), latest.map(str::as_bytes), "as it was");
    }
}

#[tokio::test(start_paused = true)]
async fn state_of_a_log_in_batch_records_beside_a_missing_prefix_is_never_cut_over() {
    for key in ["/oplog/c/batches/00000000000000000001", "/plimsoll/c/snapshots/s", "/oplog/c/producer_view"] {
        let (kv, keys) = legacy_log(1..=3, Some(3)).await;
        kv.put(key.as_bytes(), "7".into()).await.unwrap();
        let error = refused(&kv, &keys, stopped()).await;
        assert!(error.to_string().starts_with(key), "{error}");
        assert_eq!(kind(error), FaultKind::ForeignState);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_opened_for_reading_is_planned_and_not_cut_over() {
    let (kv, keys) = legacy_log(1..=3, Some(3)).await;
    let storage = BatchStorage::open_for_reading(kv.clone(), keys);
    let planned = plan(&storage, stopped()).await.unwrap();
    assert_eq!((planned.base(), planned.entries(), planned.above()), (seq(3), 3, None));
    assert!(matches!(planned.execute().await, Err(CutoverError::Log(LogError::Refused(_)))));
    assert_eq!(storage.read_prefix().await.unwrap(), None);
}

/// A store that leaves each of these entries out of the first page that would have it, as a torn or an old reading does.
#[derive(Debug)]
struct TornOnce {
    kv: Arc<MemoryKv>,
    keys: LogKeys,
    left_out: Mutex<Vec<u64>>,
}

#[async_trait]
impl Detour for TornOnce {
    fn store(&self) -> &dyn TxnKv {
        &*self.kv
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let mut page = self.store().range(start, end, limit).await?;
        let mut left_out = self.left_out.lock();
        page.pairs.retain(|pair| {
            let seq = self.keys.legacy_seq(&pair.key);
            let found = left_out.iter().position(|left| seq == Some(Seq::new(*left)));
            found.map(|at| left_out.remove(at)).is_none()
        });
        Ok(page)
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_one_reading_lacks_is_no_hole() {
    // In the middle, two in a row, the last one, the first one, and all but one.
    for torn in [vec![3], vec![3, 4], vec![6], vec![1], vec![1, 2, 3, 5, 6]] {
        for accept_holes in [false, true] {
            let (kv, keys) = legacy_log(1..=6, Some(6)).await;
            let left_out = Mutex::new(torn.clone());
            let store = Arc::new(TornOnce { kv, keys: keys.clone(), left_out });
            let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
            let storage = BatchStorage::open(store.clone(), keys, options).await.unwrap();
            let done = cut_over(&storage, CutoverOptions { accept_holes, ..stopped() }).await.unwrap();
            assert!(store.left_out.lock().is_empty(), "{torn:?}: every reading was torn");
            assert_eq!((done.base, done.holes), (seq(6), vec![]), "{torn:?}");
            assert_eq!(done.replica.unwrap().machine().seqs(), [1, 2, 3, 4, 5, 6], "{torn:?}");
        }
    }
}

/// What really is missing beside what one reading lacks is a hole, and no larger than it is.
#[tokio::test(start_paused = true)]
async fn a_hole_is_as_large_as_a_second_reading_shows_it() {
    let (kv, keys) = legacy_log([1, 2, 4, 6, 7], Some(7)).await;
    let store = Arc::new(TornOnce { kv, keys: keys.clone(), left_out: Mutex::new(vec![4]) });
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(store, keys, options).await.unwrap();
    let done = cut_over(&storage, CutoverOptions { accept_holes: true, ..stopped() }).await.unwrap();
    assert_eq!(done.holes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["3", "5"]);
    assert_eq!(done.replica.unwrap().machine().seqs(), [1, 2, 4, 6, 7]);
}
