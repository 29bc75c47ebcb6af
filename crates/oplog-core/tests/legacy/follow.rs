//! Owns the tests of following the legacy log: order, gaps, faults, counts by key, and the stop at the base.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultyKv, OpKind};
use ha_kv::{Kv, KvErrorKind, MemoryKv};
use ha_types::{BatchId, Clock, Seq};
use oplog_core::legacy::{
    BelowBase, KeyDisorder, KeyReading, KeySequences, KeyStep, LegacyFollower, LegacyLog, LegacyProgress,
    LegacyReplica, LegacyRound,
};
use oplog_core::{DurablePrefix, FaultKind, LogError};

use crate::support::{Journal, entry, fault, fill, follower, keys, log, put, seq};

async fn round(follower: &mut LegacyFollower<Journal>) -> LegacyRound {
    follower.round().await.unwrap()
}

fn following(entries: u64, applied: u64, latest: Option<u64>) -> LegacyRound {
    LegacyRound::Following(LegacyProgress { entries, applied: seq(applied), latest: latest.map(Seq::new) })
}

#[tokio::test]
async fn legacy_compatibility_without_a_durable_prefix_the_legacy_log_is_followed() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (mut follower, _) = follower(log(&kv, &keys));
    assert_eq!(round(&mut follower).await, following(0, 0, None));
    // `latest` is written late: what is there counts.
    fill(&*kv, &keys, 1..=3, None).await;
    assert_eq!(round(&mut follower).await, following(3, 3, None));
    fill(&*kv, &keys, 4..=6, Some(5)).await;
    assert_eq!(round(&mut follower).await, following(3, 6, Some(5)));
    assert_eq!(round(&mut follower).await, following(0, 6, Some(5)));
    let expected: Vec<_> = (1..=6).map(|n| (n, format!("p{n}"))).collect();
    assert_eq!(follower.replica().machine().entries, expected);
}

#[tokio::test]
async fn small_pages_are_followed_to_the_end() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=100, Some(100)).await;
    let clock = Arc::new(ha_types::ManualClock::new());
    let mut follower = LegacyFollower::new(log(&kv, &keys), LegacyReplica::empty(Journal::default()), clock, 1);
    assert_eq!(round(&mut follower).await, following(100, 100, Some(100)));
}

#[tokio::test]
async fn a_gap_is_reported_with_its_age_and_closes_when_the_entry_comes() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, [1, 2, 5, 6], Some(6)).await;
    let (mut follower, clock) = follower(log(&kv, &keys));
    let LegacyRound::Gap(progress, gap) = round(&mut follower).await else { panic!("a gap") };
    assert_eq!((progress.entries, gap.missing, gap.through, gap.looks), (2, seq(3), seq(4), 1));
    assert!(!gap.start_gone);
    let since = clock.now();
    clock.advance(Duration::from_secs(1));
    put(&*kv, &keys, &entry(4)).await;
    let LegacyRound::Gap(progress, again) = round(&mut follower).await else { panic!("a gap") };
    assert_eq!((progress.entries, again.through, again.since, again.looks), (0, seq(3), since, 2));
    let fault = again.fault(&keys);
    assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::LegacyGap, "/oplog/c/00000000000000000003"));
    put(&*kv, &keys, &entry(3)).await;
    assert_eq!(round(&mut follower).await, following(4, 6, Some(6)));
    fill(&*kv, &keys, [8], None).await;
    let LegacyRound::Gap(_, other) = round(&mut follower).await else { panic!("a gap") };
    assert_eq!((other.missing, other.looks, other.since), (seq(7), 1, clock.now()), "another gap is a new one");
}

