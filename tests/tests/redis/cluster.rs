//! Clusters: found by their slots, never durable, and not to be mixed up with a single server.

use ha_kv::{DurableAck, Effect, Kv as _, KvErrorKind, RedisOptions, RedisServers, TxnKv as _, TxnOutcome};
use plimsoll_tests::{RedisServer, eventually};

use crate::support::{REQUEST_TIMEOUT, open, redis_or_skip, start, start_with, swap, text};

/// Makes a node a whole cluster.
pub(crate) async fn cover_all_slots(node: &RedisServer) {
    node.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.unwrap();
    wait_ok(node).await;
}

async fn wait_ok(node: &RedisServer) {
    eventually("the cluster is up", async || {
        node.cli(&["CLUSTER", "INFO"]).await.unwrap().contains("cluster_state:ok").then_some(())
    })
    .await;
}

pub(crate) fn options(seed: &RedisServer) -> RedisOptions {
    let servers = RedisServers::Cluster(vec![seed.address().to_string()]);
    RedisOptions { request_timeout: REQUEST_TIMEOUT, ..RedisOptions::new(servers) }
}

const NODE: &[(&str, &str)] = &[("cluster-enabled", "yes"), ("appendonly", "yes"), ("appendfsync", "always")];

#[tokio::test]
async fn the_node_that_serves_the_slot_is_found_from_any_other_and_again_when_the_slot_moves() {
    let program = redis_or_skip!("the_node_that_serves_the_slot_is_found_from_any_other_and_again_when_the_slot_moves");
    let (a, b) = (start_with(&program, NODE).await, start_with(&program, NODE).await);
    let slot: u32 = a.cli(&["CLUSTER", "KEYSLOT", "{plimsoll}:values"]).await.unwrap().parse().unwrap();
    // The second node has our slot only, the first all others.
    let (below, above) = ((slot - 1).to_string(), (slot + 1).to_string());
    a.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", &below, &above, "16383"]).await.unwrap();
    b.cli(&["CLUSTER", "ADDSLOTS", &slot.to_string()]).await.unwrap();
    let (host, port) = (b.address().ip().to_string(), b.address().port().to_string());
    a.cli(&["CLUSTER", "MEET", &host, &port]).await.unwrap();
    wait_ok(&a).await;
    wait_ok(&b).await;

    let kv = open(options(&a)).await.unwrap();
    assert_eq!(kv.server(), b.address().to_string());
    let DurableAck::No { reason } = kv.capabilities().durable_ack else { panic!("a cluster is never durable") };
    assert!(reason.contains("cluster"), "{reason}");
    assert!(!kv.capabilities().linearizable_read);
    kv.put(b"k", "v".into()).await.unwrap();

    // The empty slot moves; a store that was there before stays with its node in this test, so the client must say so.
    for key in b.cli(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"]).await.unwrap().lines() {
        b.cli(&["DEL", key]).await.unwrap();
    }
    let to = a.cli(&["CLUSTER", "MYID"]).await.unwrap();
    for node in [&a, &b] {
        node.cli(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &to]).await.unwrap();
    }
    let error = kv.put(b"k", "w".into()).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "MOVED: {error}");
    let error = kv.get(b"k").await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::WrongStore, "what is missing there is not fresh: {error}");
    assert_eq!(kv.server(), a.address().to_string(), "it went where the slot went");
}

/// The slot is moved key by key, as operators do it: refused while it is in two places, and nothing is ever applied twice.
#[tokio::test]
async fn r7_tryagain_and_ask_refuse_everything_while_the_slot_is_moved() {
    let program = redis_or_skip!("r7_tryagain_and_ask_refuse_everything_while_the_slot_is_moved");
    let (a, b) = (start_with(&program, NODE).await, start_with(&program, NODE).await);
    cover_all_slots(&a).await;
    let (host, port) = (b.address().ip().to_string(), b.address().port().to_string());
    a.cli(&["CLUSTER", "MEET", &host, &port]).await.unwrap();
    wait_ok(&b).await;
    let kv = open(options(&a)).await.unwrap();
    kv.put(b"k", "0".into()).await.unwrap();
    let refused = async |kind, word: &str| {
        for error in [kv.txn(&swap("k", "0", "1")).await.unwrap_err(), kv.get(b"k").await.unwrap_err()] {
            assert_eq!((error.kind, error.effect), (kind, Effect::NotApplied), "{error}");
            assert!(error.message.contains(word), "{word}: {error}");
        }
    };

    let slot = a.cli(&["CLUSTER", "KEYSLOT", "{plimsoll}:values"]).await.unwrap();
    let (from, to) = (a.cli(&["CLUSTER", "MYID"]).await.unwrap(), b.cli(&["CLUSTER", "MYID"]).await.unwrap());
    b.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]).await.unwrap();
    a.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to]).await.unwrap();
    // One of our keys has gone already, the others have not.
    let migrate = async |key: &str| a.cli(&["MIGRATE", &host, &port, key, "0", "5000"]).await.unwrap();
    assert_eq!(migrate("{plimsoll}:index").await, "OK");
    refused(KvErrorKind::Busy, "TRYAGAIN").await;
    for key in a.cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]).await.unwrap().lines() {
        assert_eq!(migrate(key).await, "OK", "{key}");
    }
    refused(KvErrorKind::Unavailable, "ASK").await;
    for node in [&b, &a] {
        node.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &to]).await.unwrap();
    }
    let found = eventually("the other node is used", async || kv.get(b"k").await.ok()).await;
    assert_eq!((text(found).as_deref(), kv.server()), (Some("0"), b.address().to_string()), "nothing was applied");
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed);
}

