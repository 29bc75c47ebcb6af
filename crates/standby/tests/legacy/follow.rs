//! Owns the tests of following the log before its cutover: everything there, in order, and nothing else taken for an entry.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{FaultyKv, Link};
use ha_kv::{Kv, MemoryKv};
use oplog_core::legacy::KeySequences;
use oplog_core::{LogKeys, NewEntry, Replica};
use standby::{FaultKind, Health, LegacyConfig, Standby, Step};

use crate::kit::*;
use crate::support::{config, keys, open};

#[tokio::test(start_paused = true)]
async fn legacy_an_absent_prefix_means_the_per_entry_path() {
    let kv = log_to(5).await;
    let mut standby = standby(kv.clone()).await;
    assert_eq!(standby.step().await.unwrap(), Step::PerEntry(seq(5)));
    assert_eq!((standby.health(), standby.position().last_seq), (Health::Following { lag: 0 }, seq(5)));
    fill(&*kv, 6..=9, 9).await;
    assert_eq!(standby.step().await.unwrap(), Step::PerEntry(seq(9)));
    assert_eq!(standby.machine().entries, entries(1..=9));
    let metrics = standby.observer().metrics();
    assert_eq!((metrics.applied_seq, metrics.entries, metrics.batches, metrics.lag_entries), (9, 9, 0, 0));
    assert!(metrics.legacy.following && metrics.legacy.latest_seq == 9 && metrics.legacy.base_seq.is_none());
    assert!(metrics.legacy.note().unwrap().contains("plimsoll oplog cutover"));
    assert!(metrics.reads > 4 && metrics.store_answers);
}

#[tokio::test(start_paused = true)]
async fn legacy_a_log_in_that_format_is_refused_where_the_mode_is_off() {
    let kv = log_to(3).await;
    let fault = follow(&mut plain(&open(kv.clone()).await, config())).await.unwrap_err();
    assert_eq!(fault.kind(), Some(FaultKind::ForeignState));
    assert!(fault.to_string().contains("oplog.legacy"), "it names the switch: {fault}");
    // And a log that was cut over is not held by who cannot read below the base.
    cut_over(&*kv, 3).await;
    let fault = follow(&mut plain(&open(kv).await, config())).await.unwrap_err();
    assert_eq!(fault.kind(), Some(FaultKind::BaseNotHeld), "{fault}");
}

/// The original writes `latest` late, early, and with two writers backwards: it is a hint.
#[tokio::test(start_paused = true)]
async fn legacy_latest_lags_goes_back_and_leads_and_nothing_is_lost_or_doubled() {
    let kv = log_to(4).await;
    let mut standby = standby(kv.clone()).await;
    fill(&*kv, 5..=7, 4).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(7)), "it lags");
    latest(&*kv, 2).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(7)), "it went back");
    latest(&*kv, 11).await;
    let step = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap();
    assert_eq!(step, Step::PerEntry(seq(7)), "it leads, and nothing that exists is missing");
    assert_eq!(standby.health(), Health::Following { lag: 4 });
    assert_eq!(standby.observer().metrics().legacy.missing_seq, Some(8), "but it is shown");
    fill(&*kv, 8..=11, 11).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(11)));
    assert_eq!(standby.machine().entries, entries(1..=11));
    assert_eq!(standby.observer().metrics().legacy.missing_seq, None);
}