#[tokio::test]
async fn a_latest_that_leads_what_is_there_is_a_gap_too() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=2, Some(4)).await;
    let (mut follower, _) = follower(log(&kv, &keys));
    let LegacyRound::Gap(_, gap) = round(&mut follower).await else { panic!("a gap") };
    assert_eq!((gap.missing, gap.through), (seq(3), seq(4)));
    follower.pass_gap(&gap).unwrap();
    assert_eq!(follower.replica().machine().holes, [(3, 4)]);
    fill(&*kv, &keys, [5], Some(5)).await;
    assert_eq!(round(&mut follower).await, following(1, 5, Some(5)));
    assert_eq!(follower.replica().machine().seqs(), [1, 2, 5]);
    let stale = follower.pass_gap(&gap).unwrap_err();
    assert_eq!(stale.kind, FaultKind::LegacyGap, "a gap is passed once");
}

#[tokio::test]
async fn a_log_whose_start_is_gone_is_called_that() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 7..=9, Some(9)).await;
    let (mut follower, _) = follower(log(&kv, &keys));
    let LegacyRound::Gap(_, gap) = round(&mut follower).await else { panic!("a gap") };
    assert!(gap.start_gone);
    let fault = gap.fault(&keys);
    assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::LegacyStartGone, "/oplog/c/00000000000000000001"));
    assert!(fault.expected.contains("a snapshot of ours"), "{fault}");
    assert_eq!(follower.replica().applied(), Seq::ZERO);
}

/// S2: a fault leaves the state at the entry before, and the key is named.
#[tokio::test]
async fn s2_an_entry_that_cannot_be_read_or_applied_stops_at_the_one_before() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=4, Some(4)).await;
    let good = kv.get(&keys.legacy_entry(seq(3))).await.unwrap().unwrap();
    let (mut follower, _) = follower(log(&kv, &keys));
    kv.put(&keys.legacy_entry(seq(3)), good.slice(1..)).await.unwrap();
    let broken = fault(follower.round().await.unwrap_err());
    assert_eq!((broken.kind, broken.seq), (FaultKind::LegacyUndecodable, Some(seq(3))));
    assert!(broken.key.ends_with("/00000000000000000003"), "{broken}");
    assert_eq!(follower.replica().machine().seqs(), [1, 2]);
    kv.put(&keys.legacy_entry(seq(3)), good).await.unwrap();
    assert_eq!(round(&mut follower).await, following(2, 4, Some(4)));

    let journal = Journal { refuse: Some(2), ..Journal::default() };
    let clock = Arc::new(ha_types::ManualClock::new());
    let mut refusing = LegacyFollower::new(log(&kv, &keys), LegacyReplica::empty(journal), clock, 1 << 20);
    let refused = fault(refusing.round().await.unwrap_err());
    assert_eq!((refused.kind, refused.seq), (FaultKind::Apply, Some(seq(2))));
    assert_eq!(refusing.replica().machine().seqs(), [1]);
}

#[test]
fn s1_only_the_next_entry_is_applied() {
    let keys = keys("c");
    let mut replica = LegacyReplica::empty(Journal::default());
    let mut apply = |n| replica.apply_record(&keys, seq(n), &entry(n).encode(), ha_types::MonoTime::ZERO);
    for (n, fine) in [(2, false), (0, false), (1, true), (1, false), (3, false), (2, true)] {
        let applied = apply(n);
        assert_eq!(applied.is_ok(), fine, "entry {n}");
        if let Err(fault) = applied {
            assert_eq!((fault.kind, fault.seq), (FaultKind::LegacyGap, Some(seq(n))));
        }
    }
    assert_eq!(replica.machine().seqs(), [1, 2]);
}

#[tokio::test]
async fn a_machine_that_stands_elsewhere_is_found_out() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=2, Some(2)).await;
    let clock = Arc::new(ha_types::ManualClock::new());
    let elsewhere = Journal { at: 5, ..Journal::default() };
    let mut follower = LegacyFollower::new(log(&kv, &keys), LegacyReplica::empty(elsewhere), clock, 1 << 20);
    let base = fault(follower.catch_up_to_base(seq(2)).await.unwrap_err());
    assert_eq!(base.kind, FaultKind::AppliedAbovePrefix);
}

