//! Owns the tests of reading the legacy log: what a scan sees, `latest`, snapshots, clean-up, the base and the alarm above it.

use std::sync::Arc;

use ha_kv::faulty::{Fault, FaultyKv, OpKind};
use ha_kv::{Capabilities, Kv, KvErrorKind, MemoryKv, TxnKv};
use ha_types::{BatchId, Seq};
use oplog_core::legacy::{LegacyLog, base_of, entry_above_base};
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, LogError, LogKeys};

use crate::support::{entry, fault, fill, keys, log, put, seq};

async fn seqs(log: &LegacyLog, after: u64, through: u64) -> Vec<u64> {
    let (mut scan, mut all) = (log.scan(seq(after), seq(through), 64), Vec::new());
    loop {
        let page = scan.next_page().await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page.iter().map(|(seq, _)| seq.get()));
    }
}

/// Everything that is no entry of cluster `a` and lies near one.
async fn put_strays(kv: &MemoryKv) {
    for rest in [
        "0000000000000000001",
        "000000000000000000012",
        "000000000000000000020",
        "0000000000000000002x",
        "00000000000000000003/x",
        "18446744073709551616",
        "99999999999999999999",
        "latest",
        "snapshot/s1/sequence_id",
        "batches/00000000000000000001",
        "durable_prefix2",
    ] {
        kv.put(format!("/oplog/a/{rest}").as_bytes(), "5".into()).await.unwrap();
    }
    for other in ["a2", "ab", "a.b", "a-b", "A", "0"] {
        fill(kv, &keys(other), [2, 7], Some(7)).await;
    }
}

#[tokio::test]
async fn l15_a_scan_sees_the_entries_of_its_cluster_and_nothing_else() {
    let kv = Arc::new(MemoryKv::new());
    let keys = keys("a");
    put_strays(&kv).await;
    let log = log(&kv, &keys);
    assert_eq!(seqs(&log, 0, u64::MAX).await, Vec::<u64>::new());
    assert_eq!(log.first_entry(Seq::ZERO).await.unwrap(), None);
    fill(&*kv, &keys, [1, 2, 3, 12, u64::MAX], None).await;
    assert_eq!(seqs(&log, 0, u64::MAX).await, vec![1, 2, 3, 12, u64::MAX]);
    assert_eq!(seqs(&log, 1, 3).await, vec![2, 3]);
    assert_eq!(seqs(&log, 3, 3).await, Vec::<u64>::new());
    assert_eq!(seqs(&log, 12, u64::MAX).await, vec![u64::MAX]);
    assert_eq!(log.first_entry(seq(3)).await.unwrap(), Some(seq(12)));
    assert_eq!(log.first_entry(seq(u64::MAX)).await.unwrap(), None);
}

#[tokio::test]
async fn l15_the_root_is_a_setting() {
    let kv = Arc::new(MemoryKv::new());
    let cluster = ha_types::ClusterId::new("c").unwrap();
    let other = LogKeys::new("mooncake-store/oplog", &cluster).unwrap();
    fill(&*kv, &other, [1, 2], Some(2)).await;
    assert_eq!(seqs(&log(&kv, &other), 0, 9).await, vec![1, 2]);
    assert_eq!(seqs(&log(&kv, &keys("c")), 0, 9).await, Vec::<u64>::new());
    assert_eq!(other.old_master_view(), "mooncake-store/c/master_view");
}

/// W6 for this log: no page above what the store answers at once, whatever the caller asks for.
#[tokio::test]
async fn scans_are_paged_by_bytes() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    for n in 1..=20 {
        let mut large = entry(n);
        large.payload = vec![7; 3000].into();
        put(&*kv, &keys, &large).await;
    }
    let client = FaultyKv::new(kv.clone(), 1);
    let small = Capabilities { max_value_bytes: 5000, max_reply_bytes: 20_000, ..kv.capabilities() };
    client.declare(Some(small));
    let log = LegacyLog::new(client.clone(), keys);
    let mut scan = log.scan(Seq::ZERO, seq(u64::MAX), usize::MAX);
    let (mut entries, mut pages) = (0, 0);
    loop {
        let page = scan.next_page().await.unwrap();
        if page.is_empty() {
            break;
        }
        let bytes: usize = page.iter().map(|(_, value)| value.len()).sum();
        assert!(bytes <= 20_000, "{bytes} bytes in one page");
        (entries, pages) = (entries + page.len(), pages + 1);
    }
    assert_eq!(entries, 20);
    assert!(pages >= 4 && client.calls(OpKind::Range) == pages, "{pages} pages");
}

