//! What the scripts rest on, on a real server (R6): text for numbers, checks before writes, scripts that are gone, one slot.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Compare, Effect, Kv as _, KvErrorKind, KvPair, LeaseKv as _, RangeLimit, Txn, TxnKv as _, TxnOutcome};
use plimsoll_tests::RedisServer;

use crate::support::{connect, redis_or_skip, start, start_with, swap, text};

/// Everything that the server holds, as text, but for what counts time.
async fn dump(server: &RedisServer) -> String {
    let mut dump = String::new();
    for command in [
        &["HGETALL", "{plimsoll}:values"][..],
        &["ZRANGE", "{plimsoll}:index", "0", "-1", "WITHSCORES"],
        &["HGETALL", "{plimsoll}:meta"],
        &["HGETALL", "{plimsoll}:holders"],
        &["DBSIZE"],
    ] {
        dump += &server.cli(command).await.unwrap();
        dump += "\n";
    }
    dump
}

#[tokio::test]
async fn r6_numbers_above_two_to_the_53_survive_as_values_leases_and_counters() {
    let program = redis_or_skip!("r6_numbers_above_two_to_the_53_survive_as_values_leases_and_counters");
    let server = start(&program).await;
    let kv = connect(&server).await;
    // Neighbours that are the same double.
    let (low, high) = ("9007199254740992", "9007199254740993");
    kv.put(b"k", low.into()).await.unwrap();
    let compare = |value: &'static str| Txn {
        compares: vec![Compare::ValueEquals { key: "k".into(), value: value.into() }],
        puts: vec![KvPair::new("k", "18446744073709551615")],
        deletes: vec![],
    };
    assert_eq!(kv.txn(&compare(high)).await.unwrap(), TxnOutcome::CompareFailed);
    assert_eq!(kv.txn(&compare(low)).await.unwrap(), TxnOutcome::Committed);
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("18446744073709551615"));
    // The change counter is counted by the server, in 64 bits.
    server.cli(&["HSET", "{plimsoll}:meta", "changes", low]).await.unwrap();
    kv.put(b"k", "x".into()).await.unwrap();
    assert_eq!(server.cli(&["HGET", "{plimsoll}:meta", "changes"]).await.unwrap(), high);
    // The ids of leases are random u64: none may be taken for its neighbour.
    for _ in 0..20 {
        let (lease, _) = kv.grant(Duration::from_secs(60)).await.unwrap();
        let neighbour = ha_kv::LeaseId::new(lease.get() ^ 1);
        assert_eq!(kv.keep_alive(neighbour).await.unwrap_err().kind, KvErrorKind::LeaseNotFound);
        kv.keep_alive(lease).await.unwrap();
        kv.revoke(lease).await.unwrap();
    }
}

#[tokio::test]
async fn r6_a_script_that_is_refused_has_written_nothing() {
    let program = redis_or_skip!("r6_a_script_that_is_refused_has_written_nothing");
    let server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"a", "1".into()).await.unwrap();
    let before = dump(&server).await;
    let wide = Txn {
        compares: vec![Compare::ValueEquals { key: "a".into(), value: "1".into() }],
        puts: (0..50).map(|n| KvPair::new(format!("b{n}"), "v")).collect(),
        deletes: vec![ha_kv::Delete::Key("a".into())],
    };
    // The last compare of a long list fails.
    let mut failing = wide.clone();
    failing.compares.push(Compare::KeyAbsent { key: "a".into() });
    assert_eq!(kv.txn(&failing).await.unwrap(), TxnOutcome::CompareFailed);
    assert_eq!(dump(&server).await, before);
    // The server refuses the first write.
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let error = kv.txn(&wide).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::NoSpace, Effect::NotApplied), "{error}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert_eq!(dump(&server).await, before, "nothing is kept of it");
    // The last of the keys that it would write is of another type.
    server.cli(&["SET", "{plimsoll}:holders", "x"]).await.unwrap();
    let error = kv.txn(&wide).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Corrupt, Effect::NotApplied), "{error}");
    server.cli(&["DEL", "{plimsoll}:holders"]).await.unwrap();
    assert_eq!(dump(&server).await, before);
    assert_eq!(kv.txn(&wide).await.unwrap(), TxnOutcome::Committed, "and then it goes through");
}

#[tokio::test]
async fn r6_scripts_that_the_server_forgot_are_sent_in_full_and_run_once() {
    let program = redis_or_skip!("r6_scripts_that_the_server_forgot_are_sent_in_full_and_run_once");
    let mut server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"k", "0".into()).await.unwrap();
    for (old, new) in [("0", "1"), ("1", "2"), ("2", "3")] {
        server.cli(&["SCRIPT", "FLUSH"]).await.unwrap();
        let in_full = server.ran("eval").await.unwrap();
        assert_eq!(kv.txn(&swap("k", old, new)).await.unwrap(), TxnOutcome::Committed);
        assert_eq!(server.ran("eval").await.unwrap(), in_full + 1, "once in full");
        assert_eq!(kv.txn(&swap("k", old, new)).await.unwrap(), TxnOutcome::CompareFailed);
        assert_eq!(server.ran("eval").await.unwrap(), in_full + 1, "then by name");
    }
    server.process().kill();
    server.restart().await.unwrap();
    let value = plimsoll_tests::eventually("it is used again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(value).as_deref(), Some("3"));
    assert_eq!(kv.txn(&swap("k", "3", "4")).await.unwrap(), TxnOutcome::Committed);
}

#[tokio::test]
async fn r6_a_cluster_takes_every_script_because_all_keys_lie_in_one_slot() {
    let program = redis_or_skip!("r6_a_cluster_takes_every_script_because_all_keys_lie_in_one_slot");
    let node = start_with(&program, &[("cluster-enabled", "yes")]).await;
    crate::cluster::cover_all_slots(&node).await;
    let kv = Arc::new(crate::support::open(crate::cluster::options(&node)).await.unwrap());
    let (a, _) = kv.grant(Duration::from_secs(60)).await.unwrap();
    let (b, _) = kv.grant(Duration::from_secs(60)).await.unwrap();
    kv.put(b"k", "0".into()).await.unwrap();
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed);
    // This one looks at the key of a lease that its request did not name.
    assert_eq!(kv.put_if_absent(b"leader", "a".into(), a).await.unwrap(), ha_kv::PutIfAbsent::Put);
    assert!(matches!(kv.put_if_absent(b"leader", "b".into(), b).await.unwrap(), ha_kv::PutIfAbsent::Held(_)));
    kv.keep_alive(a).await.unwrap();
    kv.revoke(a).await.unwrap();
    assert_eq!(kv.put_if_absent(b"leader", "b".into(), b).await.unwrap(), ha_kv::PutIfAbsent::Put);
    assert_eq!(kv.range(b"a", b"z", RangeLimit::pairs(10)).await.unwrap().pairs.len(), 2);
    assert_eq!(kv.delete_range(b"a", b"z").await.unwrap(), 2);
    // A server that is asked for keys of two slots refuses: what would happen to ours without the tag.
    let error = node.cli(&["DEL", "values", "index"]).await.unwrap_err().to_string();
    assert!(error.contains("CROSSSLOT"), "{error}");
}
