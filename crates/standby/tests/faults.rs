//! Owns the tests of verdicts: what is wrong is seen, named, latched, and leaves the state where it was right last.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{Kv, KvErrorKind, MemoryKv, TxnOutcome};
use oplog_core::record::BatchHeader;
use oplog_core::{BatchId, DurablePrefix, Epoch, Owner, Replica, Seq};
use standby::{Fault, FaultKind, Health, Observer, PromoteError, Standby, StandbyConfig, Step, StepError};
use support::tamper::{Lie, TamperKv};
use support::*;

/// A log of six batches of three entries, and who wrote it.
async fn log_of_six(kv: &Arc<MemoryKv>) -> Scribe {
    let mut scribe = Scribe::begin(&open(kv.clone()).await).await;
    scribe.fill(6, 3, 20).await;
    scribe
}

/// Asserts the verdict and all that follows from one: state, latch, health, refusal of the promotion, untouched store.
async fn assert_unhealthy(mut standby: Standby<Counter>, kv: &MemoryKv, state: &[Vec<u8>]) -> Fault {
    let fault = follow(&mut standby).await.expect_err("something is wrong with this log");
    assert_eq!(standby.machine().payloads, state, "{fault}");
    assert_eq!(standby.health(), Health::Unhealthy { fault: fault.clone() });
    assert!(!fault.to_string().is_empty() && fault.to_string().contains(fault.name()) || fault.kind().is_none());
    let (observer, before) = (standby.observer(), kv.get(&keys().durable_prefix()).await.unwrap());
    let reads = observer.metrics().reads;
    assert!(matches!(standby.step().await, Err(StepError::Unhealthy(again)) if again == fault), "latched");
    let refused = standby.promote(&*Switch::on()).await.expect_err("never promoted");
    assert!(matches!(&refused.error, PromoteError::Unhealthy(again) if *again == fault), "{}", refused.error);
    assert_eq!(observer.metrics().reads, reads, "nothing is read after the verdict");
    assert_eq!(kv.get(&keys().durable_prefix()).await.unwrap(), before, "and nothing claimed");
    fault
}

#[tokio::test]
async fn s4_an_entry_that_cannot_be_applied() {
    let (kv, storage) = fresh().await;
    let mut scribe = Scribe::begin(&storage).await;
    scribe.fill(2, 3, 20).await;
    let ops = [(1, payload(6, 20)), (1, payload(7, 20)), (BAD_OP, payload(8, 20)), (1, payload(9, 20))];
    let (new, sealed) = scribe.seal_ops(&ops);
    assert_eq!(storage.append(&scribe.prefix, &new, sealed.bytes).await.unwrap(), TxnOutcome::Committed);
    let mut state = scribe.log.clone();
    state.extend([payload(6, 20), payload(7, 20)]);
    let fault = assert_unhealthy(standby(&storage), &kv, &state).await;
    assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::Apply), Some(Seq::new(9))));
    assert!(fault.key().ends_with("/batches/00000000000000000003"), "{fault}");
    assert!(fault.to_string().contains("key \"k\"") && fault.to_string().contains("entry 9"), "{fault}");
}

