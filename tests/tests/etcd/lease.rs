//! Leases on a real server (W14).

use std::time::{Duration, Instant};

use ha_kv::{Kv as _, KvErrorKind, LeaseId, LeaseKv as _, PutIfAbsent};
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually};

use crate::support::{BOUND, connect, connect_to, etcd_or_skip, start, text};

#[tokio::test]
async fn a_key_lives_as_long_as_its_lease() {
    let program = etcd_or_skip!("a_key_lives_as_long_as_its_lease");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let (mine, ttl) = kv.grant(Duration::from_millis(100)).await.unwrap();
    assert_eq!(ttl, Duration::from_secs(2), "the server raises it and we say so");
    let (other, _) = kv.grant(Duration::from_secs(60)).await.unwrap();

    assert_eq!(kv.put_if_absent(b"leader", "me".into(), mine).await.unwrap(), PutIfAbsent::Put);
    assert_eq!(kv.put_if_absent(b"leader", "me".into(), mine).await.unwrap(), PutIfAbsent::Put, "asked again");
    let held = PutIfAbsent::Held("me".into());
    assert_eq!(kv.put_if_absent(b"leader", "it".into(), other).await.unwrap(), held);
    assert_eq!(kv.put_if_absent(b"leader", "me".into(), other).await.unwrap(), held, "same value, another lease");
    assert_eq!(kv.put_if_absent(b"leader", "it".into(), mine).await.unwrap(), held, "same lease, another value");

    // Kept alive past its TTL it holds; left alone it goes, and the other lease gets the key.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        kv.keep_alive(mine).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(text(kv.get(b"leader").await.unwrap()).as_deref(), Some("me"));
    eventually("the lease runs out", async || {
        matches!(kv.put_if_absent(b"leader", "it".into(), other).await, Ok(PutIfAbsent::Put)).then_some(())
    })
    .await;
    assert_eq!(kv.keep_alive(mine).await.unwrap_err().kind, KvErrorKind::LeaseNotFound);

    kv.revoke(other).await.unwrap();
    kv.revoke(other).await.expect("a lease that is gone is no error");
    assert_eq!(kv.get(b"leader").await.unwrap(), None);
    let gone = kv.put_if_absent(b"leader", "it".into(), other).await.unwrap_err();
    assert_eq!(gone.kind, KvErrorKind::LeaseNotFound, "{gone}");
    assert_eq!(kv.get(b"leader").await.unwrap(), None, "no key without a lease");
}

#[tokio::test]
async fn w14_keep_alive_on_a_dead_lease_says_so_and_on_a_dead_server_ends() {
    let program = etcd_or_skip!("w14_keep_alive_on_a_dead_lease_says_so_and_on_a_dead_server_ends");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let kv = connect_to([proxy.endpoint()]).await;
    let (lease, _) = kv.grant(Duration::from_secs(30)).await.unwrap();
    kv.keep_alive(lease).await.unwrap();
    for dead in [LeaseId::new(0), LeaseId::new(0x7777), LeaseId::new(u64::MAX)] {
        assert_eq!(kv.keep_alive(dead).await.unwrap_err().kind, KvErrorKind::LeaseNotFound, "{dead:?}");
    }

    // No answer is no verdict on the lease, and it is given in time.
    proxy.set(Direction::ToClient, Flow::Swallow);
    let silent = tokio::time::timeout(BOUND, kv.keep_alive(lease)).await.expect("bounded").unwrap_err();
    assert!(matches!(silent.kind, KvErrorKind::Timeout | KvErrorKind::Unavailable), "{silent}");
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();
    eventually("the lease is kept again", async || kv.keep_alive(lease).await.ok()).await;
    kv.revoke(lease).await.unwrap();
    assert_eq!(kv.keep_alive(lease).await.unwrap_err().kind, KvErrorKind::LeaseNotFound);
}
