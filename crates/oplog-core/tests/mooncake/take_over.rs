//! Owns the tests of taking a log over from Mooncake: what is refused, what is compared, and every way the one transaction can go.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::faulty::{Fault, FaultyKv, OpKind, RuntimeClock, Situation};
use ha_kv::{Kv, KvErrorKind, MemoryKv, TxnOutcome};
use ha_types::{BatchId, Clock, MonoTime, SeededEntropy, Seq};
use oplog_core::mooncake::encode;
use oplog_core::test_kit::MooncakePrimary;
use oplog_core::{
    BatchStorage, CaughtUp, ClaimError, ClaimFailed, DurablePrefix, FaultKind, LogError, NewEntry, OrderedWriter,
    Outcome, Replica, TakeOver, TakeOverRefused, WriterConfig, WriterEnv, catch_up, claim_and_verify,
};

use crate::kit::log_of;
use crate::support::{Guard, Hand, Journal, keys, open};

const WATCHED: TakeOver = TakeOver { old_primary_stopped: false };
const STOPPED: TakeOver = TakeOver { old_primary_stopped: true };

async fn claim(
    storage: &BatchStorage,
    guard: &Guard,
    seed: u64,
) -> Result<CaughtUp<Journal>, Box<ClaimFailed<Journal>>> {
    let (clock, entropy) = (RuntimeClock::new(), SeededEntropy::new(seed));
    let replica = Replica::empty(Journal::default());
    claim_and_verify(storage.clone(), replica, guard, &clock, &entropy, Duration::from_millis(10)).await
}

async fn client(store: &Arc<MemoryKv>, permit: TakeOver) -> (Arc<FaultyKv>, BatchStorage) {
    let client = FaultyKv::new(store.clone(), 1);
    let storage = open(client.clone()).await.permit_take_over(permit);
    (client, storage)
}

async fn value(store: &MemoryKv, key: Bytes) -> Option<Bytes> {
    store.get(&key).await.unwrap()
}

async fn view(store: &MemoryKv) -> Option<Bytes> {
    value(store, keys().producer_view()).await
}

async fn assert_untouched(store: &MemoryKv, original: &MooncakePrimary) {
    assert_eq!(value(store, keys().durable_prefix()).await, original.prefix);
    assert_eq!(view(store).await, Some(original.view.to_string().into()));
}

fn refusal(failed: ClaimFailed<Journal>) -> TakeOverRefused {
    match failed.error {
        ClaimError::TakeOver(refused) => refused,
        other => panic!("{other}"),
    }
}

/// The take-over is whole: one claim, one step of the view, the state is the log, and the old writer is out.
async fn assert_taken(store: &MemoryKv, claimed: &CaughtUp<Journal>, original: &mut MooncakePrimary) {
    assert_eq!((claimed.claim().epoch.get(), claimed.claim().from_mooncake), (1, true));
    claimed.machine().assert_is_fold_of(&original.written);
    let line = claimed.prefix().encode();
    assert!(line.starts_with("schema_version=1 epoch=1 "), "no JSON any more: {line}");
    assert_eq!(value(store, keys().durable_prefix()).await, Some(line.into()));
    assert_eq!(view(store).await, Some((original.view + 1).to_string().into()));
    assert_eq!(original.append(&[b"too late"]).await.unwrap(), TxnOutcome::CompareFailed);
}

#[tokio::test(start_paused = true)]
async fn l11_a_log_of_mooncakes_is_taken_over_and_written_on() {
    let (store, mut original) = log_of(5).await;
    let (client, storage) = client(&store, WATCHED).await;
    let begun = RuntimeClock::new();
    let claimed = claim(&storage, &Guard::new(), 1).await.unwrap();
    assert!(begun.now() >= MonoTime::from_origin(Duration::from_secs(5)), "the old primary was watched");
    assert_eq!(client.calls(OpKind::Txn), 2, "the probe, and one transaction");
    assert_taken(&store, &claimed, &mut original).await;

    // Ours from here on: the first record binds the last one of Mooncake's, and a reader crosses the boundary.
    let mut hand = Hand::new(claimed);
    hand.append_batches(4).await;
    let written = [original.written, hand.written.clone()].concat();
    let mut follower = Replica::empty(Journal::default());
    catch_up(&hand.storage, &mut follower, &hand.prefix, 64).await.unwrap();
    follower.machine().assert_is_fold_of(&written);
    assert_eq!(follower.position().epoch.get(), 1);

    // The next claim is an ordinary one.
    let next = claim(&open(store).await, &Guard::new(), 2).await.unwrap();
    assert_eq!((next.claim().epoch.get(), next.claim().from_mooncake), (2, false));
    next.machine().assert_is_fold_of(&written);
}

