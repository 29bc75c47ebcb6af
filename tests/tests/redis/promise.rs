//! What the server promises, asked at every connection (R1, R3), and what a store that lost something looks like.

use std::sync::Arc;

use ha_kv::{DurableAck, Effect, ErrorClass, Kv as _, KvErrorKind, RedisKv, RedisOptions, TxnKv as _};
use oplog_core::{BatchStorage, LogKeys, OpenOptions, Outcome, Terminal};
use plimsoll_tests::log_kit::{Ledger, cluster, durable, ended, lead, open as open_log};
use plimsoll_tests::{RedisServer, eventually};

use crate::support::{connect, open, options, redis_or_skip, start, start_with, swap};

fn reason(kv: &RedisKv) -> String {
    match kv.capabilities().durable_ack {
        DurableAck::No { reason } => reason,
        DurableAck::Yes => panic!("said to be durable"),
    }
}

/// Opens the log without a word about lost writes, and with one.
async fn refused_unless_told(kv: Arc<RedisKv>, word: &str) {
    let open = |accept_lost_writes| {
        let options = OpenOptions { accept_lost_writes, ..OpenOptions::default() };
        BatchStorage::open(kv.clone(), LogKeys::of(&cluster()), options)
    };
    let error = open(false).await.unwrap_err().to_string();
    assert!(error.contains("lost writes") && error.contains(word), "{error}");
    open(true).await.unwrap();
}

#[tokio::test]
async fn r1_a_server_that_does_not_promise_it_is_refused_unless_told_in_words() {
    let program = redis_or_skip!("r1_a_server_that_does_not_promise_it_is_refused_unless_told_in_words");
    let aof = [("appendonly", "yes"), ("appendfsync", "always")];
    for (settings, word) in [
        (&[][..], "appendonly"),
        (&[("appendonly", "yes"), ("appendfsync", "everysec")], "everysec"),
        (&[aof[0], aof[1], ("no-appendfsync-on-rewrite", "yes")], "no-appendfsync-on-rewrite"),
        (&[aof[0], aof[1], ("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")], "allkeys-lru"),
        (&[aof[0], aof[1], ("rename-command", "CONFIG HIDDEN")], "CONFIG"),
    ] {
        let server = start_with(&program, settings).await;
        let kv = connect(&server).await;
        assert!(reason(&kv).contains(word), "{}", reason(&kv));
        refused_unless_told(kv, word).await;
    }
    let good =
        start_with(&program, &[aof[0], aof[1], ("maxmemory", "100mb"), ("maxmemory-policy", "noeviction")]).await;
    assert!(connect(&good).await.capabilities().durable_ack.is_yes());
    let good = start_with(&program, &[aof[0], aof[1], ("maxmemory-policy", "allkeys-lru")]).await;
    assert!(connect(&good).await.capabilities().durable_ack.is_yes(), "nothing is evicted without a limit");
    open_log(connect(&good).await).await;
}

#[tokio::test]
async fn r1_renamed_script_commands_are_named_and_change_nothing() {
    let program = redis_or_skip!("r1_renamed_script_commands_are_named_and_change_nothing");
    for name in ["EVALSHA", "EVAL"] {
        let server = start_with(&program, &[("rename-command", &format!("{name} HIDDEN"))]).await;
        let error = open(options(server.address())).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (KvErrorKind::Unsupported, Effect::NotApplied), "{error}");
        assert!(error.message.contains(name) && error.message.contains("renamed"), "{error}");
        assert_eq!(server.cli(&["DBSIZE"]).await.unwrap(), "0");
    }
}

/// A worse answer at a reconnect ends the client for good.
async fn ends(server: &RedisServer, kv: &RedisKv, word: &str) {
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    let error = eventually("the answer is asked for again", async || {
        kv.txn(&swap("k", "0", "1")).await.err().filter(|e| e.kind == KvErrorKind::WrongStore)
    })
    .await;
    assert_eq!((error.class(), error.effect), (ErrorClass::Permanent, Effect::NotApplied), "{error}");
    assert!(error.message.contains(word), "{error}");
}

