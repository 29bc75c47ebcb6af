//! Tests of single faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{client, settle, swap};
use crate::faulty::{Fault, FaultPlan, FaultyKv, Op, OpKind, ServerLimits, Situation, Stage};
use crate::{Effect, Kv, KvErrorKind, KvPair, LeaseKv, MemoryKv, Txn, TxnKv, TxnOutcome, WatchKv};

async fn store() -> Arc<MemoryKv> {
    let store = Arc::new(MemoryKv::new());
    store.put(b"k", Bytes::from("1")).await.expect("put");
    store
}

async fn value(store: &MemoryKv) -> Bytes {
    store.get(b"k").await.expect("read").expect("there")
}

#[tokio::test]
async fn fail_before_applies_nothing_and_says_so() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::NoSpace));
    let error = kv.txn(&swap("k", "1", "2")).await.expect_err("scripted");
    assert_eq!((error.kind, error.effect), (KvErrorKind::NoSpace, Effect::NotApplied));
    assert_eq!(value(&store).await, "1");
    assert_eq!(kv.txn(&swap("k", "1", "2")).await.expect("one fault only"), TxnOutcome::Committed);
    assert_eq!((kv.calls(OpKind::Txn), kv.count(Situation::FailedBefore)), (2, 1));
}

#[tokio::test]
async fn a_lost_request_is_unknown_and_never_applies() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::LoseRequest(KvErrorKind::Timeout));
    let error = kv.txn(&swap("k", "1", "2")).await.expect_err("scripted");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown));
    assert_eq!(value(&store).await, "1");
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_applied_once() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Unavailable));
    let error = kv.txn(&swap("k", "1", "2")).await.expect_err("scripted");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::Unknown));
    assert_eq!(value(&store).await, "2");
    assert_eq!(kv.txn(&swap("k", "1", "2")).await.expect("sent again"), TxnOutcome::CompareFailed);
}

#[tokio::test]
async fn a_held_request_lands_after_its_retry_and_fails_its_compare() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::ApplyLater(None));
    assert_eq!(kv.txn(&swap("k", "1", "2")).await.expect_err("scripted").effect, Effect::Unknown);
    assert_eq!((value(&store).await, kv.held()), (Bytes::from("1"), 1));
    assert_eq!(kv.txn(&swap("k", "1", "3")).await.expect("the retry"), TxnOutcome::Committed);
    assert_eq!(kv.land_held().await, 1);
    assert_eq!((value(&store).await, kv.held()), (Bytes::from("3"), 0));
    assert_eq!((kv.count(Situation::LandedRefused), kv.count(Situation::LandedApplied)), (1, 0));
}

#[tokio::test]
async fn held_requests_land_in_order_or_are_dropped() {
    let store = store().await;
    let kv = client(&store);
    for value in ["2", "3"] {
        kv.script(OpKind::Put, Fault::ApplyLater(None));
        kv.put(b"k", Bytes::from(value)).await.expect_err("scripted");
    }
    assert!(kv.land_one().await);
    assert_eq!(value(&store).await, "2");
    assert_eq!(kv.drop_held(), 1);
    assert!(!kv.land_one().await);
    assert_eq!(value(&store).await, "2");
}

#[tokio::test(start_paused = true)]
async fn apply_later_lands_by_itself() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::ApplyLater(Some(Duration::from_secs(5))));
    kv.txn(&swap("k", "1", "2")).await.expect_err("scripted");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(value(&store).await, "1");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(value(&store).await, "2");
    assert_eq!(kv.count(Situation::LandedApplied), 1);
}

