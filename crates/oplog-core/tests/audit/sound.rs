//! Sound logs have no fault, what they hold is told, and nothing but their own keys is looked at.

use ha_types::{BatchId, Epoch, Owner, Seq};
use oplog_core::audit::{AuditOptions, audit};
use oplog_core::{BatchStorage, DurablePrefix};

use crate::kit::{Log, audit_of, options};
use crate::support::{Crooked, keys};

#[tokio::test(start_paused = true)]
async fn sound_logs_of_every_format_have_no_fault() {
    for (name, log) in Log::all_sound().await {
        for options in [options(), AuditOptions::default()] {
            let before = log.pairs().await;
            let report = audit_of(log.kv.clone(), &options).await;
            assert_eq!(report.faults.listed(), [], "{name}");
            assert!(report.is_sound() && !report.is_absent(), "{name}");
            assert_eq!(report.keys as usize, before.len(), "{name}: every key was looked at once");
            let bytes: usize = before.iter().map(|(_, value)| value.len()).sum();
            assert_eq!(report.bytes as usize, bytes, "{name}");
            assert_eq!(log.pairs().await, before, "{name}: it only reads");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_log_holds_is_told() {
    let log = Log::mixed().await;
    log.put_key(b"mooncake-store/c1/master_view", "10.0.0.1:50051").await;
    let report = log.audit().await;
    let (batches, legacy) = (&report.batches, &report.legacy);
    assert_eq!((batches.mooncake, batches.plb1, batches.unreadable, batches.batches()), (2, 2, 0, 4));
    assert_eq!((batches.first, batches.last), (Some(BatchId::new(1)), Some(BatchId::new(4))));
    assert_eq!((batches.first_seq, batches.last_seq, batches.entries), (Some(Seq::new(6)), Some(Seq::new(13)), 8));
    let epochs: Vec<_> =
        batches.epochs.iter().map(|e| (e.epoch.get(), e.first.get(), e.last.get(), e.entries)).collect();
    assert_eq!(epochs, [(0, 1, 2, 4), (1, 3, 4, 4)]);
    assert_eq!((legacy.entries, legacy.first, legacy.last), (5, Some(Seq::new(1)), Some(Seq::new(5))));
    assert_eq!((legacy.base, legacy.latest, legacy.above_base), (Some(Seq::new(5)), Some(Seq::new(5)), 0));
    assert_eq!((legacy.snapshot_count, legacy.snapshots[0].sequence.clone()), (1, Ok(Seq::new(4))));
    assert_eq!(report.producer_view.as_deref(), Some(&b"2"[..]));
    assert_eq!(report.election.as_deref(), Some(&b"10.0.0.1:50051"[..]));
    assert_eq!((report.prefix, report.owners.clone()), (Some(log.prefix), vec![Owner::new(0xabc1)]));
    assert_eq!(report.prefix.map(|p| p.epoch), Some(Epoch::new(1)));
    let compressed = Log::compressed().await.audit().await.batches;
    assert_eq!(compressed.compressed, 3);
    assert!(compressed.raw_bytes > compressed.bytes);
}

#[tokio::test(start_paused = true)]
async fn l15_no_key_of_another_cluster_is_looked_at() {
    let log = Log::cut_over().await;
    for other in ["c", "c10", "c1.b", "c1a", "c1-", "c1_"] {
        for key in ["batches/00000000000000000001", "00000000000000000009", "durable_prefix", "garbage", "latest"] {
            log.put_key(format!("/oplog/{other}/{key}").as_bytes(), "broken").await;
        }
    }
    let crooked = Crooked::new(log.kv.clone());
    let report = audit_of(crooked.clone(), &options()).await;
    assert_eq!(report.faults.listed(), []);
    for key in crooked.take_reads() {
        let ours = [&b"/oplog/c1/"[..], b"/plimsoll/c1/", b"mooncake-store/c1/"].iter().any(|own| key.starts_with(own));
        assert!(ours, "{}", key.escape_ascii());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fresh_log_is_sound_and_no_log_is_absent() {
    let log = Log::empty();
    assert!(log.audit().await.is_absent());
    log.put_key(&keys().durable_prefix(), DurablePrefix::FRESH.encode()).await;
    let report = log.audit().await;
    assert!(report.is_sound() && !report.is_absent());
}

#[tokio::test(start_paused = true)]
async fn a_lagging_latest_is_noted() {
    let log = Log::legacy().await;
    log.latest("3").await;
    let report = log.audit().await;
    assert_eq!(report.faults.listed(), []);
    assert!(report.notes.iter().any(|note| note.contains("latest lags")), "{:?}", report.notes);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_gone_is_noted_where_a_snapshot_is_in_the_catalogue() {
    for log in [Log::ours().await, Log::cut_over().await] {
        log.remove(&keys().batch(BatchId::new(1))).await;
        log.remove(&keys().legacy_entry(Seq::new(1))).await;
        assert!(!log.audit().await.is_sound());
        log.put_key(&keys().snapshot("s1"), "an entry of the catalogue").await;
        let report = log.audit().await;
        assert_eq!(report.faults.listed(), []);
        assert!(report.notes.iter().any(|note| note.contains("was not checked")), "{:?}", report.notes);
    }
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_the_number_of_keys() {
    let log = Log::mixed().await;
    let storage = BatchStorage::open_for_reading(log.kv.clone(), keys());
    let mut seen = Vec::new();
    let report = audit(&storage, &options(), &mut |progress| seen.push(*progress)).await.unwrap();
    assert!(seen.len() > 3, "{seen:?}");
    assert!(seen.windows(2).all(|two| two[0].keys <= two[1].keys));
    let last = seen.last().unwrap();
    assert_eq!((last.keys, last.faults), (report.keys, 0));
    assert!(last.expected_keys >= last.keys);
}
