//! Owns the tests of the key layout.

use ha_types::{BatchId, ClusterId, Seq};
use proptest::prelude::*;

use super::{LogKey, LogKeys};

fn keys(cluster: &str) -> LogKeys {
    LogKeys::of(&ClusterId::new(cluster).unwrap())
}

fn inside(range: &(bytes::Bytes, bytes::Bytes), key: &[u8]) -> bool {
    range.0[..] <= *key && *key < range.1[..]
}

#[test]
fn keys_are_the_rfcs() {
    let keys = keys("c1");
    assert_eq!(keys.durable_prefix(), "/oplog/c1/durable_prefix");
    assert_eq!(keys.batch(BatchId::new(42)), "/oplog/c1/batches/00000000000000000042");
    assert_eq!(keys.legacy_latest(), "/oplog/c1/latest");
    assert_eq!(keys.producer_view(), "/oplog/c1/producer_view");
    assert_eq!(keys.leader(), "/plimsoll/c1/leader");
    assert_eq!(keys.snapshot("s1"), "/plimsoll/c1/snapshots/s1");
}

#[test]
fn the_root_is_configurable_and_checked() {
    let cluster = ClusterId::new("c").unwrap();
    for (root, prefix) in [
        ("/oplog", "/oplog/c/durable_prefix"),
        ("/oplog/", "/oplog/c/durable_prefix"),
        ("mooncake-store/oplog", "mooncake-store/oplog/c/durable_prefix"),
        ("/plimsoll2", "/plimsoll2/c/durable_prefix"),
    ] {
        assert_eq!(LogKeys::new(root, &cluster).unwrap().durable_prefix(), prefix);
    }
    let long = "x".repeat(LogKeys::MAX_ROOT_BYTES + 1);
    for root in ["", "/", "//", "a//b", "/oplog//", "op log", "/\u{e9}", "/plimsoll", "/plimsoll/x/", "a\0b", &long] {
        let error = LogKeys::new(root, &cluster).unwrap_err();
        assert!(error.to_string().contains("give a path such as"), "{error}");
    }
}

#[test]
fn what_a_key_is_is_told_by_its_exact_shape() {
    let keys = keys("c");
    for (rest, expected) in [
        ("durable_prefix", LogKey::DurablePrefix),
        ("latest", LogKey::LegacyLatest),
        ("producer_view", LogKey::ProducerView),
        ("snapshot/20260719/sequence_id", LogKey::LegacySnapshot),
        ("batches/00000000000000000042", LogKey::Batch(BatchId::new(42))),
        ("batches/18446744073709551615", LogKey::Batch(BatchId::new(u64::MAX))),
        ("00000000000000000007", LogKey::LegacyEntry(Seq::new(7))),
        ("batches/18446744073709551616", LogKey::Unknown),
        ("batches/99999999999999999999", LogKey::Unknown),
        ("batches/0000000000000000042", LogKey::Unknown),
        ("batches/000000000000000000042", LogKey::Unknown),
        ("batches/+0000000000000000042", LogKey::Unknown),
        ("batches/0000000000000000004x", LogKey::Unknown),
        ("batches/", LogKey::Unknown),
        ("batches", LogKey::Unknown),
        ("0000000000000000007", LogKey::Unknown),
        ("durable_prefix2", LogKey::Unknown),
        ("", LogKey::Unknown),
    ] {
        assert_eq!(keys.classify(format!("/oplog/c/{rest}").as_bytes()), expected, "{rest}");
    }
    assert_eq!(keys.classify(b"/oplog/d/durable_prefix"), LogKey::Unknown);
}

#[test]
fn l15_cluster_a_never_sees_a2_ab_or_a_dot_b() {
    let a = keys("a");
    let ranges = [a.whole_log(), a.all_batches(), a.snapshots(), a.batch_range(BatchId::ZERO, BatchId::new(u64::MAX))];
    for other in ["a2", "ab", "a.b", "a-b", "a_b", "A", "b", "0"] {
        let other = keys(other);
        let foreign =
            [other.durable_prefix(), other.batch(BatchId::new(1)), other.legacy_latest(), other.snapshot("1")];
        for key in &foreign {
            assert!(ranges.iter().all(|range| !inside(range, key)), "{key:?}");
            assert_eq!(a.classify(key), LogKey::Unknown);
        }
    }
    let own = [a.durable_prefix(), a.batch(BatchId::new(1)), a.legacy_latest()];
    assert!(own.iter().all(|key| inside(&a.whole_log(), key)));
    assert!(inside(&a.snapshots(), &a.snapshot("1")));
}

#[test]
fn the_ends_of_the_numbers_are_in_a_range_too() {
    let keys = keys("c");
    let (zero, last) = (BatchId::ZERO, BatchId::new(u64::MAX));
    assert!(inside(&keys.batch_range(zero, last), &keys.batch(last)));
    assert!(!inside(&keys.batch_range(zero, last), &keys.batch(zero)));
    let (start, end) = keys.batch_range(last, last);
    assert!(start >= end, "nothing comes after the last");
}

proptest! {
    #[test]
    fn padded_ids_keep_numeric_order_and_ranges_are_exact(a: u64, b: u64, c: u64) {
        let keys = keys("c");
        let [ka, kb, kc] = [a, b, c].map(|id| keys.batch(BatchId::new(id)));
        prop_assert_eq!(ka.cmp(&kb), a.cmp(&b));
        prop_assert_eq!(keys.classify(&ka), LogKey::Batch(BatchId::new(a)));
        let range = keys.batch_range(BatchId::new(a), BatchId::new(b));
        prop_assert_eq!(inside(&range, &kc), a < c && c <= b);
    }

    #[test]
    fn no_key_panics(key: Vec<u8>, tail: Vec<u8>) {
        let keys = keys("c");
        let _ = keys.classify(&key);
        let _ = keys.classify(&[b"/oplog/c/batches/", &tail[..]].concat());
    }
}
