//! The rows of the error table that a real server can be made to say (R7): always not applied, and cured without a restart.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Effect, Kv as _, KvErrorKind, LeaseKv as _, RedisKv, TxnKv as _, TxnOutcome};
use plimsoll_tests::log_kit::{Ledger, durable, lead};
use plimsoll_tests::{RedisServer, eventually};

use crate::support::{connect, open, options, redis_or_skip, start, start_with, swap, text};

/// A write is refused as `kind`, has changed nothing, and reads go on.
async fn refused(kv: &RedisKv, kind: KvErrorKind, word: &str) {
    let error = kv.txn(&swap("k", "0", "1")).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (kind, Effect::NotApplied), "{error}");
    assert!(error.message.contains(word), "{error}");
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("0"), "reads go on");
}

async fn with_key(server: &RedisServer) -> Arc<RedisKv> {
    let kv = connect(server).await;
    kv.put(b"k", "0".into()).await.unwrap();
    kv
}

#[tokio::test]
async fn r7_oom_refuses_puts_takes_deletes_and_is_cured() {
    let program = redis_or_skip!("r7_oom_refuses_puts_takes_deletes_and_is_cured");
    let server = start(&program).await;
    let kv = with_key(&server).await;
    kv.put(b"large", vec![7; 1 << 20].into()).await.unwrap();
    let (lease, _) = kv.grant(Duration::from_secs(60)).await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    refused(&kv, KvErrorKind::NoSpace, "OOM").await;
    assert_eq!(kv.grant(Duration::from_secs(60)).await.unwrap_err().kind, KvErrorKind::NoSpace);
    kv.keep_alive(lease).await.unwrap();
    kv.delete(b"large").await.unwrap();
    assert_eq!(kv.get(b"large").await.unwrap(), None);
    kv.revoke(lease).await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed);
}

#[tokio::test]
async fn r7_noreplicas_refuses_writes_and_is_cured() {
    let program = redis_or_skip!("r7_noreplicas_refuses_writes_and_is_cured");
    let server = start(&program).await;
    let kv = with_key(&server).await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await.unwrap();
    refused(&kv, KvErrorKind::ReadOnly, "NOREPLICAS").await;
    server.cli(&["CONFIG", "SET", "min-replicas-to-write", "0"]).await.unwrap();
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed);
}

#[tokio::test]
async fn r7_misconf_refuses_writes_and_is_cured() {
    let program = redis_or_skip!("r7_misconf_refuses_writes_and_is_cured");
    // A snapshot that cannot be written: its place is a folder.
    let server = start_with(&program, &[("save", "3600 1"), ("dbfilename", "snapshot.rdb")]).await;
    let kv = with_key(&server).await;
    let place = server.folder().join("snapshot.rdb");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("in-the-way"), "").unwrap();
    server.cli(&["BGSAVE"]).await.unwrap();
    eventually("the snapshot has failed", async || {
        let info = server.cli(&["INFO", "persistence"]).await.unwrap();
        info.contains("rdb_last_bgsave_status:err").then_some(())
    })
    .await;
    refused(&kv, KvErrorKind::ReadOnly, "MISCONF").await;
    std::fs::remove_dir_all(&place).unwrap();
    server.cli(&["BGSAVE"]).await.unwrap();
    let outcome = eventually("it is cured", async || kv.txn(&swap("k", "0", "1")).await.ok()).await;
    assert_eq!(outcome, TxnOutcome::Committed);
}

#[tokio::test]
async fn r7_readonly_refuses_writes_and_ends_a_durable_client() {
    let program = redis_or_skip!("r7_readonly_refuses_writes_and_ends_a_durable_client");
    let (server, other) = (start(&program).await, start(&program).await);
    let kv = with_key(&server).await;
    let (host, port) = (other.address().ip().to_string(), other.address().port().to_string());
    other.process().stop();
    server.cli(&["REPLICAOF", &host, &port]).await.unwrap();
    let error = kv.txn(&swap("k", "0", "1")).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::ReadOnly, Effect::NotApplied), "{error}");
    let error = kv.get(b"k").await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::WrongStore, Effect::NotApplied), "{error}");
    other.process().cont();
}

