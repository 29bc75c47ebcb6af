//! The audit in each build: what a build cannot check is no sound log.

mod support;

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Kv, MemoryKv};
use ha_types::{BatchId, Seq};
use oplog_core::audit::{AuditOptions, AuditReport, audit};
use oplog_core::{BatchStorage, FaultKind};

use self::support::{Hand, claim_new, fresh, keys};

async fn report(kv: &Arc<MemoryKv>) -> AuditReport {
    let options = AuditOptions { second_look: Duration::from_millis(1), ..AuditOptions::default() };
    audit(&BatchStorage::open_for_reading(kv.clone(), keys()), &options, &mut |_| {}).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_log_of_ours_is_judged_by_every_build() {
    let kv = Arc::new(MemoryKv::new());
    let mut hand = Hand::new(claim_new(&fresh(kv.clone()).await, 1).await);
    hand.append_batches(20).await;
    let sound = report(&kv).await;
    assert_eq!(sound.faults.listed(), []);
    assert_eq!((sound.batches.plb1, sound.prefix), (20, Some(hand.prefix)));
    kv.delete(&keys().batch(BatchId::new(7))).await.unwrap();
    let kinds: Vec<_> = report(&kv).await.faults.listed().iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds, [FaultKind::BatchMissing]);
}

#[tokio::test(start_paused = true)]
async fn what_a_build_cannot_check_is_a_fault_that_says_so() {
    let kv = Arc::new(MemoryKv::new());
    for n in 1..=3 {
        kv.put(&keys().legacy_entry(Seq::new(n)), "no entry".into()).await.unwrap();
    }
    kv.put(&keys().legacy_latest(), "3".into()).await.unwrap();
    let kinds: Vec<_> = report(&kv).await.faults.listed().iter().map(|fault| fault.kind).collect();
    match cfg!(feature = "legacy") {
        true => assert_eq!(kinds, [FaultKind::LegacyUndecodable; 3]),
        false => assert_eq!(kinds, [FaultKind::ForeignState], "one fault for all of it"),
    }

    let kv = Arc::new(MemoryKv::new());
    fresh(kv.clone()).await;
    kv.put(&keys().producer_view(), "7".into()).await.unwrap();
    assert_eq!(report(&kv).await.is_sound(), cfg!(feature = "mooncake"));
}
