//! Each kind of damage, one at a time: the audit names that key, what had to be there and what is, and nothing else.

use ha_types::{BatchId, Epoch, Seq};
use oplog_core::DurablePrefix;
use oplog_core::audit::AuditOptions;
use oplog_core::legacy::LegacyEntry;
use oplog_core::mooncake::encode;

use crate::kit::{Log, audit_of, batch_key, faults, options};
use crate::support::keys;

/// The one fault: kind, key, and words of what was expected and found.
async fn only(log: &Log, kind: &str, key: &str, expected: &str, found: &str) {
    let report = log.audit().await;
    assert_eq!(faults(&report), [(kind, key.to_owned())], "{:?}", report.faults.listed());
    let fault = &report.faults.listed()[0];
    assert!(fault.expected.contains(expected), "{}: {}", kind, fault.expected);
    assert!(fault.found.contains(found), "{}: {}", kind, fault.found);
    assert_eq!((report.faults.total(), report.faults.by_kind().get(kind)), (1, Some(&1)));
}

fn entry_key(n: u64) -> String {
    format!("{n:020}")
}

#[tokio::test(start_paused = true)]
async fn l1_l2_l16_each_fault_of_a_batch_is_named_alone() {
    let mut log = Log::ours().await;
    log.batch(1, &|h| h.first_seq = Seq::new(13)).await;
    only(&log, "sequence_gap", &batch_key(6), "the entry after 10", "entry 13").await;

    let mut log = Log::ours().await;
    let crc = log.crc;
    log.batch(1, &|h| h.prev_crc ^= 1).await;
    only(&log, "broken_chain", &batch_key(6), &format!("{crc:08x}"), &format!("{:08x}", crc ^ 1)).await;

    let mut log = Log::ours().await;
    log.batch(1, &|h| h.epoch = Epoch::new(2)).await;
    only(&log, "wrong_epoch", &batch_key(6), "epoch 3 or higher", "epoch 2").await;

    let mut log = Log::ours().await;
    log.batch(1, &|h| h.epoch = Epoch::new(4)).await;
    only(&log, "wrong_epoch", &batch_key(6), "no epoch above the durable prefix's 3", "epoch 4").await;

    let mut log = Log::ours().await;
    log.batch(1, &|h| (h.batch_id, h.first_seq) = (BatchId::new(9), Seq::new(11))).await;
    only(&log, "wrong_batch_id", &batch_key(6), "the record of batch 6", "batch 9").await;

    let log = Log::ours().await;
    log.remove(&keys().batch(BatchId::new(3))).await;
    only(&log, "batch_missing", &batch_key(3), "batch 3, between 2 and 4", "no such key").await;

    let log = Log::ours().await;
    log.remove(&keys().batch(BatchId::new(1))).await;
    only(&log, "batch_missing", &batch_key(1), "batch 1", "no such key").await;

    let log = Log::ours().await;
    log.remove(&keys().batch(BatchId::new(5))).await;
    only(&log, "batch_missing", &batch_key(5), "as the durable prefix is at batch 5", "no such key").await;

    for log in [Log::ours().await, Log::compressed().await] {
        let key = keys().batch(BatchId::new(2));
        let mut value = log.value(&key).await.to_vec();
        *value.last_mut().unwrap() ^= 4;
        log.put_key(&key, value).await;
        only(&log, "batch_undecodable", &batch_key(2), "at byte 6", "").await;
    }

    let log = Log::taken_over().await;
    log.put_key(&keys().batch(BatchId::new(3)), encode::sealed(r#"[1,3,5,5,[[1,"default","b","dmFsdWU"]]"#)).await;
    only(&log, "batch_undecodable", &batch_key(3), "padded standard base64", "").await;
}

#[tokio::test(start_paused = true)]
async fn l2_each_fault_of_the_prefix_is_named_alone() {
    let mut log = Log::ours().await;
    log.prefix.last_seq = Seq::new(11);
    log.put_prefix().await;
    only(&log, "sequence_gap", "durable_prefix", "last_seq 10, where batch 5 ends", "last_seq 11").await;

    let mut log = Log::ours().await;
    (log.prefix.batch_id, log.prefix.last_seq) = (BatchId::new(4), Seq::new(8));
    log.put_prefix().await;
    only(&log, "applied_above_prefix", &batch_key(5), "no batch above the durable prefix's 4", "batch 5").await;

    let log = Log::ours().await;
    log.put_key(&keys().durable_prefix(), "schema_version=1 epoch=7").await;
    only(&log, "prefix_undecodable", "durable_prefix", "owner", "").await;

    for log in [Log::ours().await, Log::cut_over().await, Log::mooncakes().await] {
        log.remove(&keys().durable_prefix()).await;
        only(&log, "prefix_missing", "durable_prefix", "as there is batch 1", "no such key").await;
    }

    let log = Log::empty();
    log.put_key(&keys().producer_view(), "7").await;
    only(&log, "prefix_missing", "durable_prefix", "producer view", "no such key").await;

    let log = Log::empty();
    log.put_key(&keys().snapshot("s1"), "an entry of the catalogue").await;
    only(&log, "prefix_missing", "durable_prefix", "a snapshot", "no such key").await;

    for view in ["", "07", "seven", "-1"] {
        let log = Log::taken_over().await;
        log.put_key(&keys().producer_view(), view).await;
        only(&log, "foreign_state", "producer_view", "a decimal", view).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l15_keys_that_belong_to_nothing_are_named_each() {
    for stray in [
        "batches/0000000000000000001",
        "batches/000000000000000000001",
        "batches/00000000000000000000",
        "batches/99999999999999999999",
        "batches/00000000000000000002x",
        "0000000000000000001",
        "000000000000000000001",
        "00000000000000000000",
        "99999999999999999999",
        "",
        "readme",
        "latest/x",
        "snapshot/x",
        "snapshot//sequence_id",
        "snapshot/a/b/sequence_id",
    ] {
        for log in [Log::cut_over().await, Log::ours().await] {
            log.put_key(format!("/oplog/c1/{stray}").as_bytes(), "value").await;
            only(&log, "stray_key", stray, "", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn l14_each_fault_of_the_legacy_log_is_named_alone() {
    let log = Log::legacy().await;
    log.remove(&keys().legacy_entry(Seq::new(3))).await;
    only(&log, "legacy_gap", &entry_key(3), "entry 3", "no such key").await;

    for log in [Log::legacy().await, Log::cut_over().await] {
        for n in [2, 3, 4] {
            log.remove(&keys().legacy_entry(Seq::new(n))).await;
        }
        only(&log, "legacy_gap", &entry_key(2), "entry 2", "none up to entry 4").await;
        let accepted = audit_of(log.kv.clone(), &AuditOptions { accept_holes: true, ..options() }).await;
        assert_eq!(accepted.faults.listed(), []);
        assert!(accepted.notes.iter().any(|note| note.contains("entries 2 to 4")), "{:?}", accepted.notes);
    }

    let log = Log::legacy().await;
    log.latest("7").await;
    only(&log, "legacy_gap", &entry_key(6), "entry 6", "none up to entry 7").await;

    let log = Log::cut_over().await;
    log.remove(&keys().legacy_entry(Seq::new(5))).await;
    only(&log, "legacy_gap", &entry_key(5), "entry 5", "no such key").await;

    let log = Log::legacy().await;
    log.remove(&keys().legacy_entry(Seq::new(1))).await;
    only(&log, "legacy_start_gone", &entry_key(1), "a snapshot of ours", "no such key").await;

    let log = Log::legacy().await;
    log.remove(&keys().legacy_latest()).await;
    only(&log, "legacy_latest", "latest", "in decimal", "beside entry 5").await;

    for latest in ["", "05", "five"] {
        let log = Log::legacy().await;
        log.latest(latest).await;
        only(&log, "legacy_latest", "latest", "decimal digits", latest).await;
    }

    let log = Log::legacy().await;
    let snapshot = "snapshot/20260719_101500_000/sequence_id";
    log.put_key(format!("/oplog/c1/{snapshot}").as_bytes(), "four").await;
    only(&log, "legacy_latest", snapshot, "decimal digits", "four").await;

    let log = Log::legacy().await;
    log.put_key(&keys().legacy_entry(Seq::new(2)), Log::entry_at(3).encode()).await;
    only(&log, "legacy_undecodable", &entry_key(2), "sequence_id: 2", "3").await;

    let log = Log::legacy().await;
    let fallen = LegacyEntry { key_sequence_id: Some(4), ..Log::entry_at(5) };
    log.put_key(&keys().legacy_entry(Seq::new(5)), fallen.encode()).await;
    only(&log, "legacy_key_sequence", &entry_key(5), "above 4", "4").await;

    let log = Log::cut_over().await;
    log.entry(6).await;
    only(&log, "legacy_above_base", &entry_key(6), "no legacy entry above the base 5", "entry 6: op type 1").await;

    let log = Log::cut_over().await;
    log.put_key(&keys().legacy_entry(Seq::new(8)), "garbage").await;
    only(&log, "legacy_above_base", &entry_key(8), "no legacy entry above the base 5", "cannot be read").await;
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_cut_over_without_a_batch_is_judged_at_its_base() {
    let mut log = Log::legacy().await;
    log.prefix = DurablePrefix { last_seq: Seq::new(4), ..DurablePrefix::FRESH };
    log.put_prefix().await;
    only(&log, "legacy_above_base", &entry_key(5), "no legacy entry above the base 4", "entry 5").await;
    log.prefix.last_seq = Seq::new(6);
    log.put_prefix().await;
    only(&log, "legacy_gap", &entry_key(6), "entry 6", "no such key").await;
}

#[tokio::test(start_paused = true)]
async fn the_audit_goes_on_after_every_fault_and_lists_no_more_than_it_may() {
    let log = Log::mixed().await;
    log.remove(&keys().legacy_entry(Seq::new(2))).await;
    log.put_key(&keys().legacy_entry(Seq::new(4)), "garbage").await;
    log.put_key(&keys().batch(BatchId::new(1)), "garbage").await;
    log.remove(&keys().batch(BatchId::new(3))).await;
    for n in 0..50 {
        log.put_key(format!("/oplog/c1/stray-{n}").as_bytes(), "").await;
    }
    let report = audit_of(log.kv.clone(), &AuditOptions { max_faults: 7, ..options() }).await;
    let counts: Vec<_> = report.faults.by_kind().iter().map(|(kind, count)| (*kind, *count)).collect();
    let wanted = [
        ("batch_missing", 1),
        ("batch_undecodable", 1),
        ("legacy_gap", 1),
        ("legacy_undecodable", 1),
        ("stray_key", 50),
    ];
    assert_eq!(counts, wanted);
    assert_eq!((report.faults.total(), report.faults.listed().len(), report.faults.unlisted()), (54, 7, 47));
    assert_eq!(report.stray_keys, 50);
}

#[tokio::test(start_paused = true)]
async fn more_holes_than_wait_for_a_second_look_are_all_named() {
    let log = Log::empty();
    for n in (1..=401).step_by(2) {
        log.entry(n).await;
    }
    log.latest("401").await;
    let report = log.audit().await;
    assert_eq!(report.faults.by_kind().get("legacy_gap"), Some(&200));
    let mut keys: Vec<_> = faults(&report).into_iter().map(|(_, key)| key).collect();
    keys.sort();
    assert_eq!(keys, (2..=400).step_by(2).map(entry_key).collect::<Vec<_>>());
    let accepted = audit_of(log.kv.clone(), &AuditOptions { accept_holes: true, ..options() }).await;
    assert!(accepted.is_sound());
    assert_eq!((accepted.legacy.accepted_holes, accepted.notes.len()), (200, 64), "no list grows without end");
}
