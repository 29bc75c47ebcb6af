//! Owns the tests of what is wrong with a legacy log or its crossing, and of a store whose every read fails or lies once.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault as StoreFault, FaultyKv, OpKind, RuntimeClock};
use ha_kv::{Kv, KvErrorKind, MemoryKv};
use ha_types::{Clock, MonoTime};
use standby::{Fault, FaultKind, Health, PromoteError, Standby, Step};

use crate::kit::*;
use crate::support::tamper::{Lie, TamperKv};
use crate::support::{Switch, config, keys, open};

/// The verdict and what follows from one: latched, never promoted, nothing claimed.
async fn verdict(kv: &Arc<MemoryKv>, mut standby: Standby<Journal>) -> Fault {
    let fault = follow_for(&mut standby, Duration::from_secs(60)).await.expect_err("something is wrong with this log");
    assert_eq!(standby.health(), Health::Unhealthy { fault: fault.clone() });
    assert!(!standby.observer().may_campaign());
    let before = kv.get(&keys().durable_prefix()).await.unwrap();
    let refused = standby.promote(&*Switch::on()).await.expect_err("never promoted");
    assert!(matches!(&refused.error, PromoteError::Unhealthy(again) if *again == fault), "{}", refused.error);
    assert_eq!(kv.get(&keys().durable_prefix()).await.unwrap(), before, "and nothing claimed");
    fault
}