#[tokio::test]
async fn w10_the_prefix_names_a_batch_that_is_missing_corrupt_or_anothers() {
    let last = keys().batch(BatchId::new(6));
    for case in ["missing", "corrupt", "another's"] {
        let kv = Arc::new(MemoryKv::new());
        let scribe = log_of_six(&kv).await;
        let kind = match case {
            "missing" => {
                kv.delete(&last).await.unwrap();
                FaultKind::BatchMissing
            }
            "corrupt" => {
                kv.put(&last, Bytes::from_static(b"PLB1 and then nothing of sense")).await.unwrap();
                FaultKind::BatchUndecodable
            }
            _ => {
                let other = kv.get(&keys().batch(BatchId::new(5))).await.unwrap().unwrap();
                kv.put(&last, other).await.unwrap();
                FaultKind::WrongBatchId
            }
        };
        let fault = assert_unhealthy(standby(&scribe.storage), &kv, &scribe.log[..15]).await;
        assert_eq!(fault.kind(), Some(kind), "{case}: {fault}");
        assert_eq!(fault.key().as_bytes(), &last[..], "{case}: {fault}");

        // And one that had applied the right batch before it was lost is refused at the claim, where the batch is read again.
        let (kv, mut ahead) = {
            let kv = Arc::new(MemoryKv::new());
            let scribe = log_of_six(&kv).await;
            let mut ahead = standby(&scribe.storage);
            follow(&mut ahead).await.unwrap();
            (kv, ahead)
        };
        match case {
            "missing" => kv.delete(&last).await.unwrap(),
            "corrupt" => kv.put(&last, Bytes::from_static(b"?")).await.unwrap(),
            _ => {
                let other = kv.get(&keys().batch(BatchId::new(5))).await.unwrap().unwrap();
                kv.put(&last, other).await.unwrap();
            }
        }
        follow(&mut ahead).await.expect("it has no reason to read a batch again");
        let before = kv.get(&keys().durable_prefix()).await.unwrap();
        let refused = ahead.promote(&*Switch::on()).await.unwrap_err();
        assert!(matches!(refused.error, PromoteError::Unhealthy(_)), "{case}: {}", refused.error);
        assert!(is_unhealthy(&refused.standby), "{case}");
        assert_eq!(kv.get(&keys().durable_prefix()).await.unwrap(), before, "{case}: nothing was claimed");
    }
}

#[tokio::test]
async fn s10_every_flipped_byte_of_every_batch_and_of_the_prefix_is_seen() {
    let kv = Arc::new(MemoryKv::new());
    let scribe = log_of_six(&kv).await;
    let mut flips = 0;
    for batch in 1..=6_u64 {
        let key = keys().batch(BatchId::new(batch));
        let right = kv.get(&key).await.unwrap().unwrap();
        for at in 0..right.len() {
            let mut wrong = right.to_vec();
            wrong[at] ^= 1 << (at % 8);
            kv.put(&key, wrong.into()).await.unwrap();
            let mut standby = standby(&scribe.storage);
            let fault = follow(&mut standby).await.expect_err("a flipped byte is seen");
            assert_eq!(fault.kind(), Some(FaultKind::BatchUndecodable), "batch {batch} byte {at}: {fault}");
            let good = 3 * (batch - 1);
            assert_eq!(standby.machine().payloads, scribe.log[..usize::try_from(good).unwrap()], "{fault}");
            flips += 1;
        }
        kv.put(&key, right).await.unwrap();
    }
    let key = keys().durable_prefix();
    let right = kv.get(&key).await.unwrap().unwrap();
    for at in 0..right.len() {
        for bit in 0..8 {
            let mut wrong = right.to_vec();
            wrong[at] ^= 1 << bit;
            kv.put(&key, wrong.into()).await.unwrap();
            let mut standby = standby(&scribe.storage);
            let fault = follow(&mut standby).await.expect_err("a flipped bit is seen");
            assert_eq!(fault.kind(), Some(FaultKind::PrefixUndecodable), "byte {at} bit {bit}: {fault}");
            assert!(standby.machine().payloads.is_empty());
            flips += 1;
        }
    }
    kv.put(&key, right).await.unwrap();
    println!("{flips} flips were seen");
    assert!(flips > 1000);
    assert_eq!(follow(&mut standby(&scribe.storage)).await.unwrap(), Step::Reached(scribe.prefix));
}

