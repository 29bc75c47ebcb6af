//! Owns the tests of promotion: the order, every refusal, the races, and that what is served is the whole log.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::faulty::{Fault as StoreFault, FaultyKv, Op, OpKind, RuntimeClock, Situation, Stage};
use ha_kv::{Kv, KvErrorKind, MemoryKv, TxnOutcome};
use ha_types::{Clock, LeaderGuard, MonoTime, SeededEntropy};
use leadership::{ElectionConfig, Elector};
use oplog_core::{BatchId, CaughtUp, ClaimError, DurablePrefix, Replica};
use standby::{Health, PromoteError, Refused, Standby, StandbyConfig, StandbyEnv, Step};
use support::tamper::{Lie, TamperKv};
use support::*;

async fn prefix_of(kv: &MemoryKv) -> Option<DurablePrefix> {
    let value = kv.get(&keys().durable_prefix()).await.unwrap();
    value.map(|value| DurablePrefix::decode(&value).unwrap())
}

/// S3: what is served is the whole log, under the epoch that was claimed.
async fn assert_serves(caught_up: &CaughtUp<Counter>, kv: &MemoryKv, log: &[Vec<u8>]) {
    assert_eq!(caught_up.machine().payloads, log);
    assert_eq!(Some(*caught_up.prefix()), prefix_of(kv).await);
    assert_eq!(caught_up.claim().epoch, caught_up.prefix().epoch);
    assert_eq!(caught_up.prefix().last_seq.get(), log.len() as u64);
}

async fn written(batches: usize) -> (Arc<MemoryKv>, Scribe) {
    let kv = Arc::new(MemoryKv::new());
    let mut scribe = Scribe::begin(&open(kv.clone()).await).await;
    scribe.fill(batches, 3, 20).await;
    (kv, scribe)
}

#[tokio::test]
async fn s3_what_is_promoted_is_the_whole_log_and_the_next_writer_goes_on_from_it() {
    let (kv, mut scribe) = written(5).await;
    let mut standby = standby(&scribe.storage);
    follow(&mut standby).await.unwrap();
    scribe.fill(2, 3, 20).await;
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_serves(&caught_up, &kv, &scribe.log).await;
    assert_eq!(caught_up.claim().epoch.get(), 2);
    assert!(!scribe.append(&[payload(0, 9)]).await, "the old primary is fenced");
    let mut next = Scribe::take(&scribe.storage, 9).await;
    assert_eq!(next.log, scribe.log);
    next.fill(1, 1, 9).await;
}