#[tokio::test(start_paused = true)]
async fn l16_our_first_record_binds_the_last_one_of_mooncakes() {
    let (store, original) = log_of(3).await;
    let (_, storage) = client(&store, STOPPED).await;
    let mut hand = Hand::new(claim(&storage, &Guard::new(), 1).await.unwrap());
    hand.append(&[b"ours"]).await;
    // Another record of the same numbers, its own checksum right: only what we wrote tells that it is not the one we applied.
    let good = store.get(&keys().batch(BatchId::new(3))).await.unwrap().unwrap();
    let other = encode::batch(3, 5, &[(1, "default", "key", b"other"), (1, "default", "key", b"entries")]);
    store.put(&keys().batch(BatchId::new(3)), other.into()).await.unwrap();
    let mut misled = Replica::empty(Journal::default());
    let error = catch_up(&storage, &mut misled, &hand.prefix, 1 << 20).await.unwrap_err();
    let LogError::Fault(fault) = error else { panic!("{error}") };
    assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::BrokenChain, "/oplog/c1/batches/00000000000000000004"));

    // And with the right one in its place, no record of Mooncake's follows one of ours.
    store.put(&keys().batch(BatchId::new(3)), good).await.unwrap();
    let mut follower = Replica::empty(Journal::default());
    catch_up(&storage, &mut follower, &hand.prefix, 1 << 20).await.unwrap();
    follower.machine().assert_is_fold_of(&[original.written, hand.written].concat());
    let late = encode::batch(5, 8, &[(1, "default", "key", b"late")]);
    let above = DurablePrefix { batch_id: BatchId::new(5), last_seq: Seq::new(8), ..hand.prefix };
    let fault = follower.apply_record(BatchId::new(5), &late, &above).unwrap_err();
    assert_eq!(fault.kind, FaultKind::WrongEpoch, "{fault}");
}

#[tokio::test(start_paused = true)]
async fn a_log_of_mooncakes_is_not_taken_over_unasked() {
    let (store, original) = log_of(3).await;
    let client = FaultyKv::new(store.clone(), 1);
    let storage = open(client.clone()).await;
    let failed = claim(&storage, &Guard::new(), 1).await.unwrap_err();
    assert_eq!(failed.replica.position().batch_id.get(), 3, "it has caught up, and can follow on");
    assert_eq!(refusal(*failed), TakeOverRefused::NotPermitted);
    assert_eq!(client.calls(OpKind::Txn), 1, "the probe alone");
    assert_untouched(&store, &original).await;
}

#[tokio::test(start_paused = true)]
async fn an_elected_primary_of_mooncakes_stands_in_the_way_unless_it_is_said_to_have_stopped() {
    let (store, mut original) = log_of(3).await;
    let election = keys().old_master_view();
    store.put(&election, "10.0.0.9:50051".into()).await.unwrap();
    let (client, storage) = client(&store, WATCHED).await;
    let refused = refusal(*claim(&storage, &Guard::new(), 1).await.unwrap_err());
    assert_eq!(refused, TakeOverRefused::OldPrimaryElected { key: "mooncake-store/c1/master_view".into() });
    assert_eq!(client.calls(OpKind::Txn), 1, "the probe alone");
    assert_untouched(&store, &original).await;

    let storage = storage.permit_take_over(STOPPED);
    let begun = RuntimeClock::new();
    let claimed = claim(&storage, &Guard::new(), 2).await.unwrap();
    assert!(begun.now() < MonoTime::from_origin(Duration::from_secs(1)), "nothing is watched");
    assert_taken(&store, &claimed, &mut original).await;
}