/// A replica that has lost its master and may not answer from the past.
#[tokio::test]
async fn r7_masterdown_refuses_everything_until_the_server_is_a_master_again() {
    let program = redis_or_skip!("r7_masterdown_refuses_everything_until_the_server_is_a_master_again");
    let (server, other) = (start_with(&program, &[("replica-serve-stale-data", "no")]).await, start(&program).await);
    let (kv, reader) = (with_key(&server).await, connect(&server).await);
    assert!(reader.get(b"k").await.unwrap().is_some());
    let (host, port) = (other.address().ip().to_string(), other.address().port().to_string());
    other.process().kill();
    server.cli(&["REPLICAOF", &host, &port]).await.unwrap();
    for error in [kv.txn(&swap("k", "0", "1")).await.unwrap_err(), reader.get(b"k").await.unwrap_err()] {
        assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
        assert!(error.message.contains("MASTERDOWN"), "{error}");
    }
    // The next call connects anew, and hears what the server is before it asks for anything.
    let error = kv.txn(&swap("k", "0", "1")).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::ReadOnly, Effect::NotApplied), "{error}");
    assert!(error.message.contains("is a replica"), "{error}");
    server.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("0"), "nothing was applied");
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed);
}

#[tokio::test]
async fn r7_busy_refuses_everything_until_the_other_script_ends() {
    let program = redis_or_skip!("r7_busy_refuses_everything_until_the_other_script_ends");
    let server = start_with(&program, &[("busy-reply-threshold", "20")]).await;
    let kv = with_key(&server).await;
    let endless = server.cli_in_background(&["EVAL", "while true do end", "0"]).unwrap();
    // While it is not told busy yet the server answers nobody; then it answers everybody so.
    let error = eventually("the server says that it is busy", async || {
        kv.txn(&swap("k", "0", "1")).await.err().filter(|e| e.kind == KvErrorKind::Busy)
    })
    .await;
    assert_eq!(error.effect, Effect::NotApplied, "{error}");
    assert!(error.message.contains("BUSY"), "{error}");
    assert_eq!(kv.get(b"k").await.unwrap_err().kind, KvErrorKind::Busy);
    server.cli(&["SCRIPT", "KILL"]).await.unwrap();
    let value = eventually("it answers again", async || kv.get(b"k").await.ok()).await;
    assert!(matches!(text(value).as_deref(), Some("0" | "1")), "a call that timed out before may have been applied");
    drop(endless);
}

#[tokio::test]
async fn r7_loading_refuses_everything_until_the_data_is_read() {
    let program = redis_or_skip!("r7_loading_refuses_everything_until_the_data_is_read");
    // Slow enough to be met: two milliseconds a key.
    let mut server = start_with(
        &program,
        &[("save", ""), ("key-load-delay", "2000"), ("loading-process-events-interval-bytes", "1024")],
    )
    .await;
    let kv = with_key(&server).await;
    server.cli(&["EVAL", "for n = 1, 4000 do redis.call('SET', 'filler' .. n, n) end", "0"]).await.unwrap();
    server.cli(&["SAVE"]).await.unwrap();
    server.process().kill();
    server.start_again().unwrap();
    let error = eventually("the server says that it is loading", async || {
        kv.txn(&swap("k", "0", "1")).await.err().filter(|e| e.kind == KvErrorKind::Busy)
    })
    .await;
    assert_eq!(error.effect, Effect::NotApplied, "{error}");
    assert!(error.message.to_lowercase().contains("loading"), "{error}");
    let error = open(options(server.address())).await.map(drop);
    if let Err(error) = error {
        assert_eq!((error.kind, error.effect), (KvErrorKind::Busy, Effect::NotApplied), "{error}");
    }
    let value = eventually("it answers again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(value).as_deref(), Some("0"));
}

#[tokio::test]
async fn r7_too_many_clients_is_busy_and_cured() {
    let program = redis_or_skip!("r7_too_many_clients_is_busy_and_cured");
    let server = start_with(&program, &[("maxclients", "1")]).await;
    // Whoever asked whether it is up may not be gone yet.
    let kv = eventually("the one place is free", async || open(options(server.address())).await.ok()).await;
    let error = open(options(server.address())).await.unwrap_err();
    assert_eq!(error.effect, Effect::NotApplied, "{error}");
    // The server may close before its words are read.
    assert!(matches!(error.kind, KvErrorKind::Busy | KvErrorKind::Unavailable), "{error}");
    drop(kv);
    eventually("a place is free", async || open(options(server.address())).await.ok()).await;
}

#[tokio::test]
async fn r7_a_full_server_closes_admission_and_the_log_recovers_alone() {
    let program = redis_or_skip!("r7_a_full_server_closes_admission_and_the_log_recovers_alone");
    let server = start(&program).await;
    let (_, writer) = lead(connect(&server).await).await;
    let ledger = Ledger::default();
    ledger.commit(&writer, "1").await;
    ledger.wait_for(1).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    ledger.commit(&writer, "2").await;
    eventually("admission is closed", async || writer.reserve().err()).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert_eq!(ledger.wait_for(2).await, durable(1..=2), "it was only late");
    drop(eventually("admission is open again", async || writer.reserve().ok()).await);
    ledger.commit(&writer, "3").await;
    assert_eq!(ledger.wait_for(3).await, durable(1..=3), "contiguous");
}