#[tokio::test(start_paused = true)]
async fn l15_legacy_another_clusters_entries_and_what_is_none_are_never_applied() {
    let kv = log_to(2).await;
    for cluster in ["c1a", "c1.b", "c", "c11"] {
        let other = LogKeys::of(&ha_types::ClusterId::new(cluster).unwrap());
        kv.put(&other.legacy_entry(seq(3)), entry(3).encode()).await.unwrap();
    }
    let base = keys().legacy_entry(seq(3));
    let base = std::str::from_utf8(&base).unwrap();
    let padded = base.replace("/oplog/c1/", "/oplog/c1/0");
    let below = format!("{}/00000000000000000003", base.replace("0003", "0002"));
    let short = base[..base.len() - 1].to_owned();
    for stray in [format!("{base}0"), padded, below, short, base.replace("0003", "000x")] {
        kv.put(stray.as_bytes(), entry(3).encode()).await.unwrap();
    }
    kv.put(&[&keys().legacy_snapshots().0[..], b"s1/sequence_id"].concat(), "2".into()).await.unwrap();
    let mut standby = standby(kv.clone()).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(2)));
    assert_eq!(standby.machine().entries, entries(1..=2));
    let legacy = standby.observer().metrics().legacy;
    assert_eq!((legacy.missing_seq, standby.health()), (None, Health::Following { lag: 0 }), "nor is any missed");

    // Nor do other clusters' entries and batches make an empty log one of theirs.
    let kv = Arc::new(MemoryKv::new());
    for cluster in ["c1.a", "c1-b", "c1a", "c", "c11"] {
        let other = LogKeys::of(&ha_types::ClusterId::new(cluster).unwrap());
        kv.put(&other.legacy_entry(seq(1)), entry(1).encode()).await.unwrap();
        kv.put(&other.batch(oplog_core::BatchId::new(1)), "PLB1".into()).await.unwrap();
        kv.put(&other.legacy_latest(), "1".into()).await.unwrap();
    }
    assert_eq!(plain(&open(kv.clone()).await, config()).step().await.unwrap(), Step::Empty);
    assert_eq!(follow(&mut standby_with(&open(kv).await, Default::default())).await, Ok(Step::PerEntry(seq(0))));
}

#[tokio::test(start_paused = true)]
async fn s2_legacy_a_key_sequence_must_rise_where_there_is_one() {
    let kv = Arc::new(MemoryKv::new());
    for (n, key, id) in
        [(1, "a", Some(5)), (2, "b", Some(1)), (3, "a", Some(6)), (4, "a", None), (5, "b", Some(9)), (6, "a", Some(7))]
    {
        put(&*kv, &keyed(n, key, id)).await;
    }
    latest(&*kv, 6).await;
    let mut standby = standby(kv.clone()).await;
    assert_eq!(follow(&mut standby).await.unwrap(), Step::PerEntry(seq(6)));
    assert_eq!(standby.observer().metrics().legacy.counted_keys, 2);
    put(&*kv, &keyed(7, "b", Some(9))).await;
    let fault = follow(&mut standby).await.unwrap_err();
    assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::LegacyKeySequence), Some(seq(7))));
    assert_eq!(fault.key().as_bytes(), &keys().legacy_entry(seq(7))[..]);
    assert_eq!(standby.machine().entries, entries(1..=6), "the state is at the entry before");
}

/// RFC hot standby §9: a key whose last operation was REMOVE is forgotten after more than an hour; others are kept.
#[tokio::test(start_paused = true)]
async fn legacy_counts_of_removed_keys_are_cleaned_up() {
    let kv = Arc::new(MemoryKv::new());
    let remove = |n, key: &str, id| {
        let new = NewEntry { op_type: 3, tenant: "default", key: key.as_bytes(), payload: b"" };
        let entry = oplog_core::legacy::LegacyEntry::new(seq(n), n, &new).unwrap();
        oplog_core::legacy::LegacyEntry { key_sequence_id: Some(id), ..entry }
    };
    put(&*kv, &keyed(1, "gone", Some(1))).await;
    put(&*kv, &remove(2, "gone", 2)).await;
    put(&*kv, &keyed(3, "kept", Some(1))).await;
    let mut standby = standby(kv.clone()).await;
    follow(&mut standby).await.unwrap();
    assert_eq!(standby.observer().metrics().legacy.counted_keys, 2);
    tokio::time::sleep(2 * KeySequences::KEPT_AFTER_REMOVE + Duration::from_secs(1)).await;
    put(&*kv, &keyed(4, "other", None)).await;
    follow(&mut standby).await.unwrap();
    assert_eq!(standby.observer().metrics().legacy.counted_keys, 1, "kept is kept, gone is gone");
}