#[tokio::test(start_paused = true)]
async fn s1_a_final_catch_up_that_does_not_end_refuses_with_the_reason_and_claims_nothing() {
    // (what befalls each range read, what the refusal says, whether the standby is well)
    let cases = [
        ("empty page", Lie::Absent, false),
        ("a hole", Lie::Hole, false),
        ("an error", Lie::Fail(KvErrorKind::Unavailable), true),
        ("a timeout", Lie::Fail(KvErrorKind::Timeout), true),
        ("a full store", Lie::Fail(KvErrorKind::NoSpace), true),
    ];
    for (what, lie, well) in cases {
        let (kv, mut scribe) = written(5).await;
        let tamper = TamperKv::new(kv.clone());
        let mut standby = standby(&open(tamper.clone()).await);
        follow(&mut standby).await.unwrap();
        scribe.fill(4, 3, 20).await;
        let (start, _) = keys().all_batches();
        tamper.choose(move |_, key| (key.starts_with(&start)).then_some(lie));
        let observer = standby.observer();
        let refused = standby.promote(&*Switch::on()).await.expect_err(what);
        match &refused.error {
            PromoteError::NotCaughtUp(error) => {
                assert!(well, "{what}: {error}");
                assert!(!observer.may_campaign(), "{what}: not before the store answers again");
            }
            PromoteError::Unhealthy(fault) => assert!(!well, "{what}: {fault}"),
            other => panic!("{what}: {other}"),
        }
        assert_eq!(prefix_of(&kv).await, Some(scribe.prefix), "{what}: nothing was claimed");
        assert_eq!(refused.standby.machine().payloads, scribe.log[..15], "{what}");
        assert!(scribe.append(&[payload(0, 9)]).await, "{what}: the primary was not fenced");
        tamper.truth();
        let mut standby = refused.standby;
        if well {
            assert_eq!(follow(&mut standby).await.unwrap(), Step::Reached(scribe.prefix));
            assert!(observer.may_campaign());
            assert_serves(&standby.promote(&*Switch::on()).await.unwrap(), &kv, &scribe.log).await;
        } else {
            assert!(is_unhealthy(&standby), "{what}");
            assert!(standby.promote(&*Switch::on()).await.is_err(), "{what}: unhealthy until an operator acts");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s1_a_store_that_hangs_in_the_final_catch_up_refuses() {
    let (kv, mut scribe) = written(5).await;
    let link = FaultyKv::txn_only(kv.clone(), 3);
    let mut standby = standby(&open(link.clone()).await);
    follow(&mut standby).await.unwrap();
    scribe.fill(1, 1, 20).await;
    link.script(OpKind::Range, StoreFault::HoldReply);
    let refused = standby.promote(&*Switch::on()).await.unwrap_err();
    assert!(
        matches!(&refused.error, PromoteError::NotCaughtUp(e) if e.kind == KvErrorKind::Timeout),
        "{}",
        refused.error
    );
    assert_eq!(prefix_of(&kv).await, Some(scribe.prefix));
    assert_serves(&refused.standby.promote(&*Switch::on()).await.unwrap(), &kv, &scribe.log).await;
}

/// Pages that are capped at one record each are many pages, not an end.
#[tokio::test]
async fn s1_a_page_cap_is_not_the_end() {
    let (kv, mut scribe) = written(5).await;
    let tamper = TamperKv::new(kv.clone());
    let mut standby = standby_with(&open(tamper.clone()).await, StandbyConfig { page_bytes: 1, ..config() });
    follow(&mut standby).await.unwrap();
    scribe.fill(40, 1, 20).await;
    tamper.choose(|_, _| Some(Lie::Short));
    let observer = standby.observer();
    assert_eq!(standby.step().await.unwrap(), Step::Reached(scribe.prefix), "one round goes through all pages");
    assert_eq!((standby.position().batch_id, observer.metrics().lag_batches), (scribe.prefix.batch_id, 0));
    assert_eq!(standby.machine().payloads, scribe.log);
    scribe.fill(40, 1, 20).await;
    let promoted = standby.promote(&*Switch::on()).await.unwrap();
    assert_eq!(observer.metrics().batches, 85, "the final catch-up goes through all pages, before the claim");
    assert_serves(&promoted, &kv, &scribe.log).await;
}

#[tokio::test]
async fn s2_five_thousand_batches_behind_at_promotion() {
    let (kv, mut scribe) = written(1).await;
    let mut standby = standby(&scribe.storage);
    follow(&mut standby).await.unwrap();
    scribe.fill(5_000, 2, 20).await;
    assert_eq!(standby.position().batch_id, BatchId::new(1));
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_serves(&caught_up, &kv, &scribe.log).await;
}

#[tokio::test]
async fn s2_a_snapshot_at_batch_10000_with_the_earlier_ones_gone_reads_the_suffix_only() {
    let (kv, mut scribe) = written(1).await;
    scribe.fill(10_300 - 1, 1, 8).await;
    let at = scribe.positions[9_999];
    assert_eq!(at.batch_id.get(), 10_000);
    let (start, end) = keys().batch_range(BatchId::ZERO, at.batch_id);
    assert_eq!(kv.delete_range(&start, &end).await.unwrap(), 10_000);
    let tamper = TamperKv::new(kv.clone());
    let storage = open(tamper.clone()).await;
    let entries = usize::try_from(at.last_seq.get()).unwrap();
    let counter = Counter { payloads: scribe.log[..entries].to_vec(), base: 0 };
    let replica = Replica::restored(counter, at).unwrap();
    let mut standby = Standby::new(storage, replica, config(), env(1)).unwrap();
    let before = tamper.keys_read();
    follow(&mut standby).await.unwrap();
    let followed = tamper.keys_read() - before;
    assert!((300..320).contains(&followed), "{followed} keys for 300 batches");
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_serves(&caught_up, &kv, &scribe.log).await;
    let all = tamper.keys_read() - before;
    assert!(all < followed + 12, "{all} keys in all");
}

#[tokio::test(start_paused = true)]
async fn w4_a_batch_committed_between_the_prefix_read_and_the_fence_is_in_the_new_state() {
    let (kv, mut scribe) = written(5).await;
    let link = FaultyKv::txn_only(kv.clone(), 3);
    let storage = open(link.clone()).await;
    let mut standby = standby(&storage);
    follow(&mut standby).await.unwrap();
    // The claim is decided and on its way; the old leader commits before it arrives.
    let claims = link.calls(OpKind::Txn);
    link.script(OpKind::Txn, StoreFault::HoldRequest);
    let guard = Switch::on();
    let promotion = tokio::spawn(async move { standby.promote(&*guard).await });
    link.reached(OpKind::Txn, claims + 1).await;
    scribe.fill(2, 3, 20).await;
    link.release();
    let caught_up = promotion.await.unwrap().unwrap();
    assert_serves(&caught_up, &kv, &scribe.log).await;
    assert_eq!(link.count(Situation::RequestHeld), 1);
    assert!(!scribe.append(&[payload(0, 9)]).await);
}

#[tokio::test(start_paused = true)]
async fn s9_without_leadership_nothing_is_claimed() {
    // Never held.
    let (kv, scribe) = written(3).await;
    let off = Switch::on();
    off.set(false);
    let refused = standby(&scribe.storage).promote(&*off).await.unwrap_err();
    assert!(matches!(refused.error, PromoteError::NotLeader));
    assert!(matches!(refused.standby.health(), Health::Starting), "nothing is wrong with it");
    assert_eq!(prefix_of(&kv).await, Some(scribe.prefix));

    // An empty log gets no first prefix either.
    let (kv, storage) = fresh().await;
    assert!(matches!(standby(&storage).promote(&*off).await.unwrap_err().error, PromoteError::NotLeader));
    assert_eq!(prefix_of(&kv).await, None);
}

/// Leadership that ends at its n-th question.
#[derive(Debug)]
struct EndsAt {
    left: AtomicU64,
    said_no: AtomicBool,
}

impl LeaderGuard for EndsAt {
    fn serve_until(&self) -> Option<MonoTime> {
        self.holds().then_some(MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        let yes = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        self.said_no.fetch_or(!yes, Ordering::SeqCst);
        yes
    }
}

/// Leadership ends at every point of a promotion in turn. After it ended, no transaction is sent any more, and the standby comes
/// back with what it rightly had. Exactly one claim may be behind it.
#[tokio::test(start_paused = true)]
async fn s9_leadership_that_ends_at_any_point_of_a_promotion() {
    let (mut refused, mut unclaimed, mut claimed) = (0, 0, 0);
    for questions in 0.. {
        for empty in [false, true] {
            let (kv, mut scribe) = written(3).await;
            if empty {
                kv.delete(&keys().durable_prefix()).await.unwrap();
                scribe.log.clear();
                let (start, end) = keys().all_batches();
                kv.delete_range(&start, &end).await.unwrap();
            }
            let link = FaultyKv::txn_only(kv.clone(), 3);
            let storage = open(link.clone()).await;
            let mut standby = standby_with(&storage, StandbyConfig { page_bytes: 1, ..config() });
            if !empty {
                follow(&mut standby).await.unwrap();
                scribe.fill(2, 3, 20).await;
            }
            let guard = Arc::new(EndsAt { left: AtomicU64::new(questions), said_no: AtomicBool::new(false) });
            let late = Arc::new(AtomicBool::new(false));
            let (asked, seen) = (guard.clone(), late.clone());
            link.observe(move |op, stage| {
                if let (Op::Txn(_), Stage::Called) = (op, stage) {
                    seen.fetch_or(asked.said_no.load(Ordering::SeqCst), Ordering::SeqCst);
                }
            });
            match standby.promote(&*guard).await {
                Ok(caught_up) => {
                    assert_serves(&caught_up, &kv, &scribe.log).await;
                    if empty {
                        assert!(refused > 4 && unclaimed > 2 && claimed > 0, "{refused} {unclaimed} {claimed}");
                        println!("{refused} refused: {unclaimed} before a claim, {claimed} after one");
                        return;
                    }
                }
                Err(back) => {
                    assert!(matches!(back.error, PromoteError::NotLeader), "{}", back.error);
                    assert!(!late.load(Ordering::SeqCst), "a transaction was sent after leadership had ended");
                    assert!(!is_unhealthy(&back.standby));
                    let state = &back.standby.machine().payloads;
                    assert_eq!(*state, scribe.log[..state.len()]);
                    refused += 1;
                    match prefix_of(&kv).await {
                        Some(prefix) if prefix.epoch.get() > u64::from(!empty) => claimed += 1,
                        _ => unclaimed += 1,
                    }
                    // It follows on, and wins another time.
                    let Refused { mut standby, .. } = *back;
                    follow(&mut standby).await.unwrap();
                    assert_serves(&standby.promote(&*Switch::on()).await.unwrap(), &kv, &scribe.log).await;
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn transient_faults_after_the_claim_are_waited_out_while_leadership_lasts() {
    let (kv, scribe) = written(5).await;
    let link = FaultyKv::txn_only(kv.clone(), 3);
    let mut standby = standby(&open(link.clone()).await);
    follow(&mut standby).await.unwrap();
    let cut = link.clone();
    link.observe(move |op, stage| {
        if let (Op::Txn(_), Stage::Applied) = (op, stage) {
            for _ in 0..20 {
                cut.script(OpKind::Get, StoreFault::FailBefore(KvErrorKind::Unavailable));
            }
        }
    });
    let caught_up = standby.promote(&*Switch::on()).await.unwrap();
    assert_serves(&caught_up, &kv, &scribe.log).await;
    assert_eq!(link.count(Situation::FailedBefore), 20);
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_is_found_to_be_ours_or_sent_again() {
    for fault in [
        StoreFault::FailAfter(KvErrorKind::Unavailable),
        StoreFault::LoseRequest(KvErrorKind::Timeout),
        StoreFault::ApplyLater(Some(Duration::from_millis(3))),
        StoreFault::Duplicate,
    ] {
        let (kv, scribe) = written(5).await;
        let link = FaultyKv::txn_only(kv.clone(), 3);
        let standby = standby(&open(link.clone()).await);
        link.script(OpKind::Txn, fault.clone());
        let caught_up = standby.promote(&*Switch::on()).await.unwrap();
        assert_serves(&caught_up, &kv, &scribe.log).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(Some(*caught_up.prefix()), prefix_of(&kv).await, "{fault:?}: claimed once");
    }
}

/// A fault of the log after the claim: the standby comes back unhealthy, and nobody serves.
#[tokio::test(start_paused = true)]
async fn a_fatal_fault_after_the_claim_gives_the_standby_back_unhealthy() {
    let (kv, scribe) = written(5).await;
    let tamper = TamperKv::new(kv.clone());
    let link = FaultyKv::txn_only(tamper.clone(), 3);
    let mut standby = standby(&open(link.clone()).await);
    follow(&mut standby).await.unwrap();
    let last = keys().batch(BatchId::new(5));
    let lying = tamper.clone();
    link.observe(move |op, stage| {
        if let (Op::Txn(_), Stage::Applied) = (op, stage) {
            let last = last.clone();
            lying.choose(move |_, key| (key == last).then_some(Lie::Flip));
        }
    });
    let refused = standby.promote(&*Switch::on()).await.unwrap_err();
    assert!(matches!(&refused.error, PromoteError::Unhealthy(_)), "{}", refused.error);
    assert!(is_unhealthy(&refused.standby));
    assert_eq!(refused.standby.machine().payloads, scribe.log);
    assert_eq!(prefix_of(&kv).await.unwrap().epoch.get(), 2, "the claim had landed");
    // The log is nobody's now; another node, whose reads are right, takes it.
    let next = Scribe::take(&scribe.storage, 5).await;
    assert_eq!((next.prefix.epoch.get(), next.log), (3, scribe.log));
}

#[tokio::test(start_paused = true)]
async fn w18_two_initialisers_race_one_create_wins_and_both_go_on() {
    let (mut created_by_other, mut superseded) = (0, 0);
    for order in 0..6_u64 {
        let kv = Arc::new(MemoryKv::new());
        let mut nodes = Vec::new();
        let mut links = Vec::new();
        for seed in [1, 2] {
            let link = FaultyKv::txn_only(kv.clone(), seed);
            let storage = open(link.clone()).await;
            let mut standby = Standby::new(storage, Replica::empty(Counter::default()), config(), env(seed)).unwrap();
            assert_eq!(standby.step().await.unwrap(), Step::Empty);
            for n in 0..3 {
                // Different orders of the create, the claim, and their answers.
                let delay = Duration::from_millis((order * 7 + seed * 3 * order + n * (seed + order)) % 11);
                link.script(OpKind::Txn, StoreFault::Delay(delay));
            }
            links.push(link);
            nodes.push(standby);
        }
        let second = nodes.pop().unwrap();
        let first = nodes.pop().unwrap();
        let (a, b) = (Switch::on(), Switch::on());
        let (first, second) = tokio::join!(first.promote(&*a), second.promote(&*b));
        let prefix = prefix_of(&kv).await.unwrap();
        assert_eq!((prefix.batch_id.get(), prefix.last_seq.get()), (0, 0), "sequence 0 is an empty log");
        let mut served = 0;
        for result in [first, second] {
            match result {
                Ok(caught_up) => {
                    assert!(caught_up.machine().payloads.is_empty());
                    served += u64::from(*caught_up.prefix() == prefix);
                }
                Err(refused) => {
                    // The loser is well: it follows the log that the winner begins.
                    assert!(
                        matches!(refused.error, PromoteError::Claim(ClaimError::Superseded(_))),
                        "{}",
                        refused.error
                    );
                    superseded += 1;
                    let mut loser = refused.standby;
                    let mut winner = Scribe::take(&open(kv.clone()).await, 77).await;
                    winner.fill(2, 2, 9).await;
                    assert_eq!(follow(&mut loser).await.unwrap(), Step::Reached(winner.prefix));
                    assert_eq!(loser.machine().payloads, winner.log);
                }
            }
        }
        assert_eq!(served, 1, "one owner");
        created_by_other += links.iter().map(|l| l.calls(OpKind::Txn)).max().unwrap();
    }
    println!("{superseded} of 6 races were lost at the claim");
    assert!(superseded > 0 && created_by_other > 6);
}

#[tokio::test]
async fn w18_a_promotion_before_any_write_serves_an_empty_log_and_the_next_node_follows_it() {
    let (kv, storage) = fresh().await;
    let caught_up = standby(&storage).promote(&*Switch::on()).await.unwrap();
    assert_serves(&caught_up, &kv, &[]).await;
    assert_eq!(caught_up.claim().epoch.get(), 1);
    let mut other = standby(&storage);
    assert_eq!(follow(&mut other).await.unwrap(), Step::Reached(*caught_up.prefix()));
    assert!(other.observer().may_campaign());
    let mut scribe = Scribe::take(&storage, 3).await;
    scribe.fill(1, 1, 9).await;
    follow(&mut other).await.unwrap();
    assert_eq!(other.machine().payloads, scribe.log);
}

/// A create whose answer is lost refuses; the prefix it made is found the next time.
#[tokio::test(start_paused = true)]
async fn w18_a_create_without_an_answer_is_found_the_next_time() {
    let kv = Arc::new(MemoryKv::new());
    let link = FaultyKv::txn_only(kv.clone(), 3);
    let standby = standby(&open(link.clone()).await);
    link.script(OpKind::Txn, StoreFault::FailAfter(KvErrorKind::Unavailable));
    let refused = standby.promote(&*Switch::on()).await.unwrap_err();
    assert!(matches!(refused.error, PromoteError::NotCaughtUp(_)), "{}", refused.error);
    assert_eq!(prefix_of(&kv).await, Some(DurablePrefix::FRESH));
    assert_serves(&refused.standby.promote(&*Switch::on()).await.unwrap(), &kv, &[]).await;
}

/// A restored state on a log that has no prefix was written to another log, or this one was lost.
#[tokio::test]
async fn a_restored_state_never_begins_a_log() {
    let (_kv, scribe) = written(3).await;
    let (kv, storage) = fresh().await;
    let counter = Counter { payloads: scribe.log.clone(), base: 0 };
    let replica = Replica::restored(counter, *scribe.positions.last().unwrap()).unwrap();
    let standby = Standby::new(storage, replica, config(), env(1)).unwrap();
    let refused = standby.promote(&*Switch::on()).await.unwrap_err();
    assert!(matches!(refused.error, PromoteError::Unhealthy(_)), "{}", refused.error);
    assert_eq!(prefix_of(&kv).await, None);
}

/// The old leader is paused between seal and transaction; it goes on after the new one has served (the fence's half of W3, W15).
#[tokio::test(start_paused = true)]
async fn w15_an_old_leader_that_was_stopped_in_mid_transaction_is_refused_by_the_fence() {
    let (kv, mut scribe) = written(3).await;
    let link = FaultyKv::txn_only(kv.clone(), 3);
    let storage = open(link.clone()).await;
    let (new, sealed) = scribe.seal(1, &[payload(9, 9)]);
    let sent = link.calls(OpKind::Txn);
    link.script(OpKind::Txn, StoreFault::HoldRequest);
    let old = scribe.prefix;
    let stopped = tokio::spawn(async move { storage.append(&old, &new, sealed.bytes).await });
    link.reached(OpKind::Txn, sent + 1).await;
    let caught_up = standby(&scribe.storage).promote(&*Switch::on()).await.unwrap();
    assert_serves(&caught_up, &kv, &scribe.log).await;
    let mut next = Scribe::take(&scribe.storage, 8).await;
    next.fill(1, 1, 9).await;
    link.release();
    assert_eq!(stopped.await.unwrap().unwrap(), TxnOutcome::CompareFailed);
    next.fill(1, 1, 9).await;
    scribe.log = next.log.clone();
    assert_eq!(prefix_of(&kv).await, Some(next.prefix));
}

/// The rule of W16 before there is a writer: the store keeps the lease alive and never answers the claim.
#[tokio::test(start_paused = true)]
async fn w16_a_store_silent_to_the_claimant_for_a_whole_lease_refuses_and_a_full_one_does_not() {
    for silent in [true, false] {
        let clock = Arc::new(RuntimeClock::new());
        let kv = Arc::new(MemoryKv::with_clock(clock.clone()));
        let mut scribe = Scribe::begin(&open(kv.clone()).await).await;
        scribe.fill(3, 2, 20).await;
        let link = FaultyKv::new(kv.clone(), 3);
        let storage = open(link.clone()).await;
        let env = StandbyEnv { clock: clock.clone(), ..env(1) };
        let mut standby = Standby::new(storage, Replica::empty(Counter::default()), config(), env).unwrap();
        follow(&mut standby).await.unwrap();
        let (key, entropy) = (keys().leader(), Arc::new(SeededEntropy::new(1)));
        let config = ElectionConfig::default();
        let (ttl, margin) = (config.ttl, config.margin);
        let elector = Elector::new(link.clone(), key, "a".into(), config, clock.clone(), entropy).unwrap();
        let term = elector.campaign().await.unwrap();
        if silent {
            link.always(OpKind::Txn, Some(StoreFault::LoseRequest(KvErrorKind::Timeout)));
            let began = clock.now();
            let refused = standby.promote(&*term.guard()).await.unwrap_err();
            assert!(matches!(&refused.error, PromoteError::Claim(ClaimError::Log(_))), "{}", refused.error);
            assert!(!is_unhealthy(&refused.standby));
            let took = clock.now().saturating_since(began);
            assert!(took >= ttl / 2 && took <= ttl + margin, "{took:?}");
            assert!(term.guard().holds(), "the store kept the lease alive all along");
            link.always(OpKind::Txn, None);
            assert_serves(&refused.standby.promote(&*term.guard()).await.unwrap(), &kv, &scribe.log).await;
        } else {
            link.fill_server(true);
            let guard = term.guard();
            let promotion = tokio::spawn(async move { standby.promote(&*guard).await });
            tokio::time::sleep(ttl * 20).await;
            assert!(!promotion.is_finished() && term.guard().holds());
            link.fill_server(false);
            assert_serves(&promotion.await.unwrap().unwrap(), &kv, &scribe.log).await;
        }
    }
}