/// The prefix goes back, in each field and in each way, after the standby has followed it.
#[tokio::test]
async fn s2_a_prefix_that_went_back() {
    let p = |epoch, owner, batch, seq| {
        Some(DurablePrefix {
            epoch: Epoch::new(epoch),
            owner: Owner::new(owner),
            batch_id: BatchId::new(batch),
            last_seq: Seq::new(seq),
        })
    };
    // The log is claimed three times: epoch 3, six batches, eighteen entries.
    let (epoch, batch, seq) = (3, 6, 18);
    let owner = |real: u64| real;
    type Change = fn(u64) -> (u64, u64, u64, u64);
    let changes: [(&str, Option<Change>, FaultKind); 8] = [
        ("absent", None, FaultKind::PrefixMissing),
        ("epoch lower", Some(|o| (2, o ^ 1, 6, 18)), FaultKind::PrefixRegressed),
        ("another owner", Some(|o| (3, o ^ 1, 6, 18)), FaultKind::PrefixRegressed),
        ("batch lower", Some(|o| (3, o, 5, 15)), FaultKind::PrefixRegressed),
        ("entry lower", Some(|o| (3, o, 6, 17)), FaultKind::PrefixRegressed),
        ("entry higher in one batch", Some(|o| (3, o, 6, 19)), FaultKind::PrefixRegressed),
        ("batch higher without an entry", Some(|o| (3, o, 7, 18)), FaultKind::PrefixRegressed),
        ("new epoch, older boundary", Some(|o| (4, o ^ 1, 5, 15)), FaultKind::PrefixRegressed),
    ];
    for (what, change, kind) in changes {
        let kv = Arc::new(MemoryKv::new());
        let storage = log_of_six(&kv).await.storage;
        Scribe::take(&storage, 2).await;
        let scribe = Scribe::take(&storage, 3).await;
        assert_eq!((scribe.prefix.epoch.get(), scribe.prefix.batch_id.get()), (epoch, batch));
        assert_eq!(scribe.prefix.last_seq.get(), seq);
        let mut standby = standby(&storage);
        follow(&mut standby).await.unwrap();
        let key = keys().durable_prefix();
        match change.map(|c| c(owner(scribe.prefix.owner.get()))) {
            None => kv.delete(&key).await.unwrap(),
            Some((e, o, b, s)) => kv.put(&key, p(e, o, b, s).unwrap().encode().into()).await.unwrap(),
        }
        let fault = assert_unhealthy(standby, &kv, &scribe.log).await;
        assert_eq!(fault.kind(), Some(kind), "{what}: {fault}");
        assert_eq!(fault.key().as_bytes(), &key[..]);
    }
}

/// A state restored from what the store no longer has.
#[tokio::test]
async fn s2_applied_above_the_prefix() {
    let kv = Arc::new(MemoryKv::new());
    let scribe = log_of_six(&kv).await;
    let (_other, empty) = fresh().await;
    let mut shorter = Scribe::begin(&empty).await;
    shorter.fill(2, 3, 20).await;
    for storage in [&shorter.storage, &fresh().await.1] {
        let counter = Counter { payloads: scribe.log.clone(), base: 0 };
        let replica = Replica::restored(counter, *scribe.positions.last().unwrap()).unwrap();
        let standby = Standby::new(storage.clone(), replica, config(), env(1)).unwrap();
        let fault = assert_unhealthy(standby, &kv, &scribe.log).await;
        assert_eq!(fault.kind(), Some(FaultKind::AppliedAbovePrefix), "{fault}");
    }
}

/// The store was rolled back and written anew: the numbers have passed what was applied, the chain tells.
#[tokio::test]
async fn s2_a_store_that_was_rolled_back_and_overtaken() {
    let kv = Arc::new(MemoryKv::new());
    let mut scribe = log_of_six(&kv).await;
    let mut standby = standby(&scribe.storage);
    follow(&mut standby).await.unwrap();
    let applied = scribe.log.clone();
    // Batch 6 is lost and written again with other entries, under the same epoch and owner; then the log goes on.
    let fifth = scribe.positions[4];
    scribe.prefix = DurablePrefix { batch_id: fifth.batch_id, last_seq: fifth.last_seq, ..scribe.prefix };
    (scribe.crc, scribe.log) = (fifth.crc, applied[..15].to_vec());
    kv.put(&keys().durable_prefix(), scribe.prefix.encode().into()).await.unwrap();
    for n in 0..3 {
        let payloads = [payload(70 + n, 20), payload(80 + n, 20), payload(90 + n, 20)];
        assert!(scribe.append(&payloads).await);
    }
    let fault = assert_unhealthy(standby, &kv, &applied).await;
    assert_eq!(fault.kind(), Some(FaultKind::BrokenChain), "{fault}");
}

