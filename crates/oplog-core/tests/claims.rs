//! Owns the tests of claiming on a store that fails: every fault ends in a proof, a reason, or a replica handed back.

mod support;

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultyKv, Op, OpKind, Situation, Stage};
use ha_kv::{Compare, ErrorClass, Kv, KvErrorKind, MemoryKv, TxnOutcome};
use ha_types::{BatchId, Seq};
use oplog_core::{BatchStorage, ClaimError, DurablePrefix, FaultKind, LogError, Replica, catch_up};
use support::{Crooked, Guard, Hand, Journal, claim, claim_new, fresh, keys, open};

fn empty() -> Replica<Journal> {
    Replica::empty(Journal::default())
}

/// A store with a log of `n` batches, and the hand that wrote it.
async fn log_of(n: u8) -> (Arc<MemoryKv>, Hand) {
    let store = Arc::new(MemoryKv::new());
    let mut hand = Hand::new(claim_new(&fresh(store.clone()).await, 1).await);
    hand.append_batches(n).await;
    (store, hand)
}

async fn client(store: &Arc<MemoryKv>, seed: u64) -> (Arc<FaultyKv>, BatchStorage) {
    let client = FaultyKv::new(store.clone(), seed);
    let storage = open(client.clone()).await;
    (client, storage)
}

#[tokio::test(start_paused = true)]
async fn s3_a_claim_proves_the_fold_of_the_log() {
    let (store, hand) = log_of(12).await;
    let claimed = claim(&open(store.clone()).await, empty(), &Guard::new(), 2).await.unwrap();
    assert_eq!((claimed.claim().epoch.get(), claimed.prefix().epoch.get()), (2, 2));
    assert_ne!(claimed.claim().owner, hand.prefix.owner);
    assert!(claimed.prefix().same_boundary(&hand.prefix));
    claimed.machine().assert_is_fold_of(&hand.written);
    let stored = open(store).await.require_prefix().await.unwrap();
    assert_eq!(stored, *claimed.prefix());
}

#[tokio::test(start_paused = true)]
async fn w4_what_the_old_leader_commits_before_the_claim_is_in_the_new_leaders_state() {
    let (store, mut old) = log_of(5).await;
    let (client, storage) = client(&store, 2).await;
    // The claimant has caught up and stops just before its claim is sent; twice the old leader is faster.
    client.script(OpKind::Txn, Fault::HoldRequest);
    client.script(OpKind::Txn, Fault::HoldRequest);
    let claiming = tokio::spawn(async move { claim(&storage, empty(), &Guard::new(), 2).await });
    for round in 0..2 {
        client.reached(OpKind::Txn, 2 + round).await;
        old.append(&[b"in between", b"and another"]).await;
        client.release();
    }
    let claimed = claiming.await.unwrap().unwrap();
    assert!(claimed.prefix().same_boundary(&old.prefix));
    claimed.machine().assert_is_fold_of(&old.written);
    assert_eq!(client.calls(OpKind::Txn), 4, "the probe, two claims that were too late, one that was not");

    assert_eq!(old.try_append(&[b"too late"]).await.unwrap(), TxnOutcome::CompareFailed);
    let mut new = Hand::new(claimed);
    new.append(&[b"the new one's"]).await;
}

#[tokio::test(start_paused = true)]
async fn w3_a_transaction_of_the_old_leader_held_over_the_claim_is_refused() {
    let (store, mut old) = log_of(5).await;
    let (client, storage) = client(&store, 1).await;
    old.storage = storage;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    let error = old.try_append(&[b"held"]).await.unwrap_err();
    assert!(error.is_unknown());
    let claimed = claim_new(&open(store.clone()).await, 2).await;
    claimed.machine().assert_is_fold_of(&old.written);
    let mut new = Hand::new(claimed);
    assert_eq!(client.land_held().await, 1);
    assert_eq!(client.count(Situation::LandedRefused), 1);
    new.append(&[b"the new one's"]).await;
    let mut follower = empty();
    catch_up(&new.storage, &mut follower, &new.prefix, 1 << 20).await.unwrap();
    follower.machine().assert_is_fold_of(&[old.written, new.written].concat());
}