#[tokio::test(start_paused = true)]
async fn an_election_between_the_last_look_and_the_transaction_makes_it_fail() {
    for (before, permit) in [(None, WATCHED), (None, STOPPED), (Some("old"), STOPPED)] {
        let (store, mut original) = log_of(2).await;
        let election = keys().old_master_view();
        if let Some(before) = before {
            store.put(&election, before.into()).await.unwrap();
        }
        let (client, storage) = client(&store, permit).await;
        client.script(OpKind::Txn, Fault::HoldRequest);
        let claiming = tokio::spawn(async move { claim(&storage, &Guard::new(), 1).await });
        client.reached(OpKind::Txn, 2).await;
        store.put(&election, "new".into()).await.unwrap();
        client.release();
        let claimed = claiming.await.unwrap();
        if permit == WATCHED {
            let refused = refusal(*claimed.unwrap_err());
            assert!(matches!(refused, TakeOverRefused::OldPrimaryElected { .. }), "{refused}");
            assert_untouched(&store, &original).await;
        } else {
            // The word of the operator holds for what is elected by now, too; it took a second transaction to say so.
            assert_eq!(client.calls(OpKind::Txn), 3);
            assert_taken(&store, &claimed.unwrap(), &mut original).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_primary_of_mooncakes_that_writes_is_left_alone() {
    for moved_view in [false, true] {
        let (store, mut original) = log_of(3).await;
        let (client, storage) = client(&store, WATCHED).await;
        let claiming = tokio::spawn({
            let storage = storage.clone();
            async move { claim(&storage, &Guard::new(), 1).await }
        });
        tokio::time::sleep(Duration::from_secs(3)).await;
        if moved_view {
            original.view = 8;
            store.put(&keys().producer_view(), "8".into()).await.unwrap();
        } else {
            assert_eq!(original.append(&[b"alive"]).await.unwrap(), TxnOutcome::Committed);
        }
        let refused = refusal(*claiming.await.unwrap().unwrap_err());
        let key = if moved_view { "/oplog/c1/producer_view" } else { "/oplog/c1/durable_prefix" };
        assert!(matches!(&refused, TakeOverRefused::OldPrimaryWrites { key: k, .. } if k == key), "{refused}");
        assert_eq!(client.calls(OpKind::Txn), 1, "the probe alone");
        assert_untouched(&store, &original).await;
        // Quiet since: the next attempt takes it, and what was written meanwhile is in its state.
        let claimed = claim(&storage, &Guard::new(), 2).await.unwrap();
        assert_taken(&store, &claimed, &mut original).await;
    }
}

#[tokio::test(start_paused = true)]
async fn w4_what_mooncakes_primary_commits_before_the_take_over_is_in_the_state() {
    for permit in [WATCHED, STOPPED] {
        let (store, mut original) = log_of(3).await;
        let (client, storage) = client(&store, permit).await;
        client.script(OpKind::Txn, Fault::HoldRequest);
        let claiming = tokio::spawn(async move { claim(&storage, &Guard::new(), 1).await });
        client.reached(OpKind::Txn, 2).await;
        let more = original.append(&[b"in between", b"and another"]).await;
        assert_eq!(more.unwrap(), TxnOutcome::Committed);
        client.release();
        let claimed = claiming.await.unwrap().unwrap();
        assert_eq!(client.calls(OpKind::Txn), 3, "the probe, one too late, one that was not");
        assert_taken(&store, &claimed, &mut original).await;
    }
}

/// Row W3: the old primary is paused between seal and transaction; we take the log over, catch up and serve; it resumes. Our batch has
/// the very id and sequences of the one that it holds.
#[tokio::test(start_paused = true)]
async fn w3_a_primary_of_mooncakes_paused_between_seal_and_transaction_is_out_once_we_serve() {
    for written_before in [false, true] {
        let (store, mut original) = log_of(3).await;
        let link = FaultyKv::new(store.clone(), 9);
        original.store = link.clone();
        link.script(OpKind::Txn, Fault::HoldRequest);
        let paused = tokio::spawn(async move {
            let told = original.append(&[b"held", b"held too"]).await.unwrap();
            (original, told)
        });
        link.reached(OpKind::Txn, 1).await;

        let (_, storage) = client(&store, STOPPED).await;
        let (machine, log) = claim(&storage, &Guard::new(), 1).await.unwrap().into_parts();
        assert_eq!(machine.entries.len(), 6, "caught up");
        let env = WriterEnv { clock: Arc::new(RuntimeClock::new()), entropy: Arc::new(SeededEntropy::new(2)) };
        let writer = OrderedWriter::start(log, WriterConfig::default(), env).unwrap();
        let write = async |payload: &'static [u8]| {
            let entry = NewEntry { op_type: 1, tenant: "default", key: b"key", payload };
            let ticket = writer.ready().await.unwrap().commit(entry).unwrap();
            (ticket.seq(), ticket.await)
        };
        let mut ours: Vec<&'static [u8]> = Vec::new();
        if written_before {
            assert_eq!(write(b"ours").await, (Seq::new(7), Outcome::Durable));
            ours.push(b"ours");
        }
        let before = value(&store, keys().batch(BatchId::new(4))).await;
        assert_eq!(before.is_some(), written_before);

        link.release();
        let (mut original, told) = paused.await.unwrap();
        assert_eq!(told, TxnOutcome::CompareFailed, "refused");
        for _ in 0..3 {
            assert_eq!(original.append(&[b"again"]).await.unwrap(), TxnOutcome::CompareFailed, "for good");
        }
        assert_eq!(value(&store, keys().batch(BatchId::new(4))).await, before, "nothing of it is there");

        let next = Seq::new(7 + u64::from(written_before));
        assert_eq!(write(b"the next").await, (next, Outcome::Durable), "the new one's next write succeeds");
        ours.push(b"the next");
        assert_eq!(original.append(&[b"and again"]).await.unwrap(), TxnOutcome::CompareFailed);
        let mut follower = Replica::empty(Journal::default());
        let prefix = storage.require_prefix().await.unwrap();
        catch_up(&storage, &mut follower, &prefix, 1 << 20).await.unwrap();
        let written: Vec<_> = original.written.iter().cloned().chain(ours.iter().map(|p| p.to_vec())).collect();
        follower.machine().assert_is_fold_of(&written);
    }
}

#[tokio::test(start_paused = true)]
async fn w1_a_take_over_whose_reply_is_lost_is_recognised() {
    let (store, mut original) = log_of(3).await;
    let (client, storage) = client(&store, STOPPED).await;
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    let claimed = claim(&storage, &Guard::new(), 1).await.unwrap();
    assert_eq!(client.calls(OpKind::Txn), 2, "sent once beside the probe");
    assert_taken(&store, &claimed, &mut original).await;
}

#[tokio::test(start_paused = true)]
async fn w1_whatever_step_fails_the_take_over_is_whole_or_not_there() {
    let kinds = [OpKind::Get, OpKind::Txn, OpKind::Range];
    let faults = [
        Fault::FailBefore(KvErrorKind::Unavailable),
        Fault::LoseRequest(KvErrorKind::Timeout),
        Fault::FailAfter(KvErrorKind::Timeout),
    ];
    let mut situations = 0;
    for permit in [WATCHED, STOPPED] {
        for kind in kinds {
            for fault in &faults {
                for step in 0..12 {
                    let (store, mut original) = log_of(3).await;
                    let (client, storage) = client(&store, permit).await;
                    let calls = client.calls(kind);
                    for _ in 0..step {
                        client.script(kind, Fault::Pass);
                    }
                    client.script(kind, fault.clone());
                    let claimed = claim(&storage, &Guard::new(), 1).await.unwrap();
                    assert_taken(&store, &claimed, &mut original).await;
                    if client.calls(kind) - calls <= step {
                        break;
                    }
                    situations += 1;
                }
            }
        }
    }
    assert!(situations > 40, "{situations} steps failed");
}

#[tokio::test(start_paused = true)]
async fn w2_a_held_take_over_that_arrives_after_its_retry_fails_its_compare() {
    let (store, mut original) = log_of(3).await;
    let (client, storage) = client(&store, STOPPED).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    let claimed = claim(&storage, &Guard::new(), 1).await.unwrap();
    assert_eq!(client.land_held().await, 1);
    assert_eq!(client.count(Situation::LandedRefused), 1);
    assert_taken(&store, &claimed, &mut original).await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_take_over_may_land_and_the_next_claim_is_an_ordinary_one() {
    let (store, mut original) = log_of(3).await;
    let (client, storage) = client(&store, STOPPED).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    let guard = Guard::new();
    client.on_txn({
        let guard = guard.clone();
        move |_| guard.lose()
    });
    let failed = claim(&storage, &guard, 1).await.unwrap_err();
    assert!(matches!(failed.error, ClaimError::NotLeader), "{}", failed.error);
    client.land_held().await;
    assert_eq!(view(&store).await, Some("8".into()));
    assert_eq!(original.append(&[b"too late"]).await.unwrap(), TxnOutcome::CompareFailed);
    let claimed = claim(&open(store).await, &Guard::new(), 2).await.unwrap();
    assert_eq!((claimed.claim().epoch.get(), claimed.claim().from_mooncake), (2, false));
    claimed.machine().assert_is_fold_of(&original.written);
}

#[tokio::test(start_paused = true)]
async fn of_two_take_overs_at_once_one_wins() {
    for held in [false, true] {
        let (store, mut original) = log_of(3).await;
        let (first_client, first) = client(&store, STOPPED).await;
        let (_, second) = client(&store, STOPPED).await;
        if held {
            first_client.script(OpKind::Txn, Fault::HoldRequest);
        }
        let first = tokio::spawn(async move { claim(&first, &Guard::new(), 1).await });
        first_client.reached(OpKind::Txn, 2).await;
        let second = claim(&second, &Guard::new(), 2).await;
        first_client.release();
        let (mut won, mut superseded) = (Vec::new(), 0);
        for claimed in [first.await.unwrap(), second] {
            match claimed {
                Ok(claimed) => won.push(claimed),
                Err(failed) => {
                    assert!(matches!(failed.error, ClaimError::Superseded(_)), "{}", failed.error);
                    superseded += 1;
                }
            }
        }
        match (held, won.as_slice()) {
            (true, [one]) => {
                assert_eq!(superseded, 1);
                assert_taken(&store, one, &mut original).await;
            }
            // One after the other: the second one's is an ordinary claim.
            (false, [_, later]) => assert_eq!((later.claim().epoch.get(), later.claim().from_mooncake), (2, false)),
            other => panic!("{held}: {} won, {superseded} superseded", other.1.len()),
        }
        assert_eq!(view(&store).await, Some("8".into()), "the view went up once");
    }
}

#[tokio::test(start_paused = true)]
async fn an_absent_producer_view_is_compared_as_absent_and_a_wrong_one_is_a_fault() {
    let (store, original) = log_of(2).await;
    store.delete(&keys().producer_view()).await.unwrap();
    let (client, storage) = client(&store, STOPPED).await;
    client.script(OpKind::Txn, Fault::HoldRequest);
    let claiming = tokio::spawn(async move { claim(&storage, &Guard::new(), 1).await });
    client.reached(OpKind::Txn, 2).await;
    store.put(&keys().producer_view(), "41".into()).await.unwrap();
    client.release();
    let claimed = claiming.await.unwrap().unwrap();
    claimed.machine().assert_is_fold_of(&original.written);
    assert_eq!(view(&store).await, Some("42".into()));

    let (store, original) = log_of(2).await;
    store.delete(&keys().producer_view()).await.unwrap();
    let storage = open(store.clone()).await.permit_take_over(STOPPED);
    claim(&storage, &Guard::new(), 1).await.unwrap().machine().assert_is_fold_of(&original.written);
    assert_eq!(view(&store).await, Some("1".into()));

    for wrong in ["", "07", "-1", "9223372036854775807", "seven"] {
        let (store, original) = log_of(2).await;
        store.put(&keys().producer_view(), wrong.into()).await.unwrap();
        let storage = open(store.clone()).await.permit_take_over(STOPPED);
        let failed = claim(&storage, &Guard::new(), 1).await.unwrap_err();
        let ClaimError::Log(LogError::Fault(fault)) = failed.error else { panic!("{}", failed.error) };
        assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::ForeignState, "/oplog/c1/producer_view"));
        assert_eq!(fault.found, format!("\"{wrong}\""));
        assert_eq!(value(&store, keys().durable_prefix()).await, original.prefix);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_of_mooncakes_without_a_batch_is_taken_over_too() {
    for view_in_prefix in [None, Some(7)] {
        let (store, mut original) = log_of(0).await;
        let prefix: Bytes = encode::prefix(0, 0, view_in_prefix).into();
        store.put(&keys().durable_prefix(), prefix.clone()).await.unwrap();
        original.prefix = Some(prefix);
        let storage = open(store.clone()).await;
        let refused = refusal(*claim(&storage, &Guard::new(), 1).await.unwrap_err());
        assert_eq!(refused, TakeOverRefused::NotPermitted, "empty is not ours");
        let claimed = claim(&storage.permit_take_over(STOPPED), &Guard::new(), 1).await.unwrap();
        assert_taken(&store, &claimed, &mut original).await;
        let mut hand = Hand::new(claimed);
        hand.append(&[b"the first"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s9_without_leadership_nothing_is_taken_over() {
    let (store, original) = log_of(2).await;
    let (client, storage) = client(&store, WATCHED).await;
    let guard = Guard::new();
    let claiming = tokio::spawn({
        let guard = guard.clone();
        async move { claim(&storage, &guard, 1).await }
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    guard.lose();
    let failed = claiming.await.unwrap().unwrap_err();
    assert!(matches!(failed.error, ClaimError::NotLeader), "{}", failed.error);
    assert_eq!(client.calls(OpKind::Txn), 1, "the probe alone");
    assert_untouched(&store, &original).await;
}