/// RFC hot standby §3.3: entries are watched, and so is the prefix that ends them; the poll interval is the fallback.
#[tokio::test(start_paused = true)]
async fn legacy_entries_and_the_prefix_are_watched() {
    for hints in [true, false] {
        let kv = log_to(3).await;
        let storage = open(kv.clone()).await;
        let rare = standby::StandbyConfig { poll: Duration::from_secs(3600), ..config() };
        let mut env = reader_env();
        env.watch = hints.then(|| kv.clone() as _);
        let standby = Standby::new(storage, Replica::empty(Journal::default()), rare, env).unwrap();
        let mut standby = standby.with_legacy(mode(Default::default())).unwrap();
        let observer = standby.observer();
        let running = tokio::spawn(async move { standby.run().await });
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(observer.metrics().applied_seq, 3);
        fill(&*kv, 4..=6, 3).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(observer.metrics().applied_seq, if hints { 6 } else { 3 }, "entries");
        latest(&*kv, 6).await;
        cut_over(&*kv, 6).await;
        let mut scribe = scribe(kv.clone(), 6).await;
        batches(&mut scribe, 7..=8).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        batches(&mut scribe, 9..=9).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(observer.metrics().applied_seq, if hints { 9 } else { 3 }, "the prefix");
        tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
        assert_eq!(observer.metrics().applied_seq, 9, "by the poll interval at the latest");
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn s7_legacy_the_backend_goes_away_in_replay_and_comes_back() {
    let memory = log_to(300).await;
    let link = FaultyKv::txn_only(memory.clone(), 5);
    let storage = open(link.clone()).await;
    let small = standby::StandbyConfig { page_bytes: 2000, ..config() };
    let mut standby = plain(&storage, small).with_legacy(mode(Default::default())).unwrap();
    let observer = standby.observer();
    let running = tokio::spawn(async move {
        let fault = standby.run().await;
        panic!("no verdict is due: {fault}");
    });
    let mut entries = 0;
    for _ in 0..3 {
        link.set_link(Link::Cut);
        tokio::time::sleep(Duration::from_secs(60)).await;
        link.set_link(Link::Up);
        tokio::time::sleep(Duration::from_secs(10)).await;
        entries += 50;
        fill(&*memory, 301 + entries - 50..=300 + entries, 300 + entries).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let metrics = observer.metrics();
    assert_eq!((metrics.applied_seq, metrics.entries), (450, 450), "each entry once");
    assert!(metrics.store_errors > 0 && !running.is_finished());
    running.abort();
}

/// The original cleaned up past a standby that was away: what it missed is gone, and it never jumps over it, in words or not.
#[tokio::test(start_paused = true)]
async fn s7_legacy_a_log_that_was_cleaned_up_past_a_standby_that_was_away_is_a_verdict_and_no_jump() {
    for legacy in [LegacyConfig::default(), lenient()] {
        for cut in [false, true] {
            let memory = log_to(30).await;
            let link = FaultyKv::txn_only(memory.clone(), 5);
            let mut standby = standby_with(&open(link.clone()).await, legacy.clone());
            assert_eq!(follow(&mut standby).await, Ok(Step::PerEntry(seq(30))));
            link.set_link(Link::Cut);
            assert!(standby.step().await.is_err());
            fill(&*memory, 31..=60, 60).await;
            for n in 1..=40 {
                memory.delete(&keys().legacy_entry(seq(n))).await.unwrap();
            }
            if cut {
                cut_over(&*memory, 60).await;
            }
            link.set_link(Link::Up);
            let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
            assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::LegacyStartGone), Some(seq(31))), "{fault}");
            assert_eq!(fault.key().as_bytes(), &keys().legacy_entry(seq(31))[..]);
            assert_eq!(standby.machine().entries, entries(1..=30), "it stands where it stood");
            assert!(standby.machine().holes.is_empty());
        }
    }
}
