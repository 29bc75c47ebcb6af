//! Failovers that lose what was acknowledged (R2): by Sentinel, and by hand. Nobody may write over the gap.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{DurableAck, Effect, Kv as _, KvErrorKind, RedisKv, RedisOptions, RedisServers, TxnKv};
use ha_types::{AlwaysLeads, SystemClock, SystemEntropy};
use oplog_core::{BatchStorage, LogKeys, OpenOptions, Outcome, Replica, Terminal};
use plimsoll_tests::log_kit::{Ledger, Recorder, cluster, durable, ended, env};
use plimsoll_tests::{
    BytesProxy, Direction, Flow, RedisProgram, RedisServer, RedisServerOptions, eventually, eventually_within,
};
use standby::{Health, Standby, StandbyConfig, StandbyEnv, StepError};

use crate::support::{REQUEST_TIMEOUT, open, redis_or_skip, start, start_with, text};

/// A replica that hears of its master through the proxy only.
async fn replica_behind(program: &RedisProgram, proxy: &BytesProxy) -> RedisServer {
    let place = format!("{} {}", proxy.address().ip(), proxy.address().port());
    let replica = start_with(program, &[("replicaof", &place)]).await;
    eventually("the replica has caught up", async || {
        let info = replica.cli(&["INFO", "replication"]).await.unwrap();
        info.contains("master_link_status:up").then_some(())
    })
    .await;
    replica
}

async fn sentinel_of(program: &RedisProgram, master: &RedisServer) -> RedisServer {
    let options = RedisServerOptions { sentinel_of: Some(master.address()), ..RedisServerOptions::default() };
    RedisServer::start(program, options).await.expect("a sentinel starts")
}

fn options(sentinel: &RedisServer) -> RedisOptions {
    let (sentinels, master) = (vec![sentinel.address().to_string()], "main".into());
    let servers = RedisServers::Sentinel { sentinels, master, credentials: None };
    RedisOptions { request_timeout: REQUEST_TIMEOUT, ..RedisOptions::new(servers) }
}

async fn connect(sentinel: &RedisServer) -> Arc<RedisKv> {
    Arc::new(open(options(sentinel)).await.expect("the sentinel's master is reachable"))
}

/// The log over a store that may lose writes, which is said in words.
async fn log_on(kv: Arc<dyn TxnKv>) -> BatchStorage {
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    BatchStorage::open(kv, LogKeys::of(&cluster()), options).await.expect("the log opens")
}

async fn lead(kv: Arc<dyn TxnKv>) -> oplog_core::OrderedWriter {
    let storage = log_on(kv).await;
    storage.create_first_prefix().await.expect("the first prefix is there");
    let (replica, env) = (Replica::empty(Recorder::default()), env());
    let pause = Duration::from_millis(20);
    let claimed =
        oplog_core::claim_and_verify(storage, replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await.unwrap();
    let config = oplog_core::WriterConfig::default();
    oplog_core::OrderedWriter::start(claimed.into_parts().1, config, env).map_err(|(_, why)| why).expect("a writer")
}

fn follow(storage: BatchStorage) -> Standby<Recorder> {
    let env = StandbyEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy), watch: None };
    Standby::new(storage, Replica::empty(Recorder::default()), StandbyConfig::default(), env).expect("a standby")
}