/// Records that decode and do not belong where they are.
#[tokio::test]
async fn s2_a_record_that_does_not_follow() {
    type Wrong = fn(&Scribe) -> BatchHeader;
    fn right(s: &Scribe) -> BatchHeader {
        BatchHeader {
            batch_id: BatchId::new(7),
            first_seq: Seq::new(19),
            epoch: s.prefix.epoch,
            prev_crc: s.crc,
            timestamp_ms: 1,
        }
    }
    let cases: [(&str, Wrong, FaultKind); 5] = [
        ("another id", |s| BatchHeader { batch_id: BatchId::new(8), ..right(s) }, FaultKind::WrongBatchId),
        ("a hole in the entries", |s| BatchHeader { first_seq: Seq::new(20), ..right(s) }, FaultKind::SequenceGap),
        ("entries again", |s| BatchHeader { first_seq: Seq::new(18), ..right(s) }, FaultKind::SequenceGap),
        ("an epoch above the prefix", |s| BatchHeader { epoch: Epoch::new(2), ..right(s) }, FaultKind::WrongEpoch),
        ("another chain", |s| BatchHeader { prev_crc: s.crc ^ 1, ..right(s) }, FaultKind::BrokenChain),
    ];
    for (what, wrong, kind) in cases {
        let kv = Arc::new(MemoryKv::new());
        let scribe = log_of_six(&kv).await;
        let (_, sealed) = scribe.seal_as(wrong(&scribe), &[(1, payload(18, 20))]);
        kv.put(&keys().batch(BatchId::new(7)), sealed.bytes).await.unwrap();
        let prefix = DurablePrefix { batch_id: BatchId::new(7), last_seq: Seq::new(19), ..scribe.prefix };
        kv.put(&keys().durable_prefix(), prefix.encode().into()).await.unwrap();
        let fault = assert_unhealthy(standby(&scribe.storage), &kv, &scribe.log).await;
        assert_eq!(fault.kind(), Some(kind), "{what}: {fault}");
    }
    // A prefix that ends at another entry than its batch, and a key that names no batch.
    let kv = Arc::new(MemoryKv::new());
    let scribe = log_of_six(&kv).await;
    let prefix = DurablePrefix { last_seq: Seq::new(20), ..scribe.prefix };
    kv.put(&keys().durable_prefix(), prefix.encode().into()).await.unwrap();
    let fault = assert_unhealthy(standby(&scribe.storage), &kv, &scribe.log[..15]).await;
    assert_eq!(fault.kind(), Some(FaultKind::SequenceGap), "{fault}");

    let kv = Arc::new(MemoryKv::new().with_limits(3 << 20, 128, 32 << 20));
    let scribe = log_of_six(&kv).await;
    kv.put(b"/oplog/c1/batches/00000000000000000003x", "?".into()).await.unwrap();
    let fault = assert_unhealthy(standby(&scribe.storage), &kv, &[]).await;
    assert_eq!(fault.kind(), Some(FaultKind::StrayKey), "{fault}");
}

#[tokio::test]
async fn a_store_that_says_it_is_damaged_or_another_one_is_a_verdict() {
    for kind in [KvErrorKind::Corrupt, KvErrorKind::WrongStore] {
        let kv = Arc::new(MemoryKv::new());
        let scribe = log_of_six(&kv).await;
        let tamper = TamperKv::new(kv.clone());
        let standby = standby(&open(tamper.clone()).await);
        tamper.lie_once(1, Lie::Fail(kind));
        let fault = assert_unhealthy(standby, &kv, &[]).await;
        assert!(matches!(&fault, Fault::Store { .. }), "{fault}");
        drop(scribe);
    }
}

/// One reading that a stale or torn answer explains is read again; one that proves itself wrong is not.
#[tokio::test]
async fn only_a_doubtful_reading_is_read_a_second_time() {
    // (where, lie, what the second reading is worth)
    let cases = [
        ("prefix", Lie::Absent, true),
        ("prefix", Lie::Stale, true),
        ("prefix", Lie::Flip, false),
        ("batches", Lie::Absent, true),
        ("batches", Lie::Hole, true),
        ("batches", Lie::Flip, false),
    ];
    for (place, lie, dispelled) in cases {
        let kv = Arc::new(MemoryKv::new());
        let mut scribe = Scribe::begin(&open(kv.clone()).await).await;
        let tamper = TamperKv::new(kv.clone());
        let mut standby = standby(&open(tamper.clone()).await);
        // The first read of all shows the prefix before any batch: what is stale later.
        follow(&mut standby).await.unwrap();
        scribe.fill(3, 2, 20).await;
        follow(&mut standby).await.unwrap();
        scribe.fill(3, 2, 20).await;
        tamper.lie_once(if place == "prefix" { 0 } else { 1 }, lie);
        let observer = standby.observer();
        match follow(&mut standby).await {
            Ok(step) => {
                assert!(dispelled, "{place} {lie:?} must be a verdict");
                assert_eq!(step, Step::Reached(scribe.prefix));
                assert_eq!(standby.machine().payloads, scribe.log);
                assert_eq!(observer.metrics().unconfirmed, 1);
            }
            Err(fault) => {
                assert!(!dispelled, "{place} {lie:?} must be read again: {fault}");
                assert_eq!(standby.machine().payloads, scribe.log[..6]);
                assert_eq!(observer.metrics().unconfirmed, 0);
            }
        }
        assert_eq!(tamper.told(), 1, "{place} {lie:?} was told");
    }
}