#[tokio::test]
async fn a_duplicate_arrives_twice_and_the_client_sees_the_first_answer() {
    let store = store().await;
    let kv = client(&store);
    let applied = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&applied);
    kv.observe(move |op, stage| seen.lock().push((op.kind(), stage)));
    kv.script(OpKind::Txn, Fault::Duplicate);
    assert_eq!(kv.txn(&swap("k", "1", "2")).await.expect("the first answer"), TxnOutcome::Committed);
    let txn = OpKind::Txn;
    assert_eq!(*applied.lock(), [(txn, Stage::Called), (txn, Stage::Applied), (txn, Stage::NotTaken)]);
    // Without a compare that its own write breaks, the second arrival applies, too, and that can be seen.
    kv.script(OpKind::Txn, Fault::Duplicate);
    let blind = Txn { puts: vec![KvPair::new("k", "3")], ..Txn::default() };
    assert_eq!(kv.txn(&blind).await.expect("the first answer"), TxnOutcome::Committed);
    assert_eq!((kv.count(Situation::DuplicateRefused), kv.count(Situation::DuplicateApplied)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_its_time() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Get, Fault::Delay(Duration::from_secs(3)));
    let call = tokio::spawn(async move { kv.get(b"k").await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!call.is_finished());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(call.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_held_request_reaches_the_store_only_when_released() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::HoldRequest);
    let call = tokio::spawn({
        let kv = Arc::clone(&kv);
        async move { kv.txn(&swap("k", "1", "2")).await }
    });
    kv.reached(OpKind::Txn, 1).await;
    settle().await;
    // Another client overtakes the held one, whose true answer is then a failed compare.
    assert_eq!(client(&store).txn(&swap("k", "1", "3")).await.expect("the other client"), TxnOutcome::Committed);
    assert!(!call.is_finished());
    kv.release();
    assert_eq!(call.await.expect("no panic").expect("answered"), TxnOutcome::CompareFailed);
    assert_eq!(kv.count(Situation::RequestHeld), 1);
}

#[tokio::test(start_paused = true)]
async fn a_held_reply_has_applied() {
    let store = store().await;
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::HoldReply);
    let call = tokio::spawn({
        let kv = Arc::clone(&kv);
        async move { kv.txn(&swap("k", "1", "2")).await }
    });
    settle().await;
    assert_eq!(value(&store).await, "2");
    assert!(!call.is_finished());
    kv.release();
    assert_eq!(call.await.expect("no panic").expect("answered"), TxnOutcome::Committed);
}

