//! Owns the tests of list and stats: what is shown is what is there.

use master::{Promise, PutStart};

use crate::kit::*;

#[tokio::test]
async fn a_list_is_in_byte_order_and_pages_meet_without_gap() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 100_000).await;
    let mut names: Vec<String> = (0..250).map(|i| format!("{:x}", i * 7919)).collect();
    for k in &names {
        node.put(k, 10).await;
    }
    let other = PutStart { tenant: "other".parse().unwrap(), ..put("x", 10) };
    let grant = node.master.put_start(&other).unwrap();
    node.master.put_end(&other.tenant, &other.key, grant.incarnation, CLIENT, Promise::Durable).await.unwrap();
    node.start("running", 10).unwrap();
    node.remove(&names.pop().unwrap(), Promise::Accepted).await.unwrap();
    names.sort();
    for limit in [1, 7, 249, 250] {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = node.master.list(&tenant(), after.as_ref(), limit).await.unwrap();
            assert!(page.objects.len() <= limit);
            listed.extend(page.objects.iter().map(|o| String::from_utf8(o.key.as_bytes().to_vec()).unwrap()));
            after = page.objects.last().map(|o| o.key.clone());
            if !page.more {
                break;
            }
        }
        assert_eq!(listed, names, "limit {limit}");
    }
    let page = node.master.list(&"nobody".parse().unwrap(), None, 10).await.unwrap();
    assert!(page.objects.is_empty() && !page.more);
    for limit in [0, 10_001] {
        assert_eq!(code(node.master.list(&tenant(), None, limit).await), "INVALID");
    }
}

#[tokio::test]
async fn figures_add_up_and_are_answered_without_leadership() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.mount("a", 5000, 500).await;
    node.put("k", 100).await;
    node.start("r", 50).unwrap();
    node.get("k").unwrap();
    node.remove("k", Promise::Durable).await.unwrap();
    node.guard.lose();
    let stats = node.master.stats();
    assert_eq!((stats.objects, stats.running_puts, stats.pending_removals, stats.tenants), (0, 1, 0, 1));
    assert_eq!((stats.total_bytes, stats.free_bytes, stats.held_bytes), (1500, 1350, 100));
    assert_eq!((stats.leases_granted, stats.quarantined_bytes), (1, 0));
    assert_eq!(stats.durable_seq.get(), 4);
    let ids: Vec<_> = stats.segments.iter().map(|s| s.segment.as_str()).collect();
    assert_eq!(ids, ["a", "s"]);
    assert!(stats.segments.iter().all(|s| s.size == s.free_bytes + s.used_bytes + s.held_bytes));
}