/// Every read of a whole life, each in turn, fails or lies once, in every way. Whatever the standby makes of it, it never takes
/// an error for an absence: it ends with the whole log, or refuses with a reason at a state it had rightly.
#[tokio::test(start_paused = true)]
async fn s3_an_error_or_a_lie_in_any_one_read_never_looks_like_not_found() {
    // One clean life tells how many reads there are: follow in pages, follow on, be promoted.
    async fn life(
        tamper: &Arc<TamperKv>,
        kv: &Arc<MemoryKv>,
        pages: &StandbyConfig,
    ) -> (Result<Counter, String>, Scribe, Observer) {
        let mut scribe = log_of_six(kv).await;
        let mut standby = standby_with(&open(tamper.clone()).await, pages.clone());
        let observer = standby.observer();
        let mut state = Ok(());
        for round in 0..3 {
            if round == 1 {
                scribe.fill(4, 2, 20).await;
            }
            state = state.and(follow(&mut standby).await.map(|_| ()));
        }
        // A promotion that a transient fault refused is tried again, as the caller would after another campaign.
        for _ in 0..20 {
            match standby.promote(&*Switch::on()).await {
                Ok(caught_up) => return (Ok(caught_up.machine().clone()), scribe, observer),
                Err(refused) => {
                    let state = &refused.standby.machine().payloads;
                    assert_eq!(*state, scribe.log[..state.len()], "S1: {}", refused.error);
                    if let PromoteError::Unhealthy(fault) = refused.error {
                        return (Err(fault.name().to_owned()), scribe, observer);
                    }
                    standby = refused.standby;
                }
            }
        }
        panic!("refused for ever");
    }
    let lies = [
        Lie::Fail(KvErrorKind::Unavailable),
        Lie::Fail(KvErrorKind::Timeout),
        Lie::Fail(KvErrorKind::Busy),
        Lie::Fail(KvErrorKind::NoSpace),
        Lie::Fail(KvErrorKind::Auth),
        Lie::Fail(KvErrorKind::Corrupt),
        Lie::Flip,
        Lie::Absent,
        Lie::Short,
        Lie::Hole,
        Lie::Stale,
    ];
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    let mut reads_in_all = 0;
    for (lie, page_bytes) in lies.into_iter().flat_map(|lie| [(lie, 1), (lie, 250)]) {
        let pages = StandbyConfig { page_bytes, ..config() };
        let kv = Arc::new(MemoryKv::new());
        let tamper = TamperKv::new(kv.clone());
        let (state, scribe, _) = life(&tamper, &kv, &pages).await;
        assert_eq!(state.unwrap().payloads, scribe.log, "a clean life");
        let reads = tamper.reads();
        reads_in_all += reads;
        for at in 0..reads {
            let kv = Arc::new(MemoryKv::new());
            let tamper = TamperKv::new(kv.clone());
            tamper.lie_once(at, lie);
            let (state, scribe, observer) = life(&tamper, &kv, &pages).await;
            if matches!(lie, Lie::Fail(_)) {
                let doubted = observer.metrics().unconfirmed;
                assert_eq!(doubted, 0, "{lie:?} at read {at} was taken for an absence, and then read again");
            }
            let end = match state {
                Ok(state) => {
                    assert_eq!(state.payloads, scribe.log, "{lie:?} at read {at}: S3");
                    "served the whole log".to_owned()
                }
                Err(name) => {
                    let proof = matches!(lie, Lie::Flip | Lie::Fail(KvErrorKind::Corrupt));
                    assert!(proof, "{lie:?} at read {at} is cured by reading again, not a verdict: {name}");
                    name
                }
            };
            *ends.entry(end).or_default() += 1;
            assert!(scribe.prefix.epoch.get() == 1, "no second first prefix");
        }
    }
    println!("{reads_in_all} reads with a lie each: {ends:?}");
    assert!(reads_in_all > 200, "{reads_in_all}");
    for named in ["served the whole log", "prefix_undecodable", "batch_undecodable", "store"] {
        assert!(ends.contains_key(named), "{named} never occurred: {ends:?}");
    }
}