#[tokio::test(start_paused = true)]
async fn s2_legacy_what_cannot_be_read_or_applied_is_a_verdict_that_names_the_key() {
    let cases: [(&str, Vec<u8>, FaultKind); 4] = [
        ("bytes", b"no JSON".to_vec(), FaultKind::LegacyUndecodable),
        ("another's", entry(5).encode().to_vec(), FaultKind::LegacyUndecodable),
        (
            "checksum",
            String::from_utf8(entry(4).encode().to_vec())
                .unwrap()
                .replace("\"checksum\":", "\"checksum\":1")
                .into_bytes(),
            FaultKind::LegacyUndecodable,
        ),
        (
            "apply",
            {
                let bad = oplog_core::NewEntry { op_type: 1, tenant: "default", key: b"key", payload: b"bad" };
                oplog_core::legacy::LegacyEntry::new(seq(4), 0, &bad).unwrap().encode().to_vec()
            },
            FaultKind::Apply,
        ),
    ];
    for cut in [false, true] {
        for (name, value, kind) in &cases {
            let kv = log_to(6).await;
            kv.put(&keys().legacy_entry(seq(4)), value.clone().into()).await.unwrap();
            if cut {
                cut_over(&*kv, 6).await;
            }
            let fault = verdict(&kv, standby(kv.clone()).await).await;
            assert_eq!(
                (fault.kind(), fault.key().as_bytes()),
                (Some(*kind), &keys().legacy_entry(seq(4))[..]),
                "{name}: {fault}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s2_legacy_a_boundary_that_is_none_is_a_verdict() {
    let kv = log_to(6).await;
    latest(&*kv, 6).await;
    kv.put(&keys().legacy_latest(), "six".into()).await.unwrap();
    let fault = verdict(&kv, standby(kv.clone()).await).await;
    assert_eq!((fault.kind(), fault.key().as_bytes()), (Some(FaultKind::LegacyLatest), &keys().legacy_latest()[..]));

    let kv = log_to(6).await;
    kv.put(&keys().durable_prefix(), "schema_version=9".into()).await.unwrap();
    let fault = verdict(&kv, standby(kv.clone()).await).await;
    assert_eq!(fault.kind(), Some(FaultKind::PrefixUndecodable), "{fault}");

    // Batches beside an absent prefix, for who has applied nothing and for who follows already.
    for follows in [false, true] {
        let kv = log_to(6).await;
        let mut standby = standby(kv.clone()).await;
        if follows {
            follow(&mut standby).await.unwrap();
        }
        kv.put(&keys().batch(oplog_core::BatchId::new(1)), "PLB1".into()).await.unwrap();
        let fault = verdict(&kv, standby).await;
        assert_eq!(fault.kind(), Some(FaultKind::PrefixMissing), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn s2_legacy_a_log_that_vanished_and_a_prefix_that_went_away_are_verdicts() {
    let kv = log_to(3).await;
    let mut follower = standby(kv.clone()).await;
    follow(&mut follower).await.unwrap();
    let (start, end) = keys().whole_log();
    kv.delete_range(&start, &end).await.unwrap();
    let fault = verdict(&kv, follower).await;
    assert_eq!(fault.kind(), Some(FaultKind::AppliedAbovePrefix), "{fault}");

    // Seen while an entry below the base was waited for.
    let kv = log_to(6).await;
    kv.delete(&keys().legacy_entry(seq(4))).await.unwrap();
    cut_over(&*kv, 6).await;
    let mut waiting = standby(kv.clone()).await;
    assert_eq!(waiting.step().await.unwrap(), Step::PerEntry(seq(3)));
    kv.delete(&keys().durable_prefix()).await.unwrap();
    let fault = verdict(&kv, waiting).await;
    assert_eq!(fault.kind(), Some(FaultKind::PrefixMissing), "{fault}");

    // Batch 1 is gone, and nothing else says where the base was.
    let kv = log_to(6).await;
    cut_over(&*kv, 6).await;
    let mut scribe = scribe(kv.clone(), 6).await;
    batches(&mut scribe, 7..=8).await;
    kv.delete(&keys().batch(oplog_core::BatchId::new(1))).await.unwrap();
    let fault = verdict(&kv, standby(kv.clone()).await).await;
    assert_eq!(fault.kind(), Some(FaultKind::BaseNotHeld), "{fault}");
}

/// The log at the moment of the cutover: entries through the base and one above it, and batches.
async fn log_with_everything() -> Arc<MemoryKv> {
    let kv = log_to(7).await;
    latest(&*kv, 6).await;
    cut_over(&*kv, 6).await;
    let mut scribe = scribe(kv.clone(), 6).await;
    batches(&mut scribe, 7..=9).await;
    kv
}

/// S3 of the failures for this mode: an error or a lie in any one read never looks like an absent key, a shorter log or another
/// base: the state is right in the end, or the standby says that it is not.
#[tokio::test(start_paused = true)]
async fn s3_legacy_every_read_fails_once_or_lies_once() {
    let kv = log_with_everything().await;
    let truth = crossed(6, 9);
    let reads = {
        let tamper = TamperKv::new(kv.clone());
        let mut standby = standby(tamper.clone()).await;
        let before = tamper.reads();
        follow_for(&mut standby, 3 * POLL).await.unwrap();
        tamper.reads() - before
    };
    assert!(reads >= 7, "{reads} reads: the crossing's, and those of rounds after it");
    let lies = [
        Lie::Fail(KvErrorKind::Unavailable),
        Lie::Fail(KvErrorKind::Timeout),
        Lie::Flip,
        Lie::Absent,
        Lie::Short,
        Lie::Hole,
        Lie::Stale,
    ];
    let (mut right, mut wrong) = (0, 0);
    for lie in lies {
        for at in 0..reads {
            let tamper = TamperKv::new(kv.clone());
            let mut standby = standby(tamper.clone()).await;
            tamper.lie_once(at, lie);
            match follow_for(&mut standby, Duration::from_secs(10)).await {
                Ok(step) => {
                    assert!(matches!(step, Step::Reached(_)), "{lie:?} at {at}: {step:?}");
                    assert_eq!(standby.machine().entries, truth, "{lie:?} at {at}");
                    right += 1;
                }
                Err(fault) => {
                    assert_eq!(lie, Lie::Flip, "only bytes that prove themselves are a verdict at once; {at}: {fault}");
                    assert!(truth.starts_with(&standby.machine().entries), "{lie:?} at {at}");
                    wrong += 1;
                }
            }
        }
    }
    assert!(right >= 6 * reads && wrong >= 3, "{right} right, {wrong} verdicts");
}

/// The same before the cutover, while the log grows.
#[tokio::test(start_paused = true)]
async fn s3_legacy_every_read_before_the_cutover_fails_once_or_lies_once() {
    let lies = [Lie::Fail(KvErrorKind::Timeout), Lie::Flip, Lie::Absent, Lie::Short, Lie::Hole, Lie::Stale];
    for lie in lies {
        for at in 0..12 {
            let kv = log_to(5).await;
            let tamper = TamperKv::new(kv.clone());
            let mut standby = standby(tamper.clone()).await;
            tamper.lie_once(at, lie);
            let mut ended = Ok(Step::Empty);
            for more in 0..4_u64 {
                fill(&*kv, 6 + more..=6 + more, 6 + more).await;
                ended = follow(&mut standby).await;
                if ended.is_err() {
                    break;
                }
            }
            match ended {
                Ok(_) => {
                    assert_eq!(
                        follow_for(&mut standby, Duration::from_secs(5)).await,
                        Ok(Step::PerEntry(seq(9))),
                        "{lie:?} at {at}"
                    );
                    assert_eq!(standby.machine().entries, entries(1..=9), "{lie:?} at {at}");
                }
                Err(fault) => {
                    assert_eq!(lie, Lie::Flip, "{at}: {fault}");
                    assert!(entries(1..=9).starts_with(&standby.machine().entries), "{lie:?} at {at}");
                }
            }
        }
    }
}

/// A prefix that was not seen once: what was applied above the base meanwhile is thrown away.
#[tokio::test(start_paused = true)]
async fn legacy_a_prefix_that_was_overlooked_once_leaves_nothing_behind() {
    let kv = log_with_everything().await;
    let tamper = TamperKv::new(kv.clone());
    let mut standby = standby(tamper.clone()).await;
    let prefix = keys().durable_prefix();
    tamper.choose(move |_, key| (key == &prefix[..]).then_some(Lie::Absent));
    // Batches beside it are hidden, too, or their prefix is missing.
    let (hidden, _) = keys().all_batches();
    let prefix = keys().durable_prefix();
    tamper.choose(move |_, key| (key == &prefix[..] || key == &hidden[..]).then_some(Lie::Absent));
    assert_eq!(standby.step().await.unwrap(), Step::PerEntry(seq(7)));
    tamper.truth();
    follow(&mut standby).await.unwrap();
    assert_eq!(standby.machine().entries, crossed(6, 9));
    assert_eq!(standby.observer().metrics().legacy.restarts, 1);
}

/// Requests that never come back end by themselves, and the position stays.
#[tokio::test(start_paused = true)]
async fn legacy_a_store_that_hangs_costs_time_and_no_verdict() {
    let kv = log_with_everything().await;
    let link = FaultyKv::txn_only(kv.clone(), 3);
    let storage = open(link.clone()).await;
    for op in [OpKind::Get, OpKind::Range] {
        for skip in 0..6 {
            let (mut standby, clock) = (standby_with(&storage, Default::default()), RuntimeClock::new());
            for _ in 0..skip {
                link.script(op, StoreFault::Pass);
            }
            link.script(op, StoreFault::HoldReply);
            let step = follow_for(&mut standby, Duration::from_secs(20)).await.unwrap();
            assert!(matches!(step, Step::Reached(_)), "{op:?} {skip}");
            assert_eq!(standby.machine().entries, crossed(6, 9), "{op:?} {skip}");
            let (took, bound) = (clock.now(), Duration::from_secs(20) + 2 * config().request_timeout);
            assert!(took <= MonoTime::from_origin(bound), "{op:?} {skip}: one request held it up until {took:?}");
        }
    }
}
