//! Tests of what is the memory store's alone: leases judged at each call, hints for its range only. The rest is conformance.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_types::ManualClock;

use super::MemoryKv;
use crate::{Kv, KvErrorKind, LeaseKv, PutIfAbsent, RangeLimit, WatchKv};

const TTL: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_lease_takes_its_keys_at_its_end_to_the_nanosecond() {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryKv::with_clock(clock.clone());
    let (lease, _) = store.grant(TTL).await.expect("granted");
    for key in [&b"a"[..], b"b"] {
        assert_eq!(store.put_if_absent(key, Bytes::from("v"), lease).await.expect("put"), PutIfAbsent::Put);
    }
    let mut hints = store.watch(b"a", b"c").await.expect("watch");
    clock.advance(TTL - Duration::from_nanos(1));
    assert!(store.get(b"a").await.expect("read").is_some());
    clock.advance(Duration::from_nanos(1));
    // Whichever call comes first sees the end.
    let page = store.range(b"a", b"c", RangeLimit::pairs(9)).await.expect("read");
    assert!(page.pairs.is_empty(), "{page:?}");
    hints.changed().await.expect("the end of a lease is a change");
    assert_eq!(store.keep_alive(lease).await.expect_err("ran out").kind, KvErrorKind::LeaseNotFound);
}

#[tokio::test]
async fn without_a_clock_no_lease_runs_out() {
    let store = MemoryKv::new();
    let (lease, _) = store.grant(Duration::from_millis(1)).await.expect("granted");
    assert_eq!(store.put_if_absent(b"k", Bytes::new(), lease).await.expect("put"), PutIfAbsent::Put);
    store.keep_alive(lease).await.expect("alive");
    store.revoke(lease).await.expect("revoked");
    assert_eq!(store.get(b"k").await.expect("read"), None);
}

#[tokio::test]
async fn hints_are_for_the_watched_range() {
    let store = MemoryKv::new();
    let mut hints = store.watch(b"b", b"d").await.expect("watch");
    for key in [&b"a"[..], b"d", b"e"] {
        store.put(key, Bytes::new()).await.expect("put");
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(20), hints.changed()).await.is_err(),
        "a hint for another range"
    );
    store.put(b"c\xff", Bytes::new()).await.expect("put");
    hints.changed().await.expect("a hint");
}