#[tokio::test(start_paused = true)]
async fn w1_a_claim_whose_reply_is_lost_is_recognised() {
    let (store, hand) = log_of(5).await;
    let (client, storage) = client(&store, 2).await;
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    let claimed = claim(&storage, empty(), &Guard::new(), 2).await.unwrap();
    assert_eq!((claimed.claim().epoch.get(), client.calls(OpKind::Txn)), (2, 2), "sent once beside the probe");
    claimed.machine().assert_is_fold_of(&hand.written);
}

#[tokio::test(start_paused = true)]
async fn w2_a_held_claim_that_arrives_after_its_retry_fails_its_compare() {
    let (store, _) = log_of(5).await;
    let (client, storage) = client(&store, 2).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    let claimed = claim(&storage, empty(), &Guard::new(), 2).await.unwrap();
    assert_eq!(claimed.claim().epoch.get(), 2);
    assert_eq!(client.land_held().await, 1);
    assert_eq!(client.count(Situation::LandedRefused), 1);
    assert_eq!(storage.require_prefix().await.unwrap(), *claimed.prefix());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_claim_may_land_and_the_next_takes_the_log() {
    let (store, hand) = log_of(5).await;
    let (client, storage) = client(&store, 2).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    let guard = Guard::new();
    client.on_txn({
        let guard = guard.clone();
        move |_| guard.lose()
    });
    let failed = claim(&storage, empty(), &guard, 2).await.unwrap_err();
    assert!(matches!(failed.error, ClaimError::NotLeader), "{}", failed.error);
    client.land_held().await;
    let orphan = storage.require_prefix().await.unwrap();
    assert_eq!(orphan.epoch.get(), 2, "nobody owns the log");
    let claimed = claim(&open(store).await, failed.replica, &Guard::new(), 3).await.unwrap();
    assert_eq!(claimed.claim().epoch.get(), 3);
    claimed.machine().assert_is_fold_of(&hand.written);
}

#[tokio::test(start_paused = true)]
async fn s9_without_leadership_nothing_is_claimed() {
    let (store, hand) = log_of(5).await;
    let (client, storage) = client(&store, 2).await;
    let guard = Guard::new();
    guard.lose();
    let failed = claim(&storage, empty(), &guard, 2).await.unwrap_err();
    assert!(matches!(failed.error, ClaimError::NotLeader));
    assert_eq!(client.calls(OpKind::Txn), 1, "the probe alone");
    assert_eq!(storage.require_prefix().await.unwrap(), hand.prefix);
    assert_eq!(failed.replica.position().batch_id, hand.prefix.batch_id, "it has caught up all the same");
}

#[tokio::test(start_paused = true)]
async fn s9_leadership_lost_while_the_store_is_away_ends_the_claim() {
    let (store, _) = log_of(5).await;
    for (op, calls) in [(OpKind::Get, 3), (OpKind::Txn, 3), (OpKind::Range, 3)] {
        let (client, storage) = client(&store, 2).await;
        client.always(op, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
        let guard = Guard::new();
        let claiming = tokio::spawn({
            let (guard, storage) = (guard.clone(), storage.clone());
            async move { claim(&storage, empty(), &guard, 2).await }
        });
        client.reached(op, calls).await;
        guard.lose();
        let failed = claiming.await.unwrap().unwrap_err();
        assert!(matches!(failed.error, ClaimError::NotLeader), "{op:?}: {}", failed.error);
    }
}

#[tokio::test(start_paused = true)]
async fn superseded_by_a_higher_epoch() {
    let (store, hand) = log_of(5).await;
    for fault in [Fault::HoldRequest, Fault::ApplyLater(None)] {
        let (client, storage) = client(&store, 2).await;
        client.script(OpKind::Txn, fault.clone());
        let (sent, gate) = (client.clone(), storage.clone());
        let claiming = tokio::spawn(async move { claim(&gate, empty(), &Guard::new(), 2).await });
        sent.reached(OpKind::Txn, 2).await;
        let rival = claim_new(&open(store.clone()).await, 3).await;
        client.release();
        client.land_held().await;
        let failed = claiming.await.unwrap().unwrap_err();
        match failed.error {
            ClaimError::Superseded(by) => assert_eq!(by, *rival.prefix(), "{fault:?}"),
            other => panic!("{fault:?}: {other}"),
        }
        failed.replica.machine().assert_is_fold_of(&hand.written);
    }
}

#[tokio::test(start_paused = true)]
async fn w10_nothing_is_claimed_on_a_log_whose_last_batch_is_gone_broken_or_anothers() {
    let (_, hand) = log_of(6).await;
    let last = hand.prefix.batch_id.get();
    let mut broken = hand.stored(last).await.to_vec();
    broken[15] ^= 1;
    for (value, kind) in [
        (None, FaultKind::BatchMissing),
        (Some(broken.into()), FaultKind::BatchUndecodable),
        (Some(hand.stored(last - 1).await), FaultKind::WrongBatchId),
    ] {
        for caught_up_before in [false, true] {
            let (store, hand) = log_of(6).await;
            let (client, storage) = client(&store, 2).await;
            let mut replica = empty();
            if caught_up_before {
                catch_up(&storage, &mut replica, &hand.prefix, 1 << 20).await.unwrap();
            }
            let key = keys().batch(BatchId::new(last));
            match value.clone() {
                Some(value) => store.put(&key, value).await.unwrap(),
                None => store.delete(&key).await.unwrap(),
            }
            let failed = claim(&storage, replica, &Guard::new(), 2).await.unwrap_err();
            match failed.error {
                ClaimError::Log(LogError::Fault(fault)) => {
                    assert_eq!((fault.kind, fault.key.as_bytes()), (kind, &key[..]));
                }
                other => panic!("{kind:?}: {other}"),
            }
            assert_eq!(client.calls(OpKind::Txn), 1, "nothing but the probe was sent");
            assert_eq!(storage.require_prefix().await.unwrap(), hand.prefix);
            let reached = last - u64::from(!caught_up_before);
            assert_eq!(failed.replica.position().batch_id.get(), reached);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn l16_a_last_batch_of_another_history_is_not_served_from() {
    let (store, hand) = log_of(5).await;
    let mut replica = empty();
    let storage = open(store.clone()).await;
    catch_up(&storage, &mut replica, &hand.prefix, 1 << 20).await.unwrap();
    // Batch 6 is written, followed, rolled back, and written again with another entry.
    let mut first = hand.clone();
    first.append(&[b"first history"]).await;
    catch_up(&storage, &mut replica, &first.prefix, 1 << 20).await.unwrap();
    store.put(&keys().durable_prefix(), hand.prefix.encode().into()).await.unwrap();
    let mut second = hand;
    second.append(&[b"second history"]).await;
    let failed = claim(&storage, replica, &Guard::new(), 2).await.unwrap_err();
    assert!(
        matches!(&failed.error, ClaimError::Log(LogError::Fault(f)) if f.kind == FaultKind::BrokenChain),
        "{}",
        failed.error
    );
    assert_eq!(storage.require_prefix().await.unwrap(), second.prefix);
}

#[tokio::test(start_paused = true)]
async fn s1_empty_pages_refuse_the_promotion_and_short_ones_never_pass_for_the_end() {
    let (store, hand) = log_of(6).await;
    let crooked = Crooked::new(store);
    let storage = open(crooked.clone()).await;
    crooked.bend_range(|_, mut page| {
        page.pairs.clear();
        page.more = false;
        page
    });
    let failed = claim(&storage, empty(), &Guard::new(), 2).await.unwrap_err();
    match failed.error {
        ClaimError::Log(LogError::Fault(fault)) => {
            assert_eq!(
                (fault.kind, fault.key.as_bytes()),
                (FaultKind::BatchMissing, &keys().batch(BatchId::new(1))[..])
            );
        }
        other => panic!("{other}"),
    }
    assert_eq!(failed.replica.applied(), Seq::ZERO);
    assert_eq!(storage.require_prefix().await.unwrap(), hand.prefix, "nothing was claimed");
    // A store that ends each page too early is read to the end all the same, or not believed.
    for keep in 1..6 {
        crooked.bend_range(move |_, mut page| {
            page.pairs.truncate(keep);
            page.more = false;
            page
        });
        let claimed = claim(&storage, empty(), &Guard::new(), 2).await.unwrap();
        claimed.machine().assert_is_fold_of(&hand.written);
    }
}

#[tokio::test(start_paused = true)]
async fn s1_s3_an_error_in_any_one_call_is_cured_or_gives_the_replica_back() {
    use KvErrorKind::{Auth, Busy, Closed, Corrupt, NoSpace, ReadOnly, Timeout, Unavailable, WrongStore};
    let mut cured = 0;
    let mut given_back = 0;
    for kind in [Unavailable, Timeout, Busy, NoSpace, Auth, ReadOnly, Corrupt, WrongStore, Closed] {
        for op in [OpKind::Get, OpKind::Range, OpKind::Txn] {
            for nth in 0..4 {
                for fault in [Fault::FailBefore(kind), Fault::LoseRequest(kind), Fault::FailAfter(kind)] {
                    let (store, hand) = log_of(4).await;
                    let (client, storage) = client(&store, 2).await;
                    for _ in 0..nth {
                        client.script(op, Fault::Pass);
                    }
                    client.script(op, fault.clone());
                    match claim(&storage, empty(), &Guard::new(), 2).await {
                        Ok(claimed) => {
                            claimed.machine().assert_is_fold_of(&hand.written);
                            let stored = store.get(&keys().durable_prefix()).await.unwrap().unwrap();
                            assert_eq!(stored, claimed.prefix().encode());
                            assert_eq!(claimed.claim().epoch.get(), 2);
                            cured += 1;
                        }
                        Err(failed) => {
                            assert_eq!(kind.class(), ErrorClass::Permanent, "{op:?} {nth} {fault:?}: {}", failed.error);
                            let same = matches!(&failed.error, ClaimError::Log(LogError::Store(e)) if e.kind == kind);
                            assert!(same, "{op:?} {nth} {fault:?} became {}", failed.error);
                            let so_far = failed.replica.applied().get() as usize;
                            failed.replica.machine().assert_is_fold_of(&hand.written[..so_far]);
                            given_back += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{cured} cured, {given_back} given back");
    assert!(cured > 100 && given_back > 30);
}

#[tokio::test(start_paused = true)]
async fn w7_a_full_store_is_waited_for_while_leadership_lasts() {
    let (store, hand) = log_of(5).await;
    let (client, storage) = client(&store, 2).await;
    client.fill_server(true);
    let claiming = tokio::spawn(async move { claim(&storage, empty(), &Guard::new(), 2).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    let attempts = client.calls(OpKind::Txn);
    assert!((100..1000).contains(&attempts), "{attempts} attempts in 30 s with pauses of 10 to 160 ms");
    client.fill_server(false);
    claiming.await.unwrap().unwrap().machine().assert_is_fold_of(&hand.written);
}

#[tokio::test(start_paused = true)]
async fn rule_4_a_prefix_that_fell_is_confirmed_by_a_second_read() {
    for readings in [1, 2] {
        for lower in [None, Some(())] {
            let (store, hand) = log_of(5).await;
            let crooked = Crooked::new(store.clone());
            let client = FaultyKv::txn_only(crooked.clone(), 2);
            let storage = open(client.clone()).await;
            // The claim is refused once, as somebody was faster; then the prefix is read from a stale or emptied store.
            client.script(OpKind::Txn, Fault::HoldRequest);
            let guard = Guard::new();
            let claiming = tokio::spawn(async move { claim(&storage, empty(), &guard, 2).await });
            client.reached(OpKind::Txn, 2).await;
            let mut old = hand.clone();
            old.append(&[b"faster"]).await;
            let mut left = readings;
            let (key, fallen) = (keys().durable_prefix(), DurablePrefix { last_seq: Seq::new(8), ..hand.prefix });
            crooked.bend_get(move |asked, answer| {
                if asked != &key[..] || left == 0 {
                    return answer;
                }
                left -= 1;
                lower.map(|()| fallen.encode().into())
            });
            client.release();
            match (readings, claiming.await.unwrap()) {
                (1, Ok(claimed)) => claimed.machine().assert_is_fold_of(&old.written),
                (2, Err(failed)) => {
                    let kind = if lower.is_some() { FaultKind::PrefixRegressed } else { FaultKind::PrefixMissing };
                    assert!(
                        matches!(&failed.error, ClaimError::Log(LogError::Fault(f)) if f.kind == kind),
                        "{}",
                        failed.error
                    );
                }
                (_, Ok(_)) => panic!("claimed over a prefix that fell"),
                (_, Err(failed)) => panic!("one stale reading was believed: {}", failed.error),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_leaves_no_epoch_is_refused() {
    let store = Arc::new(MemoryKv::new());
    let last = DurablePrefix {
        epoch: oplog_core::Epoch::new(u64::MAX - 1),
        owner: oplog_core::Owner::new(1),
        ..DurablePrefix::FRESH
    };
    store.put(&keys().durable_prefix(), last.encode().into()).await.unwrap();
    let failed = claim(&open(store).await, empty(), &Guard::new(), 2).await.unwrap_err();
    assert!(matches!(&failed.error, ClaimError::Log(LogError::Refused(why)) if why.contains("no room")));
}

/// W12, W17 and W19 over everything that a log below the writer does.
#[tokio::test(start_paused = true)]
async fn w12_w17_w19_every_write_compares_the_prefix_and_nothing_is_deleted() {
    let store = Arc::new(MemoryKv::new());
    let observed = FaultyKv::new(store.clone(), 1);
    let writes = Arc::new(std::sync::atomic::AtomicU64::new(0));
    observed.observe({
        let (prefix, writes) = (keys().durable_prefix(), writes.clone());
        let inside = |key: &[u8]| key.starts_with(b"/oplog/");
        move |op, stage| match op {
            Op::Txn(txn) => {
                assert!(txn.deletes.is_empty() && txn.ops() <= 2, "W12, W17: {txn:?}");
                let mut put: Vec<_> = txn.puts.iter().map(|put| &put.key).collect();
                put.dedup();
                assert_eq!(put.len(), txn.puts.len(), "W12: a key twice in {txn:?}");
                let guarded = txn.compares.iter().any(|compare| match compare {
                    Compare::ValueEquals { key, .. } | Compare::KeyAbsent { key } => *key == prefix,
                });
                let writes_log = txn.puts.iter().any(|put| inside(&put.key));
                assert!(guarded || !writes_log, "W19: {txn:?}");
                writes.fetch_add(u64::from(writes_log && stage == Stage::Applied), std::sync::atomic::Ordering::SeqCst);
            }
            other => assert!(!other.kind().is_write(), "W17, W19: {other:?}"),
        }
    });
    let storage = fresh(observed.clone()).await;
    let mut old = Hand::new(claim_new(&storage, 1).await);
    old.append_batches(5).await;
    for fault in [Fault::FailAfter(KvErrorKind::Timeout), Fault::LoseRequest(KvErrorKind::Timeout)] {
        observed.script(OpKind::Txn, fault);
        old = Hand { written: old.written, ..Hand::new(claim_new(&storage, 2).await) };
        old.append_batches(2).await;
    }
    let guard = Guard::new();
    guard.lose();
    claim(&storage, empty(), &guard, 3).await.unwrap_err();
    store.delete(&keys().batch(BatchId::new(3))).await.unwrap();
    claim(&storage, empty(), &Guard::new(), 3).await.unwrap_err();
    storage.create_first_prefix().await.unwrap();
    assert_eq!(writes.load(std::sync::atomic::Ordering::SeqCst), 1 + 3 + 9);
}
