//! Remove and batch remove: visibility, finalization, ownership of ranges, what is promised.

use std::time::Duration;

use crate::kit::*;
use master::{MasterError, Promise};

/// A node with one segment, objects `keys` of 10 bytes each, and its next transaction held.
async fn holding(cluster: &Cluster, size: u64, keys: &[&str]) -> Node {
    let node = cluster.promote().await;
    node.mount("s", 0, size).await;
    for k in keys {
        node.put(k, 10).await;
    }
    node.hold();
    node
}

/// Row D1, invariants M1 and M3.
#[tokio::test]
async fn d1_an_object_put_again_before_its_removal_is_durable_survives_the_removal() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 20, &["k"]).await;
    let old = node.get("k").unwrap();
    node.remove("k", Promise::Accepted).await.unwrap();
    assert_eq!(code(node.get("k")), "OBJECT_NOT_FOUND", "M1: invisible from the commit");
    let new = node.start("k", 10).unwrap();
    assert_ne!(new.replicas[0].address, old.replicas[0].address, "M2: not released before it is durable");
    node.end("k", &new, Promise::Accepted).await.unwrap();
    assert_eq!(node.get("k").unwrap().incarnation, new.incarnation);
    assert_eq!(node.master.stats().pending_removals, 1);
    node.release().await;
    node.settle().await;
    assert_eq!(node.get("k").unwrap().incarnation, new.incarnation, "M3: the finalization left the new object alone");
    let stats = node.master.stats();
    assert_eq!((stats.objects, stats.held_bytes, stats.free_bytes), (1, 10, 0), "the old range is leased still");
    cluster.advance(5100);
    assert_eq!(node.master.stats().free_bytes, 10, "released once");
    assert_space_adds_up(&node.master, &[]);
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

/// Row D1, with the new put still running and then a second removal on top.
#[tokio::test]
async fn d1_removal_over_removal_over_put() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 100, &["k"]).await;
    node.remove("k", Promise::Accepted).await.unwrap();
    let second = node.start("k", 10).unwrap();
    assert_eq!(code(node.remove("k", Promise::Accepted).await), "REPLICA_IS_NOT_READY");
    node.end("k", &second, Promise::Accepted).await.unwrap();
    node.remove("k", Promise::Accepted).await.unwrap();
    let third = node.start("k", 10).unwrap();
    assert_eq!(node.master.stats().pending_removals, 2);
    node.release().await;
    node.settle().await;
    assert_eq!(code(node.get("k")), "REPLICA_IS_NOT_READY");
    assert_space_adds_up(&node.master, std::slice::from_ref(&third));
    node.end("k", &third, Promise::Durable).await.unwrap();
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    assert_space_adds_up(&node.master, &[]);
}

#[tokio::test]
async fn m2_a_removed_range_is_kept_until_the_removal_is_durable_and_the_lease_over() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 10, &["k"]).await;
    node.remove("k", Promise::Accepted).await.unwrap();
    cluster.advance(60_000);
    assert_eq!(code(node.start("n", 10)), "NO_AVAILABLE_SPACE", "not durable");
    node.release().await;
    node.settle().await;
    let grant = node.start("n", 10).unwrap();
    node.end("n", &grant, Promise::Durable).await.unwrap();
    node.master.get(&tenant(), &key("n"), Some(20_000)).unwrap();
    // A shorter lease does not shorten the longer one.
    node.master.get(&tenant(), &key("n"), Some(1)).unwrap();
    node.remove("n", Promise::Durable).await.unwrap();
    cluster.advance(20_099);
    assert_eq!(code(node.start("m", 10)), "NO_AVAILABLE_SPACE", "leased, and the margin");
    cluster.advance(1);
    node.start("m", 10).unwrap();
}

#[tokio::test]
async fn an_object_never_read_is_released_with_its_removal() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 10).await;
    cluster.advance(1000);
    node.put("k", 10).await;
    node.remove("k", Promise::Durable).await.unwrap();
    node.start("n", 10).unwrap();
}

#[tokio::test]
async fn a_second_removal_answers_not_found_only_when_the_first_is_durable() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 100, &["k"]).await;
    node.remove("k", Promise::Accepted).await.unwrap();
    assert_eq!(code(node.remove("k", Promise::Accepted).await), "OBJECT_NOT_FOUND");
    let second = node.remove("k", Promise::Durable);
    tokio::pin!(second);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut second).await.is_err());
    node.release().await;
    assert_eq!(code(second.await), "OBJECT_NOT_FOUND");
    assert!(cluster.fold_contents().await.objects.is_empty());
}

/// An unmount that is lost with its primary brings the object back: *not found* may not be promised before.
#[tokio::test]
async fn s4_an_object_that_went_with_its_segment_is_durably_not_found_only_with_the_unmount() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 100, &["k"]).await;
    let id = segment("s");
    let unmount = node.master.unmount_segment(&id);
    tokio::pin!(unmount);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut unmount).await.is_err());
    assert_eq!(node.master.stats().objects, 0, "even its record is collected");
    assert_eq!(code(node.remove("k", Promise::Accepted).await), "OBJECT_NOT_FOUND");
    let removal = node.remove("k", Promise::Durable);
    tokio::pin!(removal);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut removal).await.is_err());
    assert!(cluster.fold_contents().await.objects.contains_key(&(tenant(), key("k"))));
    node.release().await;
    assert_eq!(code(removal.await), "OBJECT_NOT_FOUND");
    unmount.await.unwrap();
}

