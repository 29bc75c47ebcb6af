//! Owns the tests of following: to the prefix and no further, through faults of the store, once each entry.

mod support;

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault as StoreFault, FaultyKv, Link, OpKind};
use ha_kv::{Kv, KvErrorKind, MemoryKv, TxnKv};
use oplog_core::{LogKeys, Position, Replica};
use standby::{FaultKind, Health, NotClose, Standby, StandbyConfig, StandbyError, Step, StepError};
use support::tamper::TamperKv;
use support::*;

#[tokio::test]
async fn s1_follows_to_the_prefix_and_stands_there() {
    let (_kv, storage) = fresh().await;
    let mut standby = standby(&storage);
    assert_eq!(standby.health(), Health::Starting);
    assert_eq!(standby.step().await.unwrap(), Step::Empty, "an empty log is waited on");
    assert_eq!(standby.health(), Health::Following { lag: 0 });

    let mut scribe = Scribe::begin(&storage).await;
    assert_eq!(standby.step().await.unwrap(), Step::Reached(scribe.prefix));
    scribe.fill(20, 7, 100).await;
    assert_eq!(standby.step().await.unwrap(), Step::Reached(scribe.prefix));
    assert_eq!(standby.machine().payloads, scribe.log);
    assert_eq!(Some(&standby.position()), scribe.positions.last());
    assert_eq!(standby.step().await.unwrap(), Step::Reached(scribe.prefix), "a second look changes nothing");

    let metrics = standby.observer().metrics();
    assert_eq!((metrics.applied_seq, metrics.applied_batch), (140, 20));
    assert_eq!((metrics.prefix_seq, metrics.prefix_batch, metrics.prefix_epoch), (140, 20, 1));
    assert_eq!((metrics.entries, metrics.batches, metrics.lag_entries, metrics.lag_batches), (140, 20, 0, 0));
    assert!(metrics.bytes > 140 * 100 && metrics.store_answers && metrics.last_error.is_none());
    assert_eq!(metrics.health, Health::Following { lag: 0 });
}

/// A batch beyond the prefix that was read first is no part of the round, though its key is there.
#[tokio::test]
async fn s1_nothing_above_the_prefix_is_applied() {
    let (kv, storage) = fresh().await;
    let mut scribe = Scribe::begin(&storage).await;
    scribe.fill(3, 2, 10).await;
    let (_, sealed) = scribe.seal(1, &[payload(99, 10)]);
    kv.put(&keys().batch(oplog_core::BatchId::new(4)), sealed.bytes).await.unwrap();
    let mut standby = standby(&storage);
    assert_eq!(follow(&mut standby).await.unwrap(), Step::Reached(scribe.prefix));
    assert_eq!(standby.machine().payloads, scribe.log);
    assert_eq!(standby.observer().metrics().unconfirmed, 0, "it was not even read");
}