#[tokio::test]
async fn r1_a_worse_answer_at_a_reconnect_is_terminal_for_the_client_and_its_writer() {
    let program = redis_or_skip!("r1_a_worse_answer_at_a_reconnect_is_terminal_for_the_client_and_its_writer");
    let server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"k", "0".into()).await.unwrap();
    let (_, writer) = lead(connect(&server).await).await;
    let ledger = Ledger::default();
    ledger.commit(&writer, "1").await;
    ledger.wait_for(1).await;
    // A reconnect to a server that is as good as before is no matter.
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    eventually("it is used again", async || kv.get(b"k").await.ok()).await;

    server.cli(&["CONFIG", "SET", "appendfsync", "everysec"]).await.unwrap();
    kv.get(b"k").await.unwrap();
    ends(&server, &kv, "everysec").await;
    let slot = writer.reserve();
    if let Ok(slot) = slot {
        ledger.commit_reserved(slot, "2");
    }
    assert!(matches!(ended(&writer).await, Terminal::Corrupt { .. }), "{:?}", writer.status().borrow().terminal);
    // For good: also when the server is better again.
    server.cli(&["CONFIG", "SET", "appendfsync", "always"]).await.unwrap();
    assert_eq!(kv.get(b"k").await.unwrap_err().kind, KvErrorKind::WrongStore);
    assert!(connect(&server).await.capabilities().durable_ack.is_yes(), "a new client begins anew");
}

#[tokio::test]
async fn r1_a_client_that_was_told_of_lost_writes_outlives_a_reconnect() {
    let program = redis_or_skip!("r1_a_client_that_was_told_of_lost_writes_outlives_a_reconnect");
    let server = start_with(&program, &[]).await;
    let kv = connect(&server).await;
    kv.put(b"k", "0".into()).await.unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    eventually("it is used again", async || kv.get(b"k").await.ok()).await;
    server.cli(&["CONFIG", "SET", "appendonly", "yes"]).await.unwrap();
    server.cli(&["CONFIG", "SET", "appendfsync", "always"]).await.unwrap();
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    eventually("it is used again", async || kv.get(b"k").await.ok()).await;
    assert!(reason(&kv).contains("appendonly"), "a better answer does not bring back what was written before");
}

#[tokio::test]
async fn r1_a_prefix_evicted_in_mid_run_ends_the_writer_and_missing_is_never_fresh() {
    let program = redis_or_skip!("r1_a_prefix_evicted_in_mid_run_ends_the_writer_and_missing_is_never_fresh");
    // What an eviction takes is a whole key of Redis, any of ours, or all of them.
    let keys = ["{plimsoll}:values", "{plimsoll}:index", "{plimsoll}:meta"];
    for evicted in [&keys[..1], &keys[1..2], &keys[2..], &keys[..2], &keys[..]] {
        let server = start(&program).await;
        let (_, writer) = lead(connect(&server).await).await;
        let (ledger, follower) = (Ledger::default(), connect(&server).await);
        ledger.commit(&writer, "1").await;
        assert_eq!(ledger.wait_for(1).await, durable([1]));
        let storage = open_log(follower.clone()).await;
        storage.require_prefix().await.unwrap();

        let command: Vec<&str> = ["UNLINK"].iter().chain(evicted).copied().collect();
        server.cli(&command).await.unwrap();
        let all_that_is_left = server.cli(&["KEYS", "*"]).await.unwrap();
        let error = follower.get(b"/oplog").await.unwrap_err();
        assert_eq!((error.class(), error.effect), (ErrorClass::Permanent, Effect::NotApplied), "{evicted:?}: {error}");
        if let Ok(slot) = writer.reserve() {
            ledger.commit_reserved(slot, "2");
        }
        let terminal = ended(&writer).await;
        assert!(matches!(terminal, Terminal::Corrupt { .. }), "{evicted:?}: {terminal:?}");
        assert!(!ledger.seen().contains(&(2, Outcome::Durable)), "{evicted:?}");
        assert!(storage.create_first_prefix().await.is_err(), "{evicted:?}: a log that was met is not begun anew");
        assert_eq!(server.cli(&["KEYS", "*"]).await.unwrap(), all_that_is_left, "{evicted:?}: nothing was written");
        // A process that starts now cannot know of a store of which nothing is left; of a torn one it does.
        let late = open(options(server.address())).await;
        assert_eq!(late.is_ok(), evicted.len() == keys.len(), "{evicted:?}");
        if let Err(error) = late {
            assert_eq!(error.kind, KvErrorKind::Corrupt, "{error}");
            assert!(error.key.as_ref().is_some_and(|key| key.starts_with(b"{plimsoll}:")), "{error}");
        }
    }
}

#[tokio::test]
async fn r1_a_real_eviction_is_met_as_an_error_by_whoever_knew_the_store() {
    let program = redis_or_skip!("r1_a_real_eviction_is_met_as_an_error_by_whoever_knew_the_store");
    let server = start_with(&program, &[("maxmemory-policy", "allkeys-lru")]).await;
    let kv = connect(&server).await;
    for n in 0..64_u32 {
        kv.put(format!("k{n}").as_bytes(), vec![7; 16 << 10].into()).await.unwrap();
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "1500000"]).await.unwrap();
    let error = eventually("a key of ours is evicted", async || {
        // Refused once there is nothing left to evict.
        let _ = server.cli(&["SET", "filler", &"x".repeat(60_000)]).await;
        kv.get(b"k1").await.err()
    })
    .await;
    assert_eq!((error.class(), error.effect), (ErrorClass::Permanent, Effect::NotApplied), "{error}");
}

