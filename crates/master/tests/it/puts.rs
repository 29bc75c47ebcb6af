//! Put start, end and revoke, get and exists: every good and bad path.

use crate::kit::*;
use master::{ClientId, MasterError, Promise, PutStart};

#[tokio::test]
async fn an_object_is_put_read_and_removed() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0x1000, 4096).await;
    let grant = node.start("k", 100).unwrap();
    assert_eq!(grant.grant_ms, 2000);
    assert_eq!((grant.replicas[0].address, grant.replicas[0].length), (0x1000, 100));
    assert_eq!(&*grant.replicas[0].endpoint, "host:1");
    assert_eq!(code(node.get("k")), "REPLICA_IS_NOT_READY");
    assert!(!node.master.exists(&tenant(), &key("k")).unwrap());
    node.end("k", &grant, Promise::Durable).await.unwrap();
    let got = node.get("k").unwrap();
    assert_eq!((got.incarnation, got.size, &got.replicas), (grant.incarnation, 100, &grant.replicas));
    assert_eq!(got.lease_ms, 5000);
    assert!(node.master.exists(&tenant(), &key("k")).unwrap());
    node.remove("k", Promise::Durable).await.unwrap();
    assert_eq!(code(node.get("k")), "OBJECT_NOT_FOUND");
    assert_eq!(code(node.remove("k", Promise::Durable).await), "OBJECT_NOT_FOUND");
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

#[tokio::test]
async fn sizes_and_replica_counts_out_of_range_are_refused() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    assert_eq!(code(node.start("k", 1)), "NO_AVAILABLE_SPACE");
    node.mount("s", 0, 1 << 20).await;
    for size in [0, u64::MAX, (1 << 40) + 1] {
        let error = node.start("k", size).unwrap_err();
        assert_eq!(error.code(), "INVALID", "{size}");
        assert!(error.to_string().contains(&size.to_string()), "{error}");
    }
    for replicas in [0, 9] {
        assert_eq!(code(node.master.put_start(&PutStart { replicas, ..put("k", 1) })), "INVALID");
    }
    let two = node.master.put_start(&PutStart { replicas: 2, ..put("k", 1) }).unwrap_err();
    assert_eq!(two.code(), "NO_AVAILABLE_SPACE");
    assert!(two.to_string().contains("1 of 1 mounted segments"), "{two}");
    assert_eq!(code(node.start("k", (1 << 20) + 1)), "NO_AVAILABLE_SPACE");
    let stats = node.master.stats();
    assert_eq!(
        (stats.tenants, stats.running_puts, stats.free_bytes),
        (0, 0, 1 << 20),
        "refused calls changed nothing (M5)"
    );
}

#[tokio::test]
async fn replicas_lie_in_different_segments() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    for (i, id) in ["a", "b", "c"].into_iter().enumerate() {
        node.mount(id, i as u64 * 1000, 1000).await;
    }
    let grant = node.master.put_start(&PutStart { replicas: 3, ..put("k", 10) }).unwrap();
    let mut ids: Vec<_> = grant.replicas.iter().map(|r| r.segment.as_str().to_owned()).collect();
    ids.sort();
    assert_eq!(ids, ["a", "b", "c"]);
    node.end("k", &grant, Promise::Durable).await.unwrap();
    assert_eq!(node.get("k").unwrap().replicas.len(), 3);
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    assert_space_adds_up(&node.master, &[]);
}

#[tokio::test]
async fn a_key_that_exists_or_is_being_written_is_not_put_again() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.start("k", 10).unwrap();
    assert_eq!(code(node.start("k", 10)), "OBJECT_ALREADY_EXISTS");
    node.end("k", &grant, Promise::Durable).await.unwrap();
    assert_eq!(code(node.start("k", 10)), "OBJECT_ALREADY_EXISTS");
    assert_space_adds_up(&node.master, &[]);
}

#[tokio::test]
async fn put_end_twice_succeeds_and_is_logged_once() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.put("k", 10).await;
    let committed = node.master.writer().metrics().committed;
    node.end("k", &grant, Promise::Durable).await.unwrap();
    assert_eq!(node.master.writer().metrics().committed, committed);
    // And at the next primary, whose predecessor's reply was lost.
    let next = cluster.promote().await;
    next.end("k", &grant, Promise::Durable).await.unwrap();
    assert_eq!(
        code(next.master.put_end(&tenant(), &key("k"), grant.incarnation, ClientId::new(1), Promise::Durable).await),
        "WRONG_OWNER"
    );
}

#[tokio::test]
async fn a_repeated_put_end_waits_for_the_entry_of_the_first() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.start("k", 10).unwrap();
    node.hold();
    node.end("k", &grant, Promise::Accepted).await.unwrap();
    let again = node.end("k", &grant, Promise::Durable);
    tokio::pin!(again);
    let early = tokio::time::timeout(std::time::Duration::from_millis(50), &mut again).await;
    assert!(early.is_err(), "answered durable before it was: {early:?}");
    node.release().await;
    again.await.unwrap();
    assert!(cluster.fold_contents().await.objects.contains_key(&(tenant(), key("k"))));
}