async fn put_counted(kv: &MemoryKv, keys: &oplog_core::LogKeys, n: u64, op: u8, id: Option<u64>) {
    let mut counted = entry(n);
    (counted.op_type, counted.key_sequence_id) = (op, id);
    put(kv, keys, &counted).await;
}

#[tokio::test]
async fn a_key_sequence_that_does_not_rise_stops_the_reader() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    for (n, id) in [(1, Some(1)), (2, None), (3, Some(4))] {
        put_counted(&kv, &keys, n, 1, id).await;
    }
    let (mut follower, _) = follower(log(&kv, &keys));
    assert_eq!(round(&mut follower).await, following(3, 3, None));
    for id in [4, 3, 0] {
        put_counted(&kv, &keys, 4, 1, Some(id)).await;
        let LegacyRound::OutOfOrder(progress, disorder) = round(&mut follower).await else { panic!("out of order") };
        assert_eq!((progress.entries, progress.applied), (0, seq(3)));
        assert_eq!((disorder.first, disorder.before, disorder.at), (seq(1), step(3, 4), step(4, id)));
        let back = disorder.fault(&keys);
        assert_eq!((back.kind, back.seq), (FaultKind::LegacyKeySequence, Some(seq(4))));
        assert_eq!(back.key.as_bytes(), &keys.legacy_entry(seq(4))[..]);
        assert!(back.expected.contains("above 4") && back.expected.contains("entry 3 has it"), "{back}");
        assert_eq!(back.found, format!("{id} in entry 4"));
        let BelowBase::OutOfOrder(below) = follower.catch_up_to_base(seq(4)).await.unwrap() else {
            panic!("and below a base")
        };
        assert_eq!(below, disorder);
        assert_eq!(follower.replica().machine().seqs(), [1, 2, 3]);
    }
    put_counted(&kv, &keys, 4, 1, Some(5)).await;
    assert_eq!(round(&mut follower).await, following(1, 4, None));
}

fn step(n: u64, id: u64) -> KeyStep {
    KeyStep { seq: seq(n), id }
}

/// The second reading: this key alone, from its first entry to the one in doubt, page by page.
#[tokio::test]
async fn a_key_is_read_again_from_its_first_entry_to_the_one_in_doubt() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let counted = async |n, key: &str, id| {
        let mut counted = entry(n);
        (counted.key, counted.key_sequence_id) = (key.into(), id);
        put(&*kv, &keys, &counted).await;
    };
    // What comes before the key's first entry, and after the one in doubt, is not looked at, nor is another key's order.
    let all = [(1, "k", Some(90)), (2, "k", Some(1)), (3, "x", Some(7)), (4, "k", None), (5, "x", Some(6))];
    for (n, key, id) in all.into_iter().chain([(6, "k", Some(2)), (7, "k", Some(3)), (8, "k", Some(3))]) {
        counted(n, key, id).await;
    }
    let (log, text) = (log(&kv, &keys), String::from);
    let doubt =
        KeyDisorder { tenant: text("default"), key: text("k"), first: seq(2), before: step(6, 9), at: step(7, 3) };
    for page_bytes in [1, 1 << 20] {
        let read = async || log.read_key(&doubt, page_bytes).await.unwrap();
        assert_eq!(read().await, KeyReading::InOrder);
        counted(6, "k", Some(5)).await;
        let KeyReading::OutOfOrder(again) = read().await else { panic!("5, then 3") };
        assert_eq!(again, KeyDisorder { before: step(6, 5), ..doubt.clone() });
        kv.put(&keys.legacy_entry(seq(5)), "{}".into()).await.unwrap();
        let KeyReading::Undecodable(broken) = read().await else { panic!("no entry") };
        assert_eq!((broken.kind, broken.seq), (FaultKind::LegacyUndecodable, Some(seq(5))));
        counted(5, "x", Some(6)).await;
        counted(6, "k", Some(2)).await;
        kv.delete(&keys.legacy_entry(seq(7))).await.unwrap();
        assert_eq!(read().await, KeyReading::Absent);
        counted(7, "k", Some(3)).await;
    }
}