#[tokio::test]
async fn r1_a_store_flushed_and_begun_anew_is_another_store() {
    let program = redis_or_skip!("r1_a_store_flushed_and_begun_anew_is_another_store");
    let server = start(&program).await;
    let old = connect(&server).await;
    old.put(b"k", "0".into()).await.unwrap();
    server.cli(&["FLUSHALL"]).await.unwrap();
    let new = connect(&server).await;
    assert_eq!(new.get(b"k").await.unwrap(), None, "who never met the store cannot know that there was one");
    new.put(b"k", "0".into()).await.unwrap();
    for error in [old.get(b"k").await.map(drop).unwrap_err(), old.put(b"k", "1".into()).await.unwrap_err()] {
        assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied), "{error}");
    }
    assert_eq!(new.get(b"k").await.unwrap().as_deref(), Some(&b"0"[..]));
}

#[tokio::test]
async fn a_wrong_type_at_a_key_of_ours_is_named_and_changes_nothing() {
    let program = redis_or_skip!("a_wrong_type_at_a_key_of_ours_is_named_and_changes_nothing");
    for key in ["values", "index", "meta", "holders", "role-probe"] {
        let server = start(&program).await;
        let key = format!("{{plimsoll}}:{key}");
        server.cli(&["RPUSH", &key, "x"]).await.unwrap();
        let error = open(options(server.address())).await.unwrap_err();
        assert_eq!((error.kind, error.effect), (KvErrorKind::Corrupt, Effect::NotApplied), "{error}");
        assert!(error.message.contains(&key) && error.message.contains("list"), "{error}");
        assert_eq!(error.key.as_deref(), Some(key.as_bytes()));
        // Another namespace in the same database is another store.
        let beside = RedisOptions { namespace: "beside".into(), ..options(server.address()) };
        open(beside).await.unwrap().put(b"k", "v".into()).await.unwrap();
        assert_eq!(server.cli(&["LRANGE", &key, "0", "-1"]).await.unwrap(), "x");
    }
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let program = redis_or_skip!("a_newer_format_is_refused_by_name");
    let server = start(&program).await;
    connect(&server).await.put(b"k", "v".into()).await.unwrap();
    server.cli(&["HSET", "{plimsoll}:meta", "format", "2"]).await.unwrap();
    let error = open(options(server.address())).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unsupported, Effect::NotApplied), "{error}");
    assert!(error.message.contains("format 2"), "{error}");
}

#[tokio::test]
async fn a_smaller_value_limit_is_found_at_the_start() {
    let program = redis_or_skip!("a_smaller_value_limit_is_found_at_the_start");
    let server = start_with(&program, &[("proto-max-bulk-len", "1mb")]).await;
    let error = open(options(server.address())).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::TooLarge, Effect::NotApplied), "{error}");
    let smaller = RedisOptions { max_txn_bytes: 1 << 20, ..options(server.address()) };
    open(smaller).await.unwrap();
}

#[tokio::test]
async fn r3_a_replica_ends_the_promise_and_wait_on_another_connection_counts_for_nothing() {
    let program = redis_or_skip!("r3_a_replica_ends_the_promise_and_wait_on_another_connection_counts_for_nothing");
    let master = start(&program).await;
    let kv = connect(&master).await;
    kv.put(b"k", "0".into()).await.unwrap();
    assert!(kv.capabilities().durable_ack.is_yes());
    let (host, port) = (master.address().ip().to_string(), master.address().port().to_string());
    let replica = start_with(&program, &[("replicaof", &format!("{host} {port}"))]).await;
    eventually("the replica is attached", async || {
        let info = replica.cli(&["INFO", "replication"]).await.unwrap();
        info.contains("master_link_status:up").then_some(())
    })
    .await;
    replica.process().stop();
    kv.put(b"k", "1".into()).await.unwrap();
    // The trap: this connection wrote nothing, so its WAIT is content although the replica has nothing of the last write.
    assert_eq!(master.cli(&["WAIT", "1", "500"]).await.unwrap(), "1");
    let late = connect(&master).await;
    assert!(reason(&late).contains("connected_slaves:1"), "{}", reason(&late));
    refused_unless_told(late, "connected_slaves").await;
    ends(&master, &kv, "connected_slaves").await;
    assert_eq!(master.ran("wait").await.unwrap(), 1, "only the one above: nobody here counts replicas");
    replica.process().cont();
    let error = open(options(replica.address())).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::ReadOnly, Effect::NotApplied), "{error}");
}
