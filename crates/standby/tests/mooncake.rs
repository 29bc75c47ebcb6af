//! Owns the tests of a standby of a log that Mooncake writes: it follows, is promoted only by a take-over, and is strict about both.

mod support;

use std::sync::Arc;

use ha_kv::{Kv, MemoryKv};
use oplog_core::mooncake::encode;
use oplog_core::{BatchId, ClaimError, FaultKind, TakeOver, TakeOverRefused};
use standby::{Health, PromoteError, Standby, Step};
use support::*;

const STOPPED: TakeOver = TakeOver { old_primary_stopped: true };

/// What the original's primary puts into the store for batch `id` of two entries.
async fn write(kv: &MemoryKv, id: u64) {
    let payloads = [[id as u8, 1], [id as u8, 2]];
    let entries = payloads.each_ref().map(|payload| (1, "default", "k", &payload[..]));
    kv.put(&keys().batch(BatchId::new(id)), encode::batch(id, 2 * id - 1, &entries).into()).await.unwrap();
    kv.put(&keys().durable_prefix(), encode::prefix(id, 2 * id, None).into()).await.unwrap();
}

async fn original(batches: u64) -> Arc<MemoryKv> {
    let kv = Arc::new(MemoryKv::new());
    kv.put(&keys().producer_view(), "7".into()).await.unwrap();
    kv.put(&keys().durable_prefix(), encode::prefix(0, 0, None).into()).await.unwrap();
    for id in 1..=batches {
        write(&kv, id).await;
    }
    kv
}

async fn at(standby: &mut Standby<Counter>) -> u64 {
    match follow(standby).await.unwrap() {
        Step::Reached(prefix) => prefix.last_seq.get(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn s1_a_log_of_mooncakes_is_followed_and_a_take_over_is_crossed() {
    let kv = original(0).await;
    let mut watching = standby(&open(kv.clone()).await);
    assert_eq!(at(&mut watching).await, 0);
    for id in 1..=5 {
        write(&kv, id).await;
        assert_eq!(at(&mut watching).await, 2 * id);
    }
    // What lies above the prefix is not in the log.
    let above = encode::batch(6, 11, &[(1, "default", "k", b"above")]);
    kv.put(&keys().batch(BatchId::new(6)), above.into()).await.unwrap();
    assert_eq!(at(&mut watching).await, 10);
    kv.delete(&keys().batch(BatchId::new(6))).await.unwrap();
    // Another node takes the log over and writes on in our format.
    let leader = standby(&open(kv.clone()).await.permit_take_over(STOPPED));
    let caught_up = leader.promote(&*Switch::on()).await.unwrap();
    assert_eq!((caught_up.claim().epoch.get(), caught_up.claim().from_mooncake), (1, true));
    assert_eq!(caught_up.machine(), watching.machine());
    assert_eq!(at(&mut watching).await, 10);
    let mut scribe = Scribe::take(&open(kv.clone()).await, 3).await;
    scribe.fill(3, 2, 9).await;
    assert_eq!(at(&mut watching).await, 16);
    assert_eq!(watching.machine().payloads, scribe.log);

    // A prefix of Mooncake's after one of ours is a store that was rolled back, whatever its numbers.
    kv.put(&keys().durable_prefix(), encode::prefix(9, 18, None).into()).await.unwrap();
    let fault = follow(&mut watching).await.unwrap_err();
    assert_eq!((fault.kind(), fault.key()), (Some(FaultKind::PrefixRegressed), "/oplog/c1/durable_prefix"));
}

#[tokio::test]
async fn a_promotion_without_the_operators_word_is_refused_and_the_standby_follows_on() {
    let kv = original(3).await;
    let following = standby(&open(kv.clone()).await);
    let refused = following.promote(&*Switch::on()).await.unwrap_err();
    let why = &refused.error;
    assert!(matches!(why, PromoteError::Claim(ClaimError::TakeOver(TakeOverRefused::NotPermitted))), "{why}");
    let mut following = refused.standby;
    assert!(matches!(following.health(), Health::Following { lag: 0 }));
    write(&kv, 4).await;
    assert_eq!(at(&mut following).await, 8);
    let view = kv.get(&keys().producer_view()).await.unwrap();
    assert_eq!(view.as_deref(), Some(&b"7"[..]), "nothing was claimed");
}

#[tokio::test]
async fn s2_damage_in_a_log_of_mooncakes_is_a_verdict_that_names_its_place() {
    let kv = original(4).await;
    let key = keys().batch(BatchId::new(3));
    let good = kv.get(&key).await.unwrap().unwrap();
    let cases = [
        (good.slice(..good.len() - 1), FaultKind::BatchUndecodable, "batch at byte "),
        (encode::batch(3, 6, &[(1, "t", "k", b"x")]).into(), FaultKind::SequenceGap, "first_seq one above 4"),
        (encode::batch(4, 5, &[(1, "t", "k", b"x")]).into(), FaultKind::WrongBatchId, "the record of batch 3"),
    ];
    for (record, kind, expected) in cases {
        kv.put(&key, record).await.unwrap();
        let mut following = standby(&open(kv.clone()).await);
        let fault = follow(&mut following).await.unwrap_err();
        assert_eq!((fault.kind(), fault.key()), (Some(kind), "/oplog/c1/batches/00000000000000000003"), "{fault}");
        assert!(fault.to_string().contains(expected), "{fault}");
        assert_eq!(following.position().last_seq.get(), 4, "the last good batch is kept");
        let refused = following.promote(&*Switch::on()).await.unwrap_err();
        assert!(matches!(refused.error, PromoteError::Unhealthy(_)));
    }
    // The last batch has to end where the prefix says, whoever wrote it.
    kv.put(&key, good).await.unwrap();
    for entries in [1, 3] {
        let last = encode::batch(4, 7, &vec![(1, "t", "k", &b"x"[..]); entries]);
        kv.put(&keys().batch(BatchId::new(4)), last.into()).await.unwrap();
        let mut following = standby(&open(kv.clone()).await);
        let fault = follow(&mut following).await.unwrap_err();
        assert_eq!(
            (fault.kind(), fault.key()),
            (Some(FaultKind::SequenceGap), "/oplog/c1/batches/00000000000000000004")
        );
        assert!(fault.to_string().contains("fits the durable prefix"), "{fault}");
        assert_eq!(following.position().last_seq.get(), 6, "the last good batch is kept");
    }
}
