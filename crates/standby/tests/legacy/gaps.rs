//! Owns the tests of gaps: waited for, fetched again, then a verdict; passed over only where the loss was accepted in words.

use std::time::Duration;

use ha_kv::Kv;
use ha_kv::faulty::RuntimeClock;
use ha_types::{Clock, MonoTime};
use standby::{FaultKind, LegacyConfig, Step};

use crate::kit::*;
use crate::support::{keys, open};

/// The entries 1 to 9 without 4 and 5.
async fn log_with_a_hole() -> std::sync::Arc<ha_kv::MemoryKv> {
    let kv = log_to(9).await;
    for n in [4, 5] {
        kv.delete(&keys().legacy_entry(seq(n))).await.unwrap();
    }
    kv
}

#[tokio::test(start_paused = true)]
async fn legacy_a_missing_entry_is_waited_for_and_fetched_again() {
    let kv = log_with_a_hole().await;
    let mut standby = standby(kv.clone()).await;
    let step = follow_for(&mut standby, Duration::from_millis(2500)).await.unwrap();
    assert_eq!(step, Step::PerEntry(seq(3)), "it waits before the hole, and skips nothing");
    let metrics = standby.observer().metrics();
    assert_eq!((metrics.legacy.missing_seq, metrics.legacy.skipped), (Some(4), 0));
    assert!(metrics.legacy.note().unwrap().contains("entry 4 is missing"));
    put(&*kv, &entry(4)).await;
    let step = follow_for(&mut standby, Duration::from_millis(2500)).await.unwrap();
    assert_eq!(step, Step::PerEntry(seq(4)), "the next one has its own wait");
    put(&*kv, &entry(5)).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(9)));
    assert_eq!(standby.machine().entries, entries(1..=9));
}

#[tokio::test(start_paused = true)]
async fn s2_legacy_a_missing_entry_that_stays_away_is_a_verdict() {
    let kv = log_with_a_hole().await;
    let mut standby = standby(kv.clone()).await;
    let clock = RuntimeClock::new();
    let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
    let waited = clock.now().saturating_since(MonoTime::from_origin(Duration::ZERO));
    assert!(waited >= LegacyConfig::default().gap_wait && waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::LegacyGap), Some(seq(4))));
    assert_eq!(fault.key().as_bytes(), &keys().legacy_entry(seq(4))[..]);
    assert!(fault.to_string().contains("accept_lost_entries"), "the words: {fault}");
    assert_eq!(standby.machine().entries, entries(1..=3));
    // It stays so, even when the entry comes.
    put(&*kv, &entry(4)).await;
    assert_eq!(follow(&mut standby).await.unwrap_err(), fault);
}

#[tokio::test(start_paused = true)]
async fn legacy_a_hole_is_passed_over_only_if_that_is_switched_on_in_words() {
    let kv = log_with_a_hole().await;
    let mut standby = standby_with(&open(kv.clone()).await, lenient());
    assert_eq!(
        follow_for(&mut standby, Duration::from_secs(2)).await.unwrap(),
        Step::PerEntry(seq(3)),
        "it waits all the same"
    );
    assert_eq!(follow_for(&mut standby, Duration::from_secs(3)).await.unwrap(), Step::PerEntry(seq(9)));
    assert_eq!(standby.machine().holes, [(4, 5)]);
    let seen: Vec<_> = entries((1..=3).chain(6..=9));
    assert_eq!(standby.machine().entries, seen);
    assert_eq!(standby.observer().metrics().legacy.skipped, 2);
}

/// The skipped entry came after all: every node that starts now holds it, so this one starts again at the base.
#[tokio::test(start_paused = true)]
async fn legacy_a_state_with_a_passed_hole_starts_again_at_the_cutover() {
    let kv = log_with_a_hole().await;
    let storage = open(kv.clone()).await;
    let mut standby = standby_with(&storage, lenient());
    follow_for(&mut standby, Duration::from_secs(5)).await.unwrap();
    assert_eq!(standby.machine().holes, [(4, 5)]);
    put(&*kv, &entry(4)).await;
    let prefix = cut_over(&*kv, 9).await;
    assert_eq!(follow_for(&mut standby, Duration::from_secs(1)).await.unwrap(), Step::Reached(prefix));
    assert_eq!(standby.observer().metrics().legacy.restarts, 1);
    let mut late = standby_with(&storage, lenient());
    assert_eq!(follow_for(&mut late, Duration::from_secs(1)).await.unwrap(), Step::Reached(prefix));
    assert_eq!(standby.machine(), late.machine(), "both hold entry 4, and lack 5");
    assert_eq!(standby.machine().holes, [(5, 5)]);
}

#[tokio::test(start_paused = true)]
async fn legacy_a_log_whose_start_is_gone_is_refused_by_name_in_words_or_not() {
    for config in [LegacyConfig::default(), lenient()] {
        let kv = log_to(9).await;
        for n in 1..=3 {
            kv.delete(&keys().legacy_entry(seq(n))).await.unwrap();
        }
        let mut standby = standby_with(&open(kv.clone()).await, config.clone());
        let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
        assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::LegacyStartGone), Some(seq(1))), "{fault}");
        assert!(fault.to_string().contains("snapshot of ours"), "{fault}");
        // After a cutover, too, and with all of it gone.
        cut_over(&*kv, 9).await;
        for n in 4..=9 {
            kv.delete(&keys().legacy_entry(seq(n))).await.unwrap();
        }
        let mut standby = standby_with(&open(kv.clone()).await, config);
        let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(fault.kind(), Some(FaultKind::LegacyStartGone), "{fault}");
        assert!(standby.machine().entries.is_empty());
    }
}

/// The original removes what its own snapshot holds. A standby that has applied it all misses nothing, though `latest` leads.
#[tokio::test(start_paused = true)]
async fn legacy_a_start_that_is_cleaned_up_behind_the_state_is_no_loss() {
    let kv = log_to(4).await;
    let mut standby = standby(kv.clone()).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(4)));
    for n in 1..=4 {
        kv.delete(&keys().legacy_entry(seq(n))).await.unwrap();
    }
    latest(&*kv, 6).await;
    let step = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap();
    assert_eq!(step, Step::PerEntry(seq(4)), "nothing that exists is missing");
    fill(&*kv, 5..=6, 6).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(6)));
    assert_eq!(standby.machine().entries, entries(1..=6));
}

/// Below a base nothing may be missing, not even at its end.
#[tokio::test(start_paused = true)]
async fn s2_legacy_a_base_above_what_is_there_is_a_gap() {
    let kv = log_to(5).await;
    cut_over(&*kv, 7).await;
    let mut standby = standby(kv.clone()).await;
    let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::LegacyGap), Some(seq(6))), "{fault}");
    let mut standby = standby_with(&open(kv.clone()).await, lenient());
    assert!(matches!(follow_for(&mut standby, Duration::from_secs(1)).await.unwrap(), Step::Reached(_)));
    assert_eq!(standby.machine().holes, [(6, 7)]);
}
