//! Owns the tests of the cutover's one transaction: replies lost, late landings, crashes at every step, two at once.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind, Situation};
use ha_kv::{Kv, KvErrorKind, MemoryKv};
use ha_types::{BatchId, Epoch, Owner, Seq};
use oplog_core::legacy::{CutoverError, CutoverOptions};
use oplog_core::record::{BatchHeader, OpenBatch};
use oplog_core::{DurablePrefix, FirstPrefix, LogError, LogKeys};

use crate::support::{contents, cut_over, fill, keys, open, plan, seq, stopped};

const HOUR: Duration = Duration::from_secs(3600);

async fn log_to(latest: u64) -> (Arc<MemoryKv>, LogKeys) {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=latest, Some(latest)).await;
    (kv, keys)
}

fn first(base: u64) -> DurablePrefix {
    DurablePrefix { last_seq: seq(base), ..DurablePrefix::FRESH }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_and_a_lost_request_both_end_in_one_prefix() {
    for fault in [
        Fault::FailAfter(KvErrorKind::Timeout),
        Fault::LoseRequest(KvErrorKind::Timeout),
        Fault::FailBefore(KvErrorKind::NoSpace),
        Fault::FailBefore(KvErrorKind::Unavailable),
        Fault::Duplicate,
        Fault::ApplyLater(Some(Duration::from_millis(3))),
    ] {
        let (kv, keys) = log_to(3).await;
        let (client, storage) = open(&kv, &keys).await;
        client.script(OpKind::Txn, fault.clone());
        let done = cut_over(&storage, stopped()).await.unwrap();
        assert_eq!(done.prefix, FirstPrefix::Created(first(3)), "{fault:?}");
        assert!(done.replica.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn every_reply_lost_is_still_found_out_by_reading() {
    let (kv, keys) = log_to(3).await;
    let (client, storage) = open(&kv, &keys).await;
    client.always(OpKind::Txn, Some(Fault::FailAfter(KvErrorKind::Timeout)));
    assert_eq!(cut_over(&storage, stopped()).await.unwrap().prefix, FirstPrefix::Created(first(3)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_leaves_the_outcome_unknown_and_says_so() {
    let (kv, keys) = log_to(3).await;
    let (client, storage) = open(&kv, &keys).await;
    client.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    assert!(matches!(cut_over(&storage, stopped()).await, Err(CutoverError::Unknown(_))));
    // Certainly not applied is not unknown.
    client.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::NoSpace)));
    assert!(matches!(cut_over(&storage, stopped()).await, Err(CutoverError::Log(LogError::Store(_)))));
    assert_eq!(storage.read_prefix().await.unwrap(), None);
    client.always(OpKind::Txn, None);
    assert_eq!(cut_over(&storage, stopped()).await.unwrap().base, seq(3));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_may_still_land_is_never_reported_as_refused() {
    let (kv, keys) = log_to(3).await;
    let (client, storage) = open(&kv, &keys).await;
    let planned = plan(&storage, stopped()).await.unwrap();
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    kv.put(&keys.legacy_latest(), "2".into()).await.unwrap();
    let error = planned.execute().await.unwrap_err();
    assert!(matches!(error, CutoverError::Unknown(_)), "{error}");
    // And so it may: `latest` of the original goes back and forth.
    kv.put(&keys.legacy_latest(), "3".into()).await.unwrap();
    assert_eq!(client.land_held().await, 1);
    assert_eq!(storage.read_prefix().await.unwrap(), Some(first(3)));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_store_after_an_attempt_that_may_still_land_is_unknown_too() {
    let (kv, keys) = log_to(3).await;
    let (client, storage) = open(&kv, &keys).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    client.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::Closed));
    let error = cut_over(&storage, stopped()).await.unwrap_err();
    assert!(matches!(error, CutoverError::Unknown(_)), "{error}");
    assert_eq!(client.land_held().await, 1);
    assert_eq!(storage.read_prefix().await.unwrap(), Some(first(3)));
}

/// Somebody creates the prefix, writes, and loses the prefix again, all since the plan was made.
#[tokio::test(start_paused = true)]
async fn a_batch_that_appeared_since_the_plan_is_seen_by_the_transaction() {
    let (kv, keys) = log_to(3).await;
    let (_, storage) = open(&kv, &keys).await;
    let planned = plan(&storage, stopped()).await.unwrap();
    let batch = keys.batch(oplog_core::BatchId::new(1));
    kv.put(&batch, "a record".into()).await.unwrap();
    let error = planned.execute().await.unwrap_err();
    assert!(error.to_string().starts_with("/oplog/c/batches/00000000000000000001"), "{error}");
    assert_eq!(storage.read_prefix().await.unwrap(), None);
}

/// The reply is lost, a node claims the new log and writes, and then one read fails: the log *was* cut over, and nobody is told
/// that nothing has changed.
#[tokio::test(start_paused = true)]
async fn a_read_that_fails_after_the_cutover_landed_is_never_reported_as_refused() {
    let last =
        DurablePrefix { epoch: Epoch::new(1), owner: Owner::new(7), batch_id: BatchId::new(1), last_seq: seq(4) };
    for passes in 0..3 {
        let (kv, keys) = log_to(3).await;
        let (client, storage) = open(&kv, &keys).await;
        let planned = plan(&storage, stopped()).await.unwrap();
        client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
        client.script(OpKind::Get, Fault::HoldRequest);
        (0..passes).for_each(|_| client.script(OpKind::Get, Fault::Pass));
        client.script(OpKind::Get, Fault::FailBefore(KvErrorKind::Timeout));
        let reads = client.calls(OpKind::Get);
        let run = tokio::spawn(planned.execute());
        client.reached(OpKind::Get, reads + 1).await;
        let mut batch = OpenBatch::new();
        batch.push(&crate::support::new("p4")).unwrap();
        let (epoch, batch_id, first_seq) = (last.epoch, last.batch_id, last.last_seq);
        let header = BatchHeader { batch_id, first_seq, epoch, prev_crc: 0, timestamp_ms: 1 };
        kv.put(&keys.batch(batch_id), batch.seal(header).unwrap().bytes).await.unwrap();
        kv.put(&keys.durable_prefix(), last.encode().into()).await.unwrap();
        client.release();
        let done = run.await.unwrap().unwrap_or_else(|error| panic!("{passes}: {error}"));
        assert_eq!((done.prefix, done.base), (FirstPrefix::Found(last), seq(3)), "{passes}");
        assert!(done.replica.is_some(), "it stands at the base");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_landing_after_the_retry_changes_nothing() {
    let (kv, keys) = log_to(3).await;
    let (client, storage) = open(&kv, &keys).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    let done = cut_over(&storage, stopped()).await.unwrap();
    assert_eq!(done.prefix, FirstPrefix::Created(first(3)));
    let before = contents(&kv).await;
    assert_eq!(client.land_held().await, 1);
    assert_eq!(client.count(Situation::LandedRefused), 1);
    assert_eq!(contents(&kv).await, before);
}

#[tokio::test(start_paused = true)]
async fn of_two_at_once_one_creates_and_the_other_reads_the_winner() {
    let (kv, keys) = log_to(5).await;
    let ((_, a), (_, b)) = (open(&kv, &keys).await, open(&kv, &keys).await);
    let (one, other) = tokio::join!(cut_over(&a, CutoverOptions::default()), cut_over(&b, CutoverOptions::default()));
    let (one, other) = (one.unwrap(), other.unwrap());
    let created = [one.prefix, other.prefix].iter().filter(|p| matches!(p, FirstPrefix::Created(_))).count();
    assert_eq!(created, 1);
    assert_eq!((one.base, other.base), (seq(5), seq(5)));
    assert!(one.replica.is_some() && other.replica.is_some(), "both stand at the base");
}

#[tokio::test(start_paused = true)]
async fn the_loser_of_another_base_reads_the_winner_and_is_refused_what_it_asked_for() {
    let (kv, keys) = log_to(5).await;
    fill(&*kv, &keys, [6], None).await;
    let ((_, a), (_, b), (_, c)) = (open(&kv, &keys).await, open(&kv, &keys).await, open(&kv, &keys).await);
    let asked = CutoverOptions { last_seq: Some(seq(6)), ..stopped() };
    let (by_latest, by_hand) = (plan(&a, stopped()).await.unwrap(), plan(&b, asked).await.unwrap());
    let also_by_latest = plan(&c, stopped()).await.unwrap();
    assert_eq!(by_hand.execute().await.unwrap().prefix, FirstPrefix::Created(first(6)));
    let lost = by_latest.execute().await.unwrap();
    assert_eq!((lost.prefix, lost.base), (FirstPrefix::Found(first(6)), seq(6)));
    assert!(lost.replica.is_none(), "a state at another base is not handed out");
    assert_eq!(also_by_latest.execute().await.unwrap().base, seq(6));

    let (kv, keys) = log_to(5).await;
    fill(&*kv, &keys, [6], None).await;
    let (_, storage) = open(&kv, &keys).await;
    let by_hand = plan(&storage, asked).await.unwrap();
    cut_over(&storage, stopped()).await.unwrap();
    let error = by_hand.execute().await.unwrap_err();
    assert!(matches!(error, CutoverError::LastSeqAfterCutover { .. }), "{error}");
    assert_eq!(storage.read_prefix().await.unwrap(), Some(first(5)));
}

/// The process dies before or after any one call of the store; whoever runs it again finds or makes the same prefix.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_leaves_a_log_that_can_be_cut_over() {
    let mut crashed = 0;
    for kind in [OpKind::Get, OpKind::Range, OpKind::Txn] {
        for hold in [Fault::HoldRequest, Fault::HoldReply] {
            for step in 0.. {
                let (kv, keys) = log_to(4).await;
                let (client, storage) = open(&kv, &keys).await;
                let before = contents(&kv).await;
                (0..step).for_each(|_| client.script(kind, Fault::Pass));
                client.script(kind, hold.clone());
                let run = tokio::time::timeout(HOUR, cut_over(&storage, CutoverOptions::default())).await;
                let after = contents(&kv).await;
                assert!(before.iter().all(|pair| after.contains(pair)), "only the prefix is written");
                if run.is_ok() {
                    break;
                }
                crashed += 1;
                let (_, again) = open(&kv, &keys).await;
                let prefix = match again.read_prefix().await.unwrap() {
                    Some(prefix) => prefix,
                    None => *cut_over(&again, CutoverOptions::default()).await.unwrap().prefix.prefix(),
                };
                assert_eq!(prefix, first(4), "{kind:?} {step} {hold:?}");
                assert_eq!(again.read_prefix().await.unwrap(), Some(prefix));
            }
        }
    }
    assert!(crashed >= 14, "only {crashed} crashes: the steps were not reached");
}

/// Random faults on three clients at once, from many seeds: one prefix, `{0, latest}`, and nothing else changes.
#[tokio::test(start_paused = true)]
async fn l14_random_faults_never_make_another_first_prefix() {
    use ha_kv::faulty::FaultPlan;
    let (mut done, mut failed) = (0, 0);
    for seed in 0..60 {
        let (kv, keys) = log_to(6).await;
        let before = contents(&kv).await;
        let mut runs = Vec::new();
        for client in 0..3 {
            let client = ha_kv::faulty::FaultyKv::new(kv.clone(), seed * 3 + client);
            let options = oplog_core::OpenOptions { accept_lost_writes: true, ..Default::default() };
            let storage = oplog_core::BatchStorage::open(client.clone(), keys.clone(), options).await.unwrap();
            let plan = FaultPlan {
                delay: 200,
                fail_before: 100,
                lose_request: 150,
                fail_after: 150,
                apply_later: 150,
                duplicate: 100,
                max_delay: Duration::from_millis(200),
                ..FaultPlan::NONE
            };
            client.plan_for(OpKind::Txn, plan);
            runs.push(tokio::spawn(async move {
                let _ = client;
                cut_over_or_found(&storage).await
            }));
        }
        for run in runs {
            match run.await.unwrap() {
                Some(base) => {
                    assert_eq!(base, seq(6));
                    done += 1;
                }
                None => failed += 1,
            }
        }
        tokio::time::sleep(HOUR).await;
        let (_, storage) = open(&kv, &keys).await;
        let mut after = contents(&kv).await;
        after.retain(|pair| !before.contains(pair));
        assert!(after.len() <= 1, "{after:?}");
        assert!(storage.read_prefix().await.unwrap().is_none_or(|prefix| prefix == first(6)));
    }
    assert!(done > 100, "{done} done, {failed} failed");
}

async fn cut_over_or_found(storage: &oplog_core::BatchStorage) -> Option<Seq> {
    use oplog_core::legacy::{CutoverCheck, CutoverPlan};
    let env = crate::support::env();
    match CutoverPlan::prepare(storage, crate::support::Journal::default(), stopped(), env).await {
        Ok(CutoverCheck::Done(prefix)) => Some(prefix.last_seq),
        Ok(CutoverCheck::Ready(plan)) => match plan.execute().await {
            Ok(done) => Some(done.base),
            Err(CutoverError::Unknown(_) | CutoverError::Log(LogError::Store(_))) => None,
            Err(other) => panic!("{other}"),
        },
        Err(other) => panic!("{other}"),
    }
}