#[tokio::test]
async fn a_removed_key_may_begin_anew_an_hour_after_its_removal_was_applied() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    put_counted(&kv, &keys, 1, 3, Some(9)).await;
    let (mut follower, clock) = follower(log(&kv, &keys));
    round(&mut follower).await;
    put_counted(&kv, &keys, 2, 1, Some(1)).await;
    assert!(matches!(round(&mut follower).await, LegacyRound::OutOfOrder(..)));
    clock.advance(KeySequences::KEPT_AFTER_REMOVE * 2);
    let mut other = entry(2);
    (other.key, other.key_sequence_id) = ("other".into(), Some(1));
    put(&*kv, &keys, &other).await;
    round(&mut follower).await;
    assert_eq!(follower.replica().key_sequences().len(), 1, "the removed key is forgotten");
    put_counted(&kv, &keys, 3, 1, Some(1)).await;
    assert_eq!(round(&mut follower).await, following(1, 3, None));
}

#[tokio::test]
async fn a_store_that_fails_keeps_the_position() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=5, Some(5)).await;
    let client = FaultyKv::new(kv, 1);
    let (mut follower, _) = follower(LegacyLog::new(client.clone(), keys));
    for kind in [OpKind::Get, OpKind::Range] {
        client.script(kind, Fault::FailBefore(KvErrorKind::Unavailable));
        assert!(matches!(follower.round().await, Err(LogError::Store(_))));
    }
    assert_eq!(round(&mut follower).await, following(5, 5, Some(5)));
}

async fn cut_over_by_hand(kv: &MemoryKv, keys: &oplog_core::LogKeys, base: u64) -> DurablePrefix {
    let prefix = DurablePrefix { last_seq: seq(base), ..DurablePrefix::FRESH };
    kv.put(&keys.durable_prefix(), prefix.encode().into()).await.unwrap();
    prefix
}

#[tokio::test]
async fn legacy_compatibility_a_standby_behind_latest_replays_legacy_entries_first_and_stops_at_the_base() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=3, Some(3)).await;
    let (mut follower, _) = follower(log(&kv, &keys));
    round(&mut follower).await;
    fill(&*kv, &keys, 4..=9, Some(6)).await;
    let prefix = cut_over_by_hand(&kv, &keys, 6).await;
    assert_eq!(round(&mut follower).await, LegacyRound::CutOver(prefix));
    assert_eq!(follower.replica().applied(), seq(3), "nothing is applied before the base is known");
    assert_eq!(follower.catch_up_to_base(seq(6)).await.unwrap(), BelowBase::Reached);
    assert_eq!(
        follower.replica().machine().seqs(),
        [1, 2, 3, 4, 5, 6],
        "entries above the base exist and do not count"
    );
    let replica = follower.into_batch_replica(seq(6)).unwrap();
    assert_eq!((replica.position().batch_id, replica.position().last_seq), (BatchId::ZERO, seq(6)));
}

#[tokio::test]
async fn a_state_above_the_base_is_refused_and_one_below_waits_for_what_is_missing() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=8, Some(5)).await;
    let (mut ahead, _) = follower(log(&kv, &keys));
    round(&mut ahead).await;
    let above = fault(ahead.catch_up_to_base(seq(5)).await.unwrap_err());
    assert_eq!(above.kind, FaultKind::AppliedAbovePrefix);
    assert!(ahead.into_batch_replica(seq(5)).is_err());

    kv.delete(&keys.legacy_entry(seq(5))).await.unwrap();
    let (mut behind, _) = follower(log(&kv, &keys));
    let BelowBase::Gap(gap) = behind.catch_up_to_base(seq(5)).await.unwrap() else { panic!("a gap") };
    assert_eq!((gap.missing, gap.through), (seq(5), seq(5)), "nothing above the base is looked at");
    put(&*kv, &keys, &entry(5)).await;
    assert_eq!(behind.catch_up_to_base(seq(5)).await.unwrap(), BelowBase::Reached);
}