#[tokio::test]
async fn scripts_come_before_standing_faults_and_pass_skips_one() {
    let store = store().await;
    let kv = client(&store);
    kv.always(OpKind::Get, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
    kv.script(OpKind::Get, Fault::Pass);
    assert!(kv.get(b"k").await.is_ok());
    for _ in 0..3 {
        assert_eq!(kv.get(b"k").await.expect_err("standing").kind, KvErrorKind::Unavailable);
    }
    assert!(kv.range(b"a", b"z", crate::RangeLimit::ONE).await.is_ok(), "another kind");
    kv.always(OpKind::Get, None);
    assert!(kv.get(b"k").await.is_ok());
}

#[tokio::test]
async fn a_server_may_take_less_than_declared() {
    let store = store().await;
    let kv = client(&store);
    kv.limit_server(ServerLimits { request_bytes: 64, txn_ops: 2 });
    assert!(kv.capabilities().max_txn_bytes > 64);
    let large = Txn { puts: vec![KvPair::new("l", vec![0; 100])], ..Txn::default() };
    let many = Txn { puts: ["a", "b", "c"].map(|k| KvPair::new(k, "")).to_vec(), ..Txn::default() };
    for txn in [&large, &many] {
        let error = kv.txn(txn).await.expect_err("too large");
        assert_eq!((error.kind, error.effect), (KvErrorKind::TooLarge, Effect::NotApplied));
    }
    // The server refuses it, and the client never learns that: the outcome is unknown all the same.
    kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    assert_eq!(kv.txn(&large).await.expect_err("lost").effect, Effect::Unknown);
    assert_eq!(kv.count(Situation::TooLarge), 3);
    assert_eq!(kv.txn(&swap("k", "1", "2")).await.expect("a small one"), TxnOutcome::Committed);
}

#[tokio::test]
async fn declared_limits_are_kept_by_the_client() {
    let store = store().await;
    let kv = client(&store);
    kv.declare(Some(crate::Capabilities { max_txn_ops: 1, ..store.capabilities() }));
    let many = Txn { puts: ["a", "b"].map(|k| KvPair::new(k, "")).to_vec(), ..Txn::default() };
    assert_eq!(kv.txn(&many).await.expect_err("declared").kind, KvErrorKind::TooLarge);
    assert_eq!(kv.calls(OpKind::Txn), 0, "it was not sent");
    kv.declare(None);
    assert!(kv.txn(&many).await.is_ok());
}

#[tokio::test]
async fn a_full_server_refuses_puts_and_grants_and_still_deletes() {
    let store = store().await;
    let kv = client(&store);
    kv.fill_server(true);
    for error in [
        kv.put(b"n", Bytes::new()).await.expect_err("full"),
        kv.txn(&swap("k", "1", "2")).await.expect_err("full"),
        kv.grant(Duration::from_secs(1)).await.expect_err("full"),
    ] {
        assert_eq!((error.kind, error.effect), (KvErrorKind::NoSpace, Effect::NotApplied));
    }
    assert_eq!(value(&store).await, "1");
    let delete = Txn { deletes: vec![crate::Delete::Key(Bytes::from("k"))], ..Txn::default() };
    assert_eq!(kv.txn(&delete).await.expect("deletes go on"), TxnOutcome::Committed);
    kv.fill_server(false);
    kv.put(b"n", Bytes::new()).await.expect("there is space");
}

#[tokio::test]
async fn every_transaction_can_be_audited() {
    let store = store().await;
    let kv = client(&store);
    let audited = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&audited);
    kv.on_txn(move |txn| seen.lock().push(txn.clone()));
    kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::Busy));
    kv.txn(&swap("k", "1", "2")).await.expect_err("scripted");
    let _ = kv.txn(&swap("k", "1", "3")).await.expect("sent");
    kv.get(b"k").await.expect("read");
    assert_eq!(*audited.lock(), [swap("k", "1", "2"), swap("k", "1", "3")]);
}

#[tokio::test]
async fn a_store_without_leases_and_watches_says_so() {
    let kv = FaultyKv::txn_only(Arc::new(MemoryKv::new()), 1);
    assert_eq!(kv.grant(Duration::from_secs(1)).await.expect_err("none").kind, KvErrorKind::Unsupported);
    assert_eq!(kv.watch(b"a", b"b").await.expect_err("none").kind, KvErrorKind::Unsupported);
}

#[tokio::test]
async fn one_seed_gives_one_schedule() {
    let plan = FaultPlan { delay: 0, apply_later: 0, ..FaultPlan::rough(Duration::ZERO) };
    let mut schedules = Vec::new();
    for seed in [7, 7, 8] {
        let store = store().await;
        let kv = FaultyKv::new(Arc::clone(&store), seed);
        kv.plan(plan);
        let mut schedule = Vec::new();
        for _ in 0..200 {
            schedule.push(kv.put(b"k", Bytes::new()).await.map_err(|e| (e.kind, e.effect)));
        }
        schedules.push(schedule);
    }
    assert_eq!(schedules[0], schedules[1]);
    assert_ne!(schedules[0], schedules[2]);
}

#[tokio::test]
#[should_panic(expected = "1200 per mille")]
async fn a_plan_above_certainty_is_refused() {
    client(&store().await).plan(FaultPlan { fail_after: 600, fail_before: 600, ..FaultPlan::NONE });
}

#[tokio::test]
async fn an_observer_sees_what_was_asked() {
    let store = store().await;
    let kv = client(&store);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    kv.observe(move |op, stage| into.lock().push((op.clone(), stage)));
    kv.limit_server(ServerLimits { request_bytes: 1, txn_ops: 1 });
    kv.put(b"k", Bytes::from("v")).await.expect_err("too large");
    let op = Op::Put { key: Bytes::from("k"), value: Bytes::from("v") };
    assert_eq!(*seen.lock(), [(op.clone(), Stage::Called), (op, Stage::Refused)]);
}