#[tokio::test]
async fn a_slot_that_nobody_serves_is_unavailable_and_applies_nothing() {
    let program = redis_or_skip!("a_slot_that_nobody_serves_is_unavailable_and_applies_nothing");
    let node = start_with(&program, NODE).await;
    let error = open(options(&node)).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    assert!(error.message.contains("slot"), "{error}");
    cover_all_slots(&node).await;
    let kv = open(options(&node)).await.unwrap();
    kv.put(b"k", "v".into()).await.unwrap();
    node.cli(&["CLUSTER", "DELSLOTSRANGE", "0", "16383"]).await.unwrap();
    let error = kv.put(b"k", "w".into()).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "CLUSTERDOWN: {error}");
    cover_all_slots(&node).await;
    let found = eventually("it is used again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(found).as_deref(), Some("v"));
}

#[tokio::test]
async fn a_node_that_is_cut_off_from_its_cluster_is_not_the_only_one_asked() {
    let program = redis_or_skip!("a_node_that_is_cut_off_from_its_cluster_is_not_the_only_one_asked");
    let (a, b) = (start_with(&program, NODE).await, start_with(&program, NODE).await);
    cover_all_slots(&a).await;
    cover_all_slots(&b).await;
    let servers = RedisServers::Cluster(vec![a.address().to_string(), b.address().to_string()]);
    let kv = open(RedisOptions { request_timeout: REQUEST_TIMEOUT, ..RedisOptions::new(servers) }).await.unwrap();
    assert_eq!(kv.server(), a.address().to_string());
    // It still says that it serves our slot, and serves nothing: as on the smaller side of a network that is split.
    let slot: u32 = a.cli(&["CLUSTER", "KEYSLOT", "{plimsoll}:values"]).await.unwrap().parse().unwrap();
    let (below, above) = ((slot - 1).to_string(), (slot + 1).to_string());
    a.cli(&["CLUSTER", "DELSLOTSRANGE", "0", &below, &above, "16383"]).await.unwrap();
    let down = eventually("the node serves nothing", async || kv.get(b"k").await.err()).await;
    assert_eq!((down.kind, down.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{down}");
    let found = eventually("the other one is asked", async || kv.get(b"k").await.ok()).await;
    assert_eq!((found, kv.server()), (None, b.address().to_string()));
}

#[tokio::test]
async fn a_database_index_in_a_cluster_and_the_wrong_form_of_an_address_are_refused() {
    let program = redis_or_skip!("a_database_index_in_a_cluster_and_the_wrong_form_of_an_address_are_refused");
    let (node, single) = (start_with(&program, NODE).await, start(&program).await);
    cover_all_slots(&node).await;
    let indexed = RedisOptions { database: 3, ..options(&node) };
    let as_single = RedisOptions { database: 3, ..crate::support::options(node.address()) };
    for (options, words) in [
        (indexed, ["database index is 3", "leave it out"]),
        (as_single, ["node of a cluster", "redis-cluster://"]),
        (options(&single), ["cluster", "redis://HOST:PORT"]),
    ] {
        let error = open(options).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (KvErrorKind::InvalidArgument, Effect::NotApplied), "{error}");
        assert!(words.iter().all(|word| error.message.contains(word)), "{error}");
    }
    assert_eq!(node.cli(&["DBSIZE"]).await.unwrap(), "0", "nothing was changed");
    assert_eq!(single.cli(&["DBSIZE"]).await.unwrap(), "0", "nothing was changed");
    let beyond = RedisOptions { database: 999, ..crate::support::options(single.address()) };
    let error = open(beyond).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::InvalidArgument, "{error}");
    let third = RedisOptions { database: 3, ..crate::support::options(single.address()) };
    open(third).await.unwrap().put(b"k", "v".into()).await.unwrap();
    assert_eq!(single.cli(&["-n", "3", "HGET", "{plimsoll}:values", "k"]).await.unwrap(), "v");
}