#[tokio::test]
async fn an_error_of_the_store_is_no_end_of_the_log() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=3, None).await;
    let client = FaultyKv::new(kv, 1);
    let log = LegacyLog::new(client.clone(), keys);
    let mut scan = log.scan(Seq::ZERO, seq(9), 1 << 20);
    client.script(OpKind::Range, Fault::FailBefore(KvErrorKind::Timeout));
    assert!(matches!(scan.next_page().await, Err(LogError::Store(_))));
    assert_eq!(scan.next_page().await.unwrap().len(), 3, "the same page again");
    assert!(scan.next_page().await.unwrap().is_empty());
}

#[tokio::test]
async fn latest_that_is_missing_beside_entries_or_no_number_is_refused() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let log = log(&kv, &keys);
    assert_eq!(log.latest().await.unwrap(), Seq::ZERO, "an empty log ends at zero");
    fill(&*kv, &keys, [1], None).await;
    assert_eq!(log.read_latest().await.unwrap(), None);
    let missing = fault(log.latest().await.unwrap_err());
    assert_eq!((missing.kind, missing.key.as_str()), (FaultKind::LegacyLatest, "/oplog/c/latest"));
    assert!(missing.found.contains("beside entry 1"), "{missing}");
    for bad in ["", "x", "007", "1.0", "18446744073709551616"] {
        kv.put(&keys.legacy_latest(), bad.into()).await.unwrap();
        let wrong = fault(log.latest().await.unwrap_err());
        assert_eq!((wrong.kind, wrong.found), (FaultKind::LegacyLatest, format!("\"{bad}\"")));
    }
    fill(&*kv, &keys, [], Some(1)).await;
    assert_eq!(log.latest().await.unwrap(), seq(1));
}

#[tokio::test]
async fn snapshots_of_the_original_are_listed_with_what_is_wrong_with_them() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c1"));
    for (key, value) in [
        ("/oplog/c1/snapshot/20260719_101500_000/sequence_id", "4"),
        ("/oplog/c1/snapshot/20260720_101500_000/sequence_id", "four"),
        ("/oplog/c1/snapshot/20260720_101500_000/other", "1"),
        ("/oplog/c1/snapshot/a/b/sequence_id", "1"),
        ("/oplog/c1/snapshot2/x/sequence_id", "1"),
        ("/oplog/c2/snapshot/x/sequence_id", "1"),
    ] {
        kv.put(key.as_bytes(), value.into()).await.unwrap();
    }
    let snapshots = log(&kv, &keys).snapshots().await.unwrap();
    let ids: Vec<_> = snapshots.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["20260719_101500_000", "20260720_101500_000"]);
    assert_eq!(snapshots[0].sequence, Ok(seq(4)));
    let bad = snapshots[1].sequence.clone().unwrap_err();
    assert_eq!(bad.key, "/oplog/c1/snapshot/20260720_101500_000/sequence_id");
}