/// Steps until the standby has applied that many entries.
async fn follow_to(standby: &mut Standby<Recorder>, entries: u64) {
    for _ in 0..2000 {
        let _ = standby.step().await;
        if standby.position().last_seq.get() >= entries {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the standby stays at {:?}", standby.position());
}

/// Steps until the standby gives its verdict.
async fn verdict(standby: &mut Standby<Recorder>) -> String {
    for _ in 0..2000 {
        match standby.step().await {
            Err(StepError::Unhealthy(fault)) => return fault.to_string(),
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the standby never said that it is ahead of the log");
}

#[tokio::test]
async fn r2_a_failover_by_sentinel_loses_writes_and_writer_and_standby_stop() {
    let program = redis_or_skip!("r2_a_failover_by_sentinel_loses_writes_and_writer_and_standby_stop");
    let master = start(&program).await;
    let proxy = BytesProxy::start(master.address()).await.unwrap();
    let replica = replica_behind(&program, &proxy).await;
    let sentinel = sentinel_of(&program, &master).await;
    let kv = connect(&sentinel).await;
    assert_eq!(kv.server(), master.address().to_string(), "the sentinel says where");
    let DurableAck::No { reason } = kv.capabilities().durable_ack else { panic!("Sentinel is never durable") };
    assert!(reason.contains("Sentinel"), "{reason}");
    let refused = BatchStorage::open(kv.clone(), LogKeys::of(&cluster()), OpenOptions::default()).await;
    assert!(refused.unwrap_err().to_string().contains("lost writes"));

    let writer = lead(kv).await;
    let ledger = Ledger::default();
    ledger.commit(&writer, "1").await;
    ledger.wait_for(1).await;
    eventually("the sentinel knows the replica, and it has the first entry", async || {
        let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", "main"]).await.unwrap();
        let (ours, theirs) = (offset(&master).await, offset(&replica).await);
        (replicas.contains(&replica.address().port().to_string()) && ours == theirs).then_some(())
    })
    .await;
    let mut standby = follow(log_on(connect(&sentinel).await).await);
    follow_to(&mut standby, 1).await;

    // Nothing reaches the replica any more; what is acknowledged from now on is on the master alone.
    proxy.set(Direction::ToClient, Flow::Swallow);
    ledger.commit(&writer, "2").await;
    ledger.commit(&writer, "3").await;
    assert_eq!(ledger.wait_for(3).await, durable(1..=3), "acknowledged");
    follow_to(&mut standby, 3).await;
    master.process().kill();
    eventually_within(Duration::from_secs(60), "the sentinel makes the replica the master", async || {
        let named = sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]).await.unwrap();
        named.contains(&replica.address().port().to_string()).then_some(())
    })
    .await;

    if let Ok(slot) = writer.reserve() {
        ledger.commit_reserved(slot, "4");
    }
    let terminal = ended(&writer).await;
    assert!(matches!(terminal, Terminal::Corrupt { .. }), "{terminal:?}");
    assert!(!ledger.seen().contains(&(4, Outcome::Durable)), "nothing is written over the gap");
    let fault = verdict(&mut standby).await;
    assert!(matches!(standby.health(), Health::Unhealthy { .. }), "{fault}");
    let prefix = log_on(connect(&sentinel).await).await.require_prefix().await.unwrap();
    assert_eq!(prefix.last_seq.get(), 1, "the store forgot two entries and nobody wrote since: {prefix:?}");
    assert_eq!(connect(&sentinel).await.server(), replica.address().to_string());
}

async fn offset(server: &RedisServer) -> String {
    let info = server.cli(&["INFO", "replication"]).await.unwrap();
    let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    line("slave_repl_offset:").or(line("master_repl_offset:")).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn r2_a_server_restored_from_an_older_file_stops_writer_and_standby() {
    let program = redis_or_skip!("r2_a_server_restored_from_an_older_file_stops_writer_and_standby");
    let mut server = start(&program).await;
    let kv = crate::support::connect(&server).await;
    let writer = lead(kv).await;
    let ledger = Ledger::default();
    ledger.commit(&writer, "1").await;
    ledger.wait_for(1).await;
    // A copy of the data as it is now, which an operator puts back later.
    let (data, copy) = (server.folder().join("appendonlydir"), tempfile::tempdir().unwrap());
    for file in std::fs::read_dir(&data).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    ledger.commit(&writer, "2").await;
    assert_eq!(ledger.wait_for(2).await, durable(1..=2));
    let mut standby = follow(log_on(crate::support::connect(&server).await).await);
    follow_to(&mut standby, 2).await;

    server.process().kill();
    for file in std::fs::read_dir(&data).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    for file in std::fs::read_dir(copy.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), data.join(file.file_name())).unwrap();
    }
    server.restart().await.unwrap();
    if let Ok(slot) = writer.reserve() {
        ledger.commit_reserved(slot, "3");
    }
    assert!(matches!(ended(&writer).await, Terminal::Corrupt { .. }), "{:?}", writer.status().borrow().terminal);
    verdict(&mut standby).await;
    assert!(matches!(standby.health(), Health::Unhealthy { .. }));
}

#[tokio::test]
async fn r2_a_master_that_was_demoted_answers_no_read_from_the_past() {
    let program = redis_or_skip!("r2_a_master_that_was_demoted_answers_no_read_from_the_past");
    let (old, new) = (start_with(&program, &[]).await, start_with(&program, &[]).await);
    let kv = crate::support::connect(&old).await;
    kv.put(b"k", "0".into()).await.unwrap();
    kv.get(b"k").await.unwrap();
    // Its connections live on, and it still has everything; but others are written to now.
    let (host, port) = (new.address().ip().to_string(), new.address().port().to_string());
    new.process().stop();
    old.cli(&["REPLICAOF", &host, &port]).await.unwrap();
    let error = kv.get(b"k").await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::ReadOnly, Effect::NotApplied), "{error}");
    let error = kv.put(b"k", "1".into()).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::ReadOnly, Effect::NotApplied), "{error}");
    old.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    let value = eventually("it is a master again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(value).as_deref(), Some("0"));
    new.process().cont();
}