#[tokio::test]
async fn w6_five_batches_of_1_2_mib_against_a_reply_limit_of_4_mib() {
    let kv = TamperKv::with_reply_limit(Arc::new(MemoryKv::new().with_limits(2 << 20, 128, 8 << 20)), 4 << 20);
    let options = oplog_core::OpenOptions { accept_lost_writes: true, max_batch_bytes: 3 << 19 };
    let storage = oplog_core::BatchStorage::open(kv.clone(), keys(), options).await.unwrap();
    let mut scribe = Scribe::begin(&storage).await;
    scribe.fill(5, 12, 100 << 10).await;
    let record = storage.read_batch(oplog_core::BatchId::new(5)).await.unwrap().unwrap().len() + 64;
    for page_bytes in [1, 1 << 20, 4 << 20, 64 << 20] {
        kv.take_largest_page();
        let mut standby = standby_with(&storage, StandbyConfig { page_bytes, ..config() });
        assert_eq!(follow(&mut standby).await.unwrap(), Step::Reached(scribe.prefix), "pages of {page_bytes}");
        assert_eq!(standby.machine().payloads, scribe.log);
        standby.promote(&*Switch::on()).await.unwrap();
        // A page ends after the record that reaches the limit; no other reply was asked for.
        let largest = kv.take_largest_page();
        assert!(largest <= page_bytes + record, "a page of {largest} bytes where {page_bytes} were set");
        assert_eq!(kv.too_large(), 0, "pages of {page_bytes}: a reply above the limit was asked for");
        scribe = Scribe::take(&storage, page_bytes as u64).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s7_the_backend_goes_away_in_replay_and_comes_back() {
    let memory = Arc::new(MemoryKv::new());
    let mut scribe = Scribe::begin(&open(memory.clone()).await).await;
    scribe.fill(200, 3, 50).await;
    let link = FaultyKv::txn_only(memory, 5);
    let storage = open(link.clone()).await;
    // Every page holds one batch; the backend goes away for a minute in the middle.
    let mut standby = standby_with(&storage, StandbyConfig { page_bytes: 1, ..config() });
    let observer = standby.observer();
    let running = tokio::spawn(async move {
        let fault = standby.run().await;
        panic!("{fault}");
    });
    link.reached(OpKind::Range, link.calls(OpKind::Range) + 90).await;
    link.partition(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let stuck = observer.metrics();
    assert!(stuck.applied_batch >= 80 && stuck.applied_batch < 120, "{stuck:?}");
    assert!(!observer.may_campaign());
    assert!(stuck.last_error.is_some() && !stuck.store_answers);
    assert!(stuck.store_errors > 10 && stuck.store_errors < 3000, "backed off: {}", stuck.store_errors);
    assert!(matches!(stuck.health, Health::Following { .. } | Health::Starting), "a store that fails is no verdict");
    assert!(!running.is_finished());
    link.partition(false);
    tokio::time::sleep(Duration::from_secs(5)).await;
    // The machine itself refuses any entry but the next, so each came once.
    assert_eq!(observer.metrics().applied_seq, 600);
    assert_eq!(observer.metrics().entries, 600);
    assert!(observer.may_campaign());
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_bounded_and_waited_out() {
    let memory = Arc::new(MemoryKv::new());
    let mut scribe = Scribe::begin(&open(memory.clone()).await).await;
    scribe.fill(3, 3, 50).await;
    let link = FaultyKv::txn_only(memory, 5);
    let mut standby = standby(&open(link.clone()).await);
    link.set_link(Link::BlackHole);
    let error = standby.step().await.unwrap_err();
    assert!(matches!(&error, StepError::Store(e) if e.kind == KvErrorKind::Timeout), "{error}");
    link.set_link(Link::Up);
    assert_eq!(standby.step().await.unwrap(), Step::Reached(scribe.prefix));
}

/// Run is dropped at any moment, again and again, and nothing is lost or applied twice.
#[tokio::test(start_paused = true)]
async fn running_may_be_dropped_at_any_moment() {
    let memory = Arc::new(MemoryKv::new());
    let mut scribe = Scribe::begin(&open(memory.clone()).await).await;
    scribe.fill(150, 2, 20).await;
    let link = FaultyKv::txn_only(memory, 5);
    link.always(OpKind::Range, Some(StoreFault::Delay(Duration::from_millis(3))));
    link.always(OpKind::Get, Some(StoreFault::Delay(Duration::from_millis(2))));
    let mut standby = standby_with(&open(link).await, StandbyConfig { page_bytes: 1, ..config() });
    let mut drops = 0;
    while standby.position().last_seq != scribe.prefix.last_seq {
        let wait = Duration::from_millis(4 + drops % 17);
        assert!(tokio::time::timeout(wait, standby.run()).await.is_err());
        drops += 1;
    }
    assert!(drops > 10);
    assert_eq!(standby.machine().payloads, scribe.log);
}

#[tokio::test(start_paused = true)]
async fn a_hint_wakes_it_and_without_hints_the_poll_does() {
    for hints in [true, false] {
        let memory = Arc::new(MemoryKv::new());
        let storage = open(memory.clone()).await;
        let mut scribe = Scribe::begin(&storage).await;
        let slow = StandbyConfig { poll: Duration::from_secs(10), ..config() };
        let env = if hints { env_with_hints(1, memory.clone()) } else { env(1) };
        let mut standby = Standby::new(storage, Replica::empty(Counter::default()), slow, env).unwrap();
        let observer = standby.observer();
        let running = tokio::spawn(async move { standby.run().await });
        tokio::time::sleep(Duration::from_secs(25)).await;
        scribe.fill(1, 5, 10).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(observer.metrics().applied_seq, if hints { 5 } else { 0 });
        tokio::time::sleep(Duration::from_secs(10)).await;
        let metrics = observer.metrics();
        assert_eq!(metrics.applied_seq, 5);
        assert_eq!(metrics.hints > 0, hints, "{metrics:?}");
        assert!(metrics.polls >= 2);
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_healthy_standby_close_to_the_prefix_may_campaign() {
    let (_kv, storage) = fresh().await;
    let mut scribe = Scribe::begin(&storage).await;
    scribe.fill(30, 10, 10).await;
    let strict =
        StandbyConfig { campaign_max_lag_entries: 100, campaign_max_lag_batches: 5, page_bytes: 1, ..config() };
    let mut standby = standby_with(&storage, strict);
    let observer = standby.observer();
    assert!(!observer.may_campaign(), "nothing is known yet");
    follow(&mut standby).await.unwrap();
    assert!(observer.may_campaign());
    assert_eq!(observer.close_to_prefix().await, Ok(()));

    // A bad entry: unhealthy for good, and whoever waits is told.
    let waiting = tokio::spawn({
        let observer = observer.clone();
        async move { observer.health().wait_for(|h| matches!(h, Health::Unhealthy { .. })).await.map(|h| h.clone()) }
    });
    let (new, sealed) = scribe.seal(BAD_OP, &[payload(1, 10)]);
    assert_eq!(storage.append(&scribe.prefix, &new, sealed.bytes).await.unwrap(), ha_kv::TxnOutcome::Committed);
    let fault = follow(&mut standby).await.unwrap_err();
    assert!(!observer.may_campaign());
    assert_eq!(observer.close_to_prefix().await, Err(NotClose::Unhealthy(fault.clone())));
    assert_eq!(waiting.await.unwrap().unwrap(), Health::Unhealthy { fault });
    drop(standby);
    assert!(matches!(observer.close_to_prefix().await, Err(NotClose::Unhealthy(_))));

    let ended = standby_with(&storage, config());
    let observer = ended.observer();
    drop(ended);
    assert_eq!(observer.close_to_prefix().await, Err(NotClose::Ended));
}

/// Far behind: it follows, but does not campaign before it is close. The lag is judged by the prefix it knows.
#[tokio::test(start_paused = true)]
async fn a_standby_far_behind_waits_until_it_is_close() {
    let memory = Arc::new(MemoryKv::new());
    let mut scribe = Scribe::begin(&open(memory.clone()).await).await;
    scribe.fill(3, 10, 10).await;
    let link = FaultyKv::txn_only(memory, 5);
    let strict = StandbyConfig { campaign_max_lag_batches: 50, page_bytes: 1, ..config() };
    let mut standby = standby_with(&open(link.clone()).await, strict);
    follow(&mut standby).await.unwrap();
    let observer = standby.observer();
    assert!(observer.may_campaign());
    scribe.fill(100, 1, 10).await;
    // One round catches up, a batch in ten milliseconds; at any moment it is known how far it is.
    link.always(OpKind::Range, Some(StoreFault::Delay(Duration::from_millis(10))));
    {
        let mut step = Box::pin(standby.step());
        let mut far = 0;
        while tokio::time::timeout(Duration::from_millis(5), &mut step).await.is_err() {
            let metrics = observer.metrics();
            assert_eq!(observer.may_campaign(), metrics.lag_batches <= 50, "{metrics:?}");
            far += u64::from(metrics.lag_batches > 50);
        }
        assert!(far > 20, "{far}");
    }
    assert!(observer.may_campaign());
    // It reads the next prefix, and then the store fails.
    scribe.fill(100, 1, 10).await;
    link.script(OpKind::Range, StoreFault::Pass);
    for _ in 0..100 {
        link.script(OpKind::Range, StoreFault::FailBefore(KvErrorKind::Unavailable));
    }
    assert!(matches!(standby.step().await, Err(StepError::Store(_))));
    assert_eq!(observer.metrics().lag_batches, 99);
    assert!(!observer.may_campaign());
    let close = tokio::spawn(async move { observer.close_to_prefix().await });
    let running = tokio::spawn(async move { standby.run().await });
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), close).await.unwrap().unwrap(), Ok(()));
    running.abort();
}

#[tokio::test]
async fn a_replica_that_is_not_where_it_says_is_refused() {
    let (_kv, storage) = fresh().await;
    let wrong = Replica::empty(Counter { base: 9, ..Counter::default() });
    let error = Standby::new(storage.clone(), wrong, config(), env(1)).unwrap_err();
    assert!(matches!(error, StandbyError::Position { .. }), "{error}");
    let bad = StandbyConfig { page_bytes: 0, ..config() };
    let error = Standby::new(storage, Replica::empty(Counter::default()), bad, env(1)).unwrap_err();
    assert!(matches!(error, StandbyError::Config(_)), "{error}");
}

/// A store with a per-entry log and no prefix is refused by name, whatever of it is left; so are batches without a prefix.
#[tokio::test]
async fn what_is_no_log_of_ours_is_refused_by_name() {
    let entry = |n: u64| format!("/oplog/c1/{n:020}");
    let batch = || String::from_utf8(keys().batch(oplog_core::BatchId::new(3)).to_vec()).unwrap();
    let cases: [(&[String], FaultKind, &str); 5] = [
        (&[entry(1), entry(2), "/oplog/c1/latest".into()], FaultKind::ForeignState, "per-entry"),
        (&["/oplog/c1/latest".into()], FaultKind::ForeignState, "per-entry"),
        (&["/oplog/c1/snapshot/7/sequence_id".into()], FaultKind::ForeignState, "per-entry"),
        (&[batch()], FaultKind::PrefixMissing, "without a durable prefix"),
        (&[entry(1), batch()], FaultKind::PrefixMissing, "without a durable prefix"),
    ];
    for (present, kind, words) in cases {
        let (kv, storage) = fresh().await;
        for key in present {
            kv.put(key.as_bytes(), "2".into()).await.unwrap();
        }
        let mut standby = standby(&storage);
        let fault = follow(&mut standby).await.unwrap_err();
        assert_eq!(fault.kind(), Some(kind), "{present:?}: {fault}");
        assert!(fault.to_string().contains(words), "{present:?}: {fault}");
        let refused = standby.promote(&*Switch::on()).await.unwrap_err();
        assert!(is_unhealthy(&refused.standby));
        assert_eq!(kv.get(&keys().durable_prefix()).await.unwrap(), None, "nothing was created");
    }
    // Another cluster's keys are not ours.
    let (kv, storage) = fresh().await;
    for key in ["/oplog/c2/latest", "/oplog/c11/latest", "/oplog/c/latest", "/oplog/c1.a/latest"] {
        kv.put(key.as_bytes(), "2".into()).await.unwrap();
    }
    assert_eq!(standby(&storage).step().await.unwrap(), Step::Empty);
}

/// A log whose beginning is not in it: the cut-over boundary of a per-entry log, which an empty state does not hold.
#[tokio::test]
async fn a_base_that_is_not_held_is_refused_and_one_that_is_held_is_followed() {
    let (kv, storage) = fresh().await;
    let boundary = oplog_core::DurablePrefix { last_seq: oplog_core::Seq::new(41), ..oplog_core::DurablePrefix::FRESH };
    kv.put(&keys().durable_prefix(), boundary.encode().into()).await.unwrap();
    let mut empty = standby(&storage);
    assert_eq!(follow(&mut empty).await.unwrap_err().kind(), Some(FaultKind::BaseNotHeld));

    let at = Position { last_seq: boundary.last_seq, ..Position::default() };
    let restored = Replica::restored(Counter { base: 41, ..Counter::default() }, at).unwrap();
    let mut held = Standby::new(storage.clone(), restored, config(), env(1)).unwrap();
    assert_eq!(follow(&mut held).await.unwrap(), Step::Reached(boundary));
    let caught_up = held.promote(&*Switch::on()).await.unwrap();
    assert_eq!(caught_up.prefix().last_seq.get(), 41);
}

#[tokio::test]
async fn two_clusters_in_one_store_do_not_see_each_other() {
    let (kv, storage) = fresh().await;
    let mut scribe = Scribe::begin(&storage).await;
    scribe.fill(2, 2, 10).await;
    let other = LogKeys::of(&ha_types::ClusterId::new("c1.b").unwrap());
    let options = oplog_core::OpenOptions { accept_lost_writes: true, ..Default::default() };
    let other = oplog_core::BatchStorage::open(kv as Arc<dyn TxnKv>, other, options).await.unwrap();
    assert_eq!(standby(&other).step().await.unwrap(), Step::Empty);
}
