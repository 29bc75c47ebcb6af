//! Owns keys and ids: a key that is something is the key of exactly that; a root and the ids are what they were read from.

use ha_types::{ClusterId, ObjectKey, SegmentId, TenantId};
use oplog_core::{LogKey, LogKeys};

use super::keys;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "log_keys", run, seeds };

fn run(data: &[u8]) -> Verdict {
    ids(data);
    let keys = keys();
    let kind = bound::within(data.len(), 4, || keys.classify(data));
    let same = match kind {
        LogKey::DurablePrefix => keys.durable_prefix(),
        LogKey::Batch(id) => keys.batch(id),
        LogKey::LegacyEntry(seq) => {
            assert_eq!(keys.legacy_seq(data), Some(seq));
            keys.legacy_entry(seq)
        }
        LogKey::LegacyLatest => keys.legacy_latest(),
        LogKey::ProducerView => keys.producer_view(),
        LogKey::LegacySnapshot => {
            let (start, end) = keys.legacy_snapshots();
            assert!(*start <= *data && *data < *end, "a snapshot's key lies among the snapshots");
            return Verdict::Accepted;
        }
        LogKey::Unknown => return Verdict::Refused("no key of a log".into()),
    };
    assert_eq!(*same, *data, "one key, one thing");
    let (start, end) = keys.whole_log();
    assert!(*start <= *data && *data < *end, "a log's key lies in the log");
    Verdict::Accepted
}

fn ids(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    macro_rules! same {
        ($($id:ty),*) => {$(
            match <$id>::new(text) {
                Ok(id) => assert_eq!(id.as_str(), text),
                Err(e) => drop(Verdict::refused(&e)),
            }
        )*};
    }
    same!(ClusterId, SegmentId, TenantId);
    if let Err(e) = ObjectKey::check(data) {
        Verdict::refused(&e);
    }
    let cluster = ClusterId::new("c").expect("a cluster id");
    match LogKeys::new(text, &cluster) {
        Ok(keys) => {
            let prefix = keys.durable_prefix();
            assert!(prefix.ends_with(b"/c/durable_prefix"), "the cluster is part of its keys: {prefix:?}");
            assert_eq!(keys.classify(&prefix), LogKey::DurablePrefix);
        }
        Err(e) => drop(Verdict::refused(&e)),
    }
}

fn seeds() -> Vec<Seed> {
    vec![
        Seed::good("batch", "/oplog/c1/batches/00000000000000000042"),
        Seed::good("prefix", "/oplog/c1/durable_prefix"),
        Seed::good("legacy_entry", "/oplog/c1/00000000000000000007"),
        Seed::good("latest", "/oplog/c1/latest"),
        Seed::good("view", "/oplog/c1/producer_view"),
        Seed::good("snapshot", "/oplog/c1/snapshot/a/sequence_id"),
        Seed::bad("nineteen_digits", "/oplog/c1/batches/0000000000000000042"),
        Seed::bad("beyond_u64", "/oplog/c1/18446744073709551616"),
        Seed::bad("root", "plimsoll/logs"),
    ]
}