#[tokio::test]
async fn l15_clean_up_removes_entries_by_ranges_and_nothing_that_is_none() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("a"));
    put_strays(&kv).await;
    fill(&*kv, &keys, 1..=30, Some(30)).await;
    let all = async || kv.range(b"/", b"0", ha_kv::RangeLimit::pairs(1000)).await.unwrap().pairs;
    let before = all().await;
    let client = FaultyKv::new(kv.clone(), 1);
    let log = LegacyLog::new(client.clone(), keys.clone());
    let refused = log.clean_up(seq(31)).await.unwrap_err();
    assert!(matches!(&refused, LogError::Refused(why) if why.contains("30")), "{refused}");
    assert_eq!(all().await, before, "a refusal changes nothing");
    client.script(OpKind::DeleteRange, Fault::FailAfter(KvErrorKind::Timeout));
    assert!(log.clean_up(seq(25)).await.is_err(), "a lost reply is said");
    let removed = log.clean_up(seq(25)).await.unwrap();
    assert!(removed < 25, "the first range was gone already");
    assert!(client.calls(OpKind::DeleteRange) < 10, "ranges, not keys");
    assert_eq!(log.clean_up(seq(25)).await.unwrap(), 0);
    assert_eq!(seqs(&log, 0, u64::MAX).await, (26..=30).collect::<Vec<_>>());
    let gone = |key: &[u8]| keys.legacy_seq(key).is_some_and(|s| s <= seq(25));
    let kept: Vec<_> = before.into_iter().filter(|pair| !gone(&pair.key)).collect();
    assert_eq!(all().await, kept);
}

fn prefix(batch_id: u64, last_seq: u64) -> DurablePrefix {
    let (epoch, owner) = match batch_id {
        0 => (0, 0),
        _ => (1, 7),
    };
    DurablePrefix {
        epoch: oplog_core::Epoch::new(epoch),
        owner: oplog_core::Owner::new(owner),
        batch_id: BatchId::new(batch_id),
        last_seq: seq(last_seq),
    }
}

#[tokio::test]
async fn the_base_is_last_seq_then_the_entry_before_batch_1_then_a_snapshots() {
    use oplog_core::record::{BatchHeader, OpenBatch};
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let storage = BatchStorage::open_for_reading(kv.clone() as Arc<dyn TxnKv>, keys.clone());
    assert_eq!(base_of(&storage, &prefix(0, 41)).await.unwrap(), seq(41));
    let gone = fault(base_of(&storage, &prefix(2, 50)).await.unwrap_err());
    assert_eq!(gone.kind, FaultKind::BaseNotHeld);
    let mut batch = OpenBatch::new();
    batch.push(&oplog_core::NewEntry { op_type: 1, tenant: "default", key: b"k", payload: b"p" }).unwrap();
    let header = BatchHeader {
        batch_id: BatchId::new(1),
        first_seq: seq(42),
        epoch: oplog_core::Epoch::new(1),
        prev_crc: 0,
        timestamp_ms: 1,
    };
    let record = batch.seal(header).unwrap().bytes;
    kv.put(&keys.batch(BatchId::new(1)), record.clone()).await.unwrap();
    assert_eq!(base_of(&storage, &prefix(2, 50)).await.unwrap(), seq(41));
    kv.put(&keys.batch(BatchId::new(1)), record.slice(1..)).await.unwrap();
    let broken = fault(base_of(&storage, &prefix(2, 50)).await.unwrap_err());
    assert_eq!(broken.kind, FaultKind::BatchUndecodable);
}

#[tokio::test]
async fn an_entry_above_the_base_is_named() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let log = log(&kv, &keys);
    fill(&*kv, &keys, 1..=5, Some(5)).await;
    assert_eq!(entry_above_base(&log, seq(5)).await.unwrap(), None);
    fill(&*kv, &keys, [9], None).await;
    let alarm = entry_above_base(&log, seq(5)).await.unwrap().unwrap();
    assert_eq!((alarm.kind, alarm.seq), (FaultKind::LegacyAboveBase, Some(seq(9))));
    let text = alarm.to_string();
    assert!(
        text.contains("/oplog/c/00000000000000000009") && text.contains("base 5") && text.contains("\"key\""),
        "{text}"
    );
    kv.put(&keys.legacy_entry(seq(7)), "{}".into()).await.unwrap();
    let alarm = entry_above_base(&log, seq(5)).await.unwrap().unwrap();
    assert!(alarm.seq == Some(seq(7)) && alarm.found.contains("cannot be read"), "{alarm}");
}