#[tokio::test]
async fn another_owner_neither_ends_nor_revokes() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.start("k", 10).unwrap();
    let other = ClientId::new(78);
    let end = node.master.put_end(&tenant(), &key("k"), grant.incarnation, other, Promise::Durable).await;
    assert_eq!(code(end), "WRONG_OWNER");
    assert_eq!(code(node.master.put_revoke(&tenant(), &key("k"), grant.incarnation, other)), "WRONG_OWNER");
    node.end("k", &grant, Promise::Durable).await.unwrap();
}

#[tokio::test]
async fn after_its_grant_a_put_does_not_end_and_its_range_comes_back_after_the_margin() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 10).await;
    let grant = node.start("k", 10).unwrap();
    cluster.advance(2000);
    assert_eq!(code(node.start("other", 10)), "NO_AVAILABLE_SPACE");
    cluster.advance(1);
    assert_eq!(code(node.end("k", &grant, Promise::Durable).await), "GRANT_EXPIRED");
    assert_eq!(code(node.get("k")), "OBJECT_NOT_FOUND");
    // The writer's clock may run slower: not yet.
    cluster.advance(98);
    assert_eq!(code(node.start("other", 10)), "NO_AVAILABLE_SPACE");
    cluster.advance(1);
    let next = node.start("other", 10).unwrap();
    assert_eq!(node.master.stats().running_puts, 1);
    assert_eq!(code(node.end("k", &grant, Promise::Durable).await), "OBJECT_NOT_FOUND");
    node.end("other", &next, Promise::Durable).await.unwrap();
    assert_space_adds_up(&node.master, &[]);
}

#[tokio::test]
async fn an_expired_put_makes_way_for_another_under_its_key_but_keeps_its_range_for_the_margin() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 20).await;
    let first = node.start("k", 10).unwrap();
    cluster.advance(2050);
    let second = node.start("k", 10).unwrap();
    assert_ne!(first.incarnation, second.incarnation);
    assert_ne!(first.replicas[0].address, second.replicas[0].address);
    assert_eq!(code(node.end("k", &first, Promise::Durable).await), "OBJECT_NOT_FOUND");
    node.end("k", &second, Promise::Durable).await.unwrap();
    let stats = node.master.stats();
    assert_eq!((stats.free_bytes, stats.held_bytes, stats.running_puts), (0, 10, 0));
    cluster.advance(50);
    assert_eq!(node.master.stats().free_bytes, 10);
}

#[tokio::test]
async fn a_revoked_put_is_gone_at_once_and_its_range_when_the_grant_would_have_ended() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 10).await;
    let grant = node.start("k", 10).unwrap();
    node.master.put_revoke(&tenant(), &key("k"), grant.incarnation, CLIENT).unwrap();
    assert_eq!(code(node.get("k")), "OBJECT_NOT_FOUND");
    assert_eq!(code(node.end("k", &grant, Promise::Durable).await), "OBJECT_NOT_FOUND");
    let again = node.master.put_revoke(&tenant(), &key("k"), grant.incarnation, CLIENT);
    assert_eq!(code(again), "OBJECT_NOT_FOUND");
    assert_eq!(code(node.start("k", 10)), "NO_AVAILABLE_SPACE", "what was sent may still arrive");
    cluster.advance(2100);
    let grant = node.start("k", 10).unwrap();
    node.end("k", &grant, Promise::Durable).await.unwrap();
    let ended = node.master.put_revoke(&tenant(), &key("k"), grant.incarnation, CLIENT);
    assert_eq!(code(ended), "OBJECT_ALREADY_EXISTS");
}

#[tokio::test]
async fn leases_out_of_range_and_unknown_objects_are_refused() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    for lease in [0, 30_001] {
        assert_eq!(code(node.master.get(&tenant(), &key("k"), Some(lease))), "INVALID");
        assert_eq!(code(node.master.get(&"nobody".parse().unwrap(), &key("k"), Some(lease))), "INVALID");
    }
    assert_eq!(node.master.get(&tenant(), &key("k"), Some(30_000)).unwrap().lease_ms, 30_000);
    assert!(matches!(node.get("x").unwrap_err(), MasterError::ObjectNotFound { key: k } if k == key("x")));
    assert!(!node.master.exists(&tenant(), &key("x")).unwrap());
}

#[tokio::test]
async fn too_many_puts_at_once_and_too_many_tenants_are_refused() {
    let cluster = Cluster::new();
    let node = cluster
        .promote_with(|env| {
            env.config.max_running_puts = 2;
            env.config.max_tenants = 1;
        })
        .await;
    node.mount("s", 0, 1000).await;
    node.start("a", 10).unwrap();
    node.start("b", 10).unwrap();
    assert_eq!(code(node.start("c", 10)), "RETRY_AFTER");
    cluster.advance(2100);
    node.start("c", 10).unwrap();
    let other = PutStart { tenant: "other".parse().unwrap(), ..put("a", 10) };
    assert_eq!(code(node.master.put_start(&other)), "INVALID");
}