#[tokio::test]
async fn a_durable_removal_answers_when_it_is_durable_and_not_before() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 100, &["k"]).await;
    let removal = node.remove("k", Promise::Durable);
    tokio::pin!(removal);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut removal).await.is_err());
    assert!(cluster.fold_contents().await.objects.contains_key(&(tenant(), key("k"))));
    node.release().await;
    removal.await.unwrap();
    assert!(cluster.fold_contents().await.objects.is_empty());
}

#[tokio::test]
async fn dropping_a_waiting_removal_leaves_it_on_its_way() {
    let cluster = Cluster::new();
    let node = holding(&cluster, 100, &["k"]).await;
    assert!(tokio::time::timeout(Duration::from_millis(20), node.remove("k", Promise::Durable)).await.is_err());
    assert_eq!(code(node.get("k")), "OBJECT_NOT_FOUND");
    node.release().await;
    node.settle().await;
    assert_eq!(node.master.stats().objects, 0);
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

#[tokio::test]
async fn batch_remove_answers_each_key_for_itself() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    for k in ["a", "b", "c"] {
        node.put(k, 10).await;
    }
    let running = node.start("running", 10).unwrap();
    let keys = ["a", "missing", "c", "running", "a"].map(key);
    let results = node.master.batch_remove(&tenant(), &keys, Promise::Durable).await.unwrap();
    let codes: Vec<_> = results.iter().map(|r| r.as_ref().map_or_else(MasterError::code, |()| "OK")).collect();
    assert_eq!(codes, ["OK", "OBJECT_NOT_FOUND", "OK", "REPLICA_IS_NOT_READY", "OBJECT_NOT_FOUND"]);
    assert!(node.get("b").is_ok());
    assert_space_adds_up(&node.master, std::slice::from_ref(&running));
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}

#[tokio::test]
async fn batch_remove_of_no_key_or_too_many_is_refused_as_a_whole() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    let none = node.master.batch_remove(&tenant(), &[], Promise::Durable).await;
    assert_eq!(code(none), "INVALID");
    let keys = vec![key("k"); 100_000];
    let many = node.master.batch_remove(&tenant(), &keys, Promise::Durable).await.unwrap_err();
    assert_eq!(many.to_string(), "100000 keys are to be removed; give 1 to 10000");
    assert!(node.get("k").is_ok());
}

#[tokio::test]
async fn batch_remove_larger_than_the_queue_goes_through_it() {
    let cluster = Cluster::new();
    let node = cluster.promote_with(|env| env.writer.oplog_batch_max_entries = 8).await;
    node.mount("s", 0, 10_000).await;
    let names: Vec<String> = (0..100).map(|i| format!("k{i}")).collect();
    for k in &names {
        node.put(k, 10).await;
    }
    let keys: Vec<_> = names.iter().map(|k| key(k)).collect();
    let results = node.master.batch_remove(&tenant(), &keys, Promise::Durable).await.unwrap();
    assert!(results.iter().all(Result::is_ok));
    assert!(cluster.fold_contents().await.objects.is_empty());
}

/// A batch removal that fills the queue leaves an eighth of it to calls for one object each.
#[tokio::test]
async fn batch_remove_leaves_room_for_other_calls() {
    let cluster = Cluster::new();
    let node = cluster.promote_with(|env| env.writer.oplog_batch_max_entries = 8).await;
    node.mount("s", 0, 10_000).await;
    let names: Vec<String> = (0..100).map(|i| format!("k{i}")).collect();
    for k in &names {
        node.put(k, 10).await;
    }
    node.hold();
    let keys: Vec<_> = names[1..].iter().map(|k| key(k)).collect();
    let master = node.master.clone();
    let batch = tokio::spawn(async move { master.batch_remove(&tenant(), &keys, Promise::Durable).await });
    // A batch in flight, and its share of the queue behind it.
    let behind = |m: oplog_core::WriterMetrics| m.bulk_slots == 7 && m.waiting_entries == 7 && m.prefix_lag_entries > 7;
    while !behind(node.master.writer().metrics()) {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.master.writer().reserve_bulk(1).unwrap_err(), oplog_core::ReserveError::QueueFull);
    node.remove("k0", Promise::Accepted).await.unwrap();
    node.release().await;
    assert!(batch.await.unwrap().unwrap().iter().all(Result::is_ok));
    assert!(cluster.fold_contents().await.objects.is_empty());
}

/// Rows D8, invariant M6.
#[tokio::test]
async fn d8_tenants_and_keys_that_look_alike_are_distinct_everywhere() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 10_000).await;
    let pairs: [(&str, &[u8]); 8] = [
        ("a/b", b"c"),
        ("a", b"b/c"),
        ("a", b"b/c\0"),
        ("a", b"\0b/c"),
        ("a", b"\xff"),
        ("a", b"\xff\0"),
        ("ab", b"c"),
        ("b", b"ac"),
    ];
    let mut incarnations = Vec::new();
    for (t, k) in pairs {
        let (t, k) = (t.parse().unwrap(), ha_types::ObjectKey::new(k).unwrap());
        let request = master::PutStart { tenant: t, key: k, ..put("-", 10) };
        let grant = node.master.put_start(&request).unwrap();
        let end = node.master.put_end(&request.tenant, &request.key, grant.incarnation, CLIENT, Promise::Durable);
        end.await.unwrap();
        incarnations.push((request.tenant, request.key, grant.incarnation));
    }
    let next = cluster.promote().await;
    for master in [&node.master, &next.master] {
        for (t, k, incarnation) in &incarnations {
            assert_eq!(master.state().object(t, k).unwrap().incarnation, *incarnation);
        }
    }
    for (i, (t, k, _)) in incarnations.iter().enumerate() {
        next.master.remove(t, k, Promise::Durable).await.unwrap();
        assert_eq!(cluster.fold_contents().await.objects.len(), incarnations.len() - i - 1);
    }
}
