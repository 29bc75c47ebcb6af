//! Owns the tests of the crossing: legacy entries through the base, then batches, and never a batch on what lies above the base.

use ha_kv::Kv;
use standby::{Health, Standby, Step};

use crate::kit::*;
use crate::support::{keys, open};

async fn reached(standby: &mut Standby<Journal>, last: u64) {
    let step = follow(standby).await.unwrap();
    assert!(matches!(step, Step::Reached(prefix) if prefix.last_seq == seq(last)), "{step:?}");
    assert!(!standby.observer().metrics().legacy.following);
}

#[tokio::test(start_paused = true)]
async fn legacy_a_standby_behind_the_base_applies_entries_first_then_batches() {
    // Whatever the prefix's batch when it is met for the first time.
    for batches_written in 0..=3 {
        let kv = log_to(7).await;
        let mut standby = standby(kv.clone()).await;
        follow(&mut standby).await.unwrap();
        fill(&*kv, 8..=9, 9).await;
        cut_over(&*kv, 9).await;
        let mut scribe = scribe(kv.clone(), 9).await;
        batches(&mut scribe, 10..10 + batches_written).await;
        reached(&mut standby, 9 + batches_written).await;
        assert_eq!(standby.machine().entries, crossed(9, 9 + batches_written));
        assert_eq!(standby.observer().metrics().legacy.restarts, 0);
        assert_eq!(standby.observer().metrics().legacy.base_seq, Some(9));
        batches(&mut scribe, 10 + batches_written..14).await;
        reached(&mut standby, 13).await;
        assert_eq!(standby.machine().entries, crossed(9, 13));
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_a_node_that_starts_after_the_cutover_reads_the_entries_below_the_base() {
    let kv = log_to(6).await;
    cut_over(&*kv, 6).await;
    let mut scribe = scribe(kv.clone(), 6).await;
    batches(&mut scribe, 7..=9).await;
    let mut standby = standby(kv.clone()).await;
    reached(&mut standby, 9).await;
    assert_eq!(standby.machine().entries, crossed(6, 9));
}

/// `latest` lagged: the standby had applied more than the base, and those entries are not in the log.
#[tokio::test(start_paused = true)]
async fn legacy_a_state_above_the_base_is_thrown_away_and_no_batch_is_applied_on_it() {
    for batches_written in [0, 1, 3] {
        let kv = log_to(8).await;
        latest(&*kv, 5).await;
        let mut standby = standby(kv.clone()).await;
        assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(8)));
        cut_over(&*kv, 5).await;
        let mut scribe = scribe(kv.clone(), 5).await;
        batches(&mut scribe, 6..6 + batches_written).await;
        reached(&mut standby, 5 + batches_written).await;
        assert_eq!(
            standby.machine().entries,
            crossed(5, 5 + batches_written),
            "nothing of 6 to 8 of the old log is left"
        );
        assert_eq!(standby.observer().metrics().legacy.restarts, 1);
        assert_eq!(standby.health(), Health::Following { lag: 0 });
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_it_stops_at_the_base_although_higher_entries_exist() {
    let kv = log_to(9).await;
    latest(&*kv, 4).await;
    let prefix = cut_over(&*kv, 4).await;
    let mut standby = standby(kv.clone()).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::Reached(prefix));
    assert_eq!(standby.machine().entries, entries(1..=4));
    let mut scribe = scribe(kv.clone(), 4).await;
    batches(&mut scribe, 5..=6).await;
    reached(&mut standby, 6).await;
    assert_eq!(standby.machine().entries, crossed(4, 6));
}

/// L14: the first batch begins at `latest` + 1, and `latest` and the entries stay as they are.
#[tokio::test(start_paused = true)]
async fn l14_legacy_the_first_batch_follows_latest_and_the_old_keys_stay_as_they_are() {
    let kv = log_to(5).await;
    cut_over(&*kv, 5).await;
    let (start, end) = keys().legacy_range(seq(0), seq(u64::MAX));
    let old = kv.range(&start, &end, ha_kv::RangeLimit::pairs(100)).await.unwrap().pairs;
    let mut scribe = scribe(kv.clone(), 5).await;
    batches(&mut scribe, 6..=20).await;
    let record = scribe.storage.read_batch(oplog_core::BatchId::new(1)).await.unwrap().unwrap();
    assert_eq!(oplog_core::record::BatchRef::decode(&record).unwrap().header().first_seq, seq(6));
    assert_eq!(kv.get(&keys().legacy_latest()).await.unwrap().as_deref(), Some(&b"5"[..]));
    assert_eq!(kv.range(&start, &end, ha_kv::RangeLimit::pairs(100)).await.unwrap().pairs, old);
    let mut standby = standby(kv.clone()).await;
    reached(&mut standby, 20).await;
    assert_eq!(standby.machine().entries, crossed(5, 20));
}

/// A log that never had legacy entries is followed as if the mode were off.
#[tokio::test(start_paused = true)]
async fn legacy_the_mode_does_not_disturb_a_log_in_batch_records() {
    let kv = std::sync::Arc::new(ha_kv::MemoryKv::new());
    let storage = open(kv.clone()).await;
    let mut scribe = crate::support::Scribe::begin(&storage).await;
    batches(&mut scribe, 1..=4).await;
    let mut standby = standby(kv).await;
    reached(&mut standby, 4).await;
    assert_eq!(standby.machine().entries, crossed(0, 4));
    assert_eq!(standby.observer().metrics().legacy.base_seq, Some(0));
}