#[tokio::test]
async fn sentinels_are_asked_in_turn_and_an_unknown_master_is_named() {
    let program = redis_or_skip!("sentinels_are_asked_in_turn_and_an_unknown_master_is_named");
    let master = start(&program).await;
    let (sentinel, dead) = (sentinel_of(&program, &master).await, sentinel_of(&program, &master).await);
    dead.process().kill();
    let with = |sentinels: Vec<String>, master: &str| {
        let servers = RedisServers::Sentinel { sentinels, master: master.into(), credentials: None };
        open(RedisOptions { request_timeout: REQUEST_TIMEOUT, ..RedisOptions::new(servers) })
    };
    let both = vec![dead.address().to_string(), sentinel.address().to_string()];
    let kv = with(both.clone(), "main").await.unwrap();
    kv.put(b"k", "v".into()).await.unwrap();
    let error = with(both, "other").await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    assert!(error.message.contains("other"), "{error}");
    // A sentinel named as a server, and a server named as a sentinel.
    let error = open(crate::support::options(sentinel.address())).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::InvalidArgument, "{error}");
    assert!(error.message.contains("redis-sentinel://"), "{error}");
    let error = with(vec![master.address().to_string()], "main").await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unsupported, Effect::NotApplied), "{error}");
}

/// A server that accepts connections, as a stopped process does, and never says a word.
async fn mute() -> (tokio::net::TcpListener, String) {
    let listener = tokio::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

#[tokio::test]
async fn silent_sentinels_do_not_keep_the_others_from_being_asked() {
    let program = redis_or_skip!("silent_sentinels_do_not_keep_the_others_from_being_asked");
    let master = start(&program).await;
    let proxy = BytesProxy::start(master.address()).await.unwrap();
    let behind = RedisServerOptions { sentinel_of: Some(proxy.address()), ..RedisServerOptions::default() };
    let sentinel = RedisServer::start(&program, behind).await.expect("a sentinel starts");
    let ((_one, first), (_two, second)) = (mute().await, mute().await);
    let sentinels = vec![first, second, sentinel.address().to_string()];
    let servers = RedisServers::Sentinel { sentinels, master: "main".into(), credentials: None };
    // One that is silent takes the time of a whole call.
    let connect_timeout = REQUEST_TIMEOUT;
    let options = RedisOptions { connect_timeout, request_timeout: REQUEST_TIMEOUT, ..RedisOptions::new(servers) };
    let kv = open(options).await.expect("the third one is asked");
    kv.put(b"k", "v".into()).await.unwrap();
    proxy.cut();
    let found = eventually("it is asked again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(found).as_deref(), Some("v"));
}