/// A read that goes on failing hides nothing: as long as it does the standby knows neither an empty log nor its end, it is not
/// promoted, and it is not unhealthy. Afterwards it finds what there is.
#[tokio::test(start_paused = true)]
async fn s3_a_read_that_keeps_failing_is_never_an_absence() {
    type Fails = fn(&[u8]) -> bool;
    let prefix: Fails = |key| key == keys().durable_prefix();
    let batches: Fails = |key| key.starts_with(&keys().all_batches().0);
    let beside: Fails = |key| key != keys().durable_prefix();
    let last = BatchId::new(6);
    // (what is in the store, what fails, how it ends once nothing fails)
    let cases: [(&str, Fails, Option<FaultKind>); 6] = [
        ("nothing", prefix, None),
        ("nothing", beside, None),
        ("a log", prefix, None),
        ("a log", batches, None),
        ("batches without a prefix", beside, Some(FaultKind::PrefixMissing)),
        ("entries and batches without a prefix", batches, Some(FaultKind::PrefixMissing)),
    ];
    let kinds = [KvErrorKind::Unavailable, KvErrorKind::Timeout, KvErrorKind::Busy, KvErrorKind::Auth];
    for ((what, fails, end), kind) in cases.into_iter().flat_map(|case| kinds.map(|kind| (case, kind))) {
        let kv = Arc::new(MemoryKv::new());
        let mut log = Vec::new();
        if what != "nothing" {
            log = log_of_six(&kv).await.log;
        }
        if end.is_some() {
            kv.delete(&keys().durable_prefix()).await.unwrap();
        }
        if what.starts_with("entries") {
            kv.put(format!("/oplog/c1/{:020}", 1).as_bytes(), "1".into()).await.unwrap();
        }
        let before = kv.get(&keys().durable_prefix()).await.unwrap();
        let tamper = TamperKv::new(kv.clone());
        let mut standby = standby(&open(tamper.clone()).await);
        let observer = standby.observer();
        tamper.choose(move |_, key| fails(key).then_some(Lie::Fail(kind)));
        let context = format!("{what}, {kind:?}");
        for _ in 0..3 {
            let step = standby.step().await;
            assert!(matches!(&step, Err(StepError::Store(e)) if e.kind == kind), "{context}: {step:?}");
            assert_eq!(standby.health(), Health::Starting, "{context}: it has not read the log to its end");
            assert!(standby.machine().payloads.is_empty() && !observer.may_campaign(), "{context}");
        }
        let refused = standby.promote(&*Switch::on()).await.expect_err(&context);
        assert!(
            matches!(&refused.error, PromoteError::NotCaughtUp(e) if e.kind == kind),
            "{context}: {}",
            refused.error
        );
        assert_eq!(
            kv.get(&keys().durable_prefix()).await.unwrap(),
            before,
            "{context}: nothing was created or claimed"
        );
        assert_eq!(observer.metrics().unconfirmed, 0, "{context}");
        tamper.truth();
        let mut standby = refused.standby;
        let found = follow(&mut standby).await;
        assert_eq!(found.as_ref().err().and_then(Fault::kind), end, "{context}: {found:?}");
        if end.is_none() {
            let reached = if log.is_empty() { BatchId::ZERO } else { last };
            assert_eq!(matches!(found, Ok(Step::Empty)), log.is_empty(), "{context}");
            assert_eq!((standby.position().batch_id, &standby.machine().payloads), (reached, &log), "{context}");
        }
    }
}
