//! A writer on a server that is restarted, that takes less than it did, or that trusts us no more (W5, W9, W13).

use std::time::Duration;

use ha_kv::{ErrorClass, EtcdCredentials, EtcdKv, EtcdOptions, KvErrorKind};
use oplog_core::{Closed, CommitError, OrderedWriter, Outcome};
use plimsoll_tests::log_kit::{cluster, entry, fold, lead};
use plimsoll_tests::{EtcdServer, EtcdServerOptions, eventually};

use crate::support::{connect, etcd_or_skip, options, start, start_with};

async fn commit(writer: &OrderedWriter, payload: &[u8]) -> Outcome {
    let slot = eventually("admission is open", async || writer.reserve().ok()).await;
    let ticket = slot.commit(entry(payload)).unwrap();
    // Far above what a loaded machine needs, and far below for ever.
    tokio::time::timeout(Duration::from_secs(60), ticket).await.expect("the writer recovers")
}

#[tokio::test]
async fn w5_a_server_restarted_with_a_64_kib_limit_gets_the_batch_in_parts() {
    let program = etcd_or_skip!("w5_a_server_restarted_with_a_64_kib_limit_gets_the_batch_in_parts");
    let mut server = start(&program).await;
    let (_, writer) = lead(connect(&server).await).await;
    let small = EtcdServerOptions { max_request_bytes: Some(64 << 10), ..Default::default() };
    server.restart(small).await.unwrap();
    // The broken connection is found out with a batch that the server takes.
    assert_eq!(commit(&writer, b"first").await, Outcome::Durable);

    let slots = eventually("a free queue", async || writer.reserve_many(1024).ok()).await;
    let payload = |n: usize| [&n.to_le_bytes()[..], &[7; 2040]].concat();
    let tickets: Vec<_> =
        slots.into_iter().enumerate().map(|(n, slot)| slot.commit(entry(&payload(n))).unwrap()).collect();
    for (ticket, seq) in tickets.into_iter().zip(2..) {
        assert_eq!((ticket.seq().get(), ticket.await), (seq, Outcome::Durable));
    }
    let metrics = writer.metrics();
    assert!(metrics.cuts > 0 && metrics.seal_bytes < 64 << 10, "{metrics:?}");
    let refused = writer.ready().await.unwrap().commit(entry(&vec![7; 3 << 20])).unwrap_err();
    assert!(matches!(refused, CommitError::TooLarge { .. }), "{refused}");
    assert_eq!(commit(&writer, b"last").await, Outcome::Durable);
    assert!(writer.metrics().retries <= metrics.retries + 5, "never retried for ever");
    // Read by a client that knows the server's limit.
    let kv =
        EtcdKv::connect(EtcdOptions { max_request_bytes: 64 << 10, ..options([server.endpoint()]) }).await.unwrap();
    let storage = oplog_core::BatchStorage::open(
        std::sync::Arc::new(kv),
        oplog_core::LogKeys::of(&cluster()),
        oplog_core::OpenOptions { max_batch_bytes: 48 << 10, ..Default::default() },
    );
    let storage = storage.await.unwrap();
    let mut replica = oplog_core::Replica::empty(plimsoll_tests::log_kit::Recorder::default());
    oplog_core::catch_up(&storage, &mut replica, &storage.require_prefix().await.unwrap(), 1 << 20).await.unwrap();
    let entries = &replica.machine().entries;
    assert_eq!(entries.len(), 1026);
    assert!(entries[1..1025].iter().enumerate().all(|(n, (_, stored))| *stored == payload(n)), "the same, in order");
}

#[tokio::test]
async fn w9_a_server_that_is_killed_for_seconds_is_waited_for_and_what_waited_is_written() {
    let program = etcd_or_skip!("w9_a_server_that_is_killed_for_seconds_is_waited_for_and_what_waited_is_written");
    let mut server = start(&program).await;
    let (_, writer) = lead(connect(&server).await).await;
    assert_eq!(commit(&writer, b"1").await, Outcome::Durable);
    let slots = writer.reserve_many(3).unwrap();
    server.process().kill();
    let tickets: Vec<_> =
        slots.into_iter().zip([b"2", b"3", b"4"]).map(|(slot, payload)| slot.commit(entry(payload)).unwrap()).collect();
    let mut status = writer.status();
    let closed = status.wait_for(|s| !s.accepting).await.unwrap().closed.expect("a reason");
    assert_eq!(closed.class(), ErrorClass::Transient, "{closed:?}");
    let since = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(writer.reserve().is_err());
    // Pauses double up to a second, however long the sleep really was.
    assert!(writer.metrics().retries <= 24 + 2 * since.elapsed().as_secs(), "attempts are bounded by the backoff");
    assert!(tickets.iter().all(|ticket| ticket.outcome().is_none()));
    server.restart(EtcdServerOptions::default()).await.unwrap();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(commit(&writer, b"5").await, Outcome::Durable);
    assert_eq!(fold(connect(&server).await).await.texts(), ["1", "2", "3", "4", "5"]);
}

fn trusted(server: &EtcdServer) -> EtcdOptions {
    let credentials = EtcdCredentials { user: "root".into(), password: "secret".into() };
    EtcdOptions { credentials: Some(credentials), ..options([server.endpoint()]) }
}

#[tokio::test]
async fn w13_a_writer_outlives_its_token_and_waits_for_an_operator_where_the_password_is_wrong() {
    let program =
        etcd_or_skip!("w13_a_writer_outlives_its_token_and_waits_for_an_operator_where_the_password_is_wrong");
    let server = start_with(&program, EtcdServerOptions { auth_token_ttl_s: Some(1), ..Default::default() }).await;
    server.enable_auth("secret").await.unwrap();
    let kv = EtcdKv::connect(trusted(&server)).await.unwrap();
    let (_, writer) = lead(std::sync::Arc::new(kv)).await;
    assert_eq!(commit(&writer, b"1").await, Outcome::Durable);
    tokio::time::sleep(Duration::from_millis(3500)).await;
    let retries = writer.metrics().retries;
    assert_eq!(commit(&writer, b"2").await, Outcome::Durable);
    // One call fails and the next is let in; a loaded machine may add requests that were too slow, or a token that ran out again
    // before it was used. A loop would add dozens.
    assert!((1..=10).contains(&(writer.metrics().retries - retries)), "one failed call, then authenticated again");

    let root = |password: &str| format!("root:{password}");
    let (old, new) = (root("secret"), root("changed"));
    server.ctl(&["--user", &old, "auth", "disable"]).await.unwrap();
    server.ctl(&["user", "delete", "root"]).await.unwrap();
    server.enable_auth("changed").await.unwrap();
    let ticket = writer.ready().await.unwrap().commit(entry(b"3")).unwrap();
    let mut status = writer.status();
    let untrusted = Closed::Store(KvErrorKind::Auth);
    let closed = tokio::time::timeout(Duration::from_secs(60), status.wait_for(|s| s.closed == Some(untrusted)));
    assert_eq!(closed.await.unwrap().unwrap().terminal, None);
    let (before, since) = (writer.metrics().retries, tokio::time::Instant::now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Pauses double up to a second: the bound holds from the first millisecond on, however long the sleep really was.
    let most = 12 + 2 * since.elapsed().as_secs();
    assert!(writer.metrics().retries - before <= most, "a wrong password does not loop");
    assert_eq!(ticket.outcome(), None);
    server.ctl(&["--user", &new, "auth", "disable"]).await.unwrap();
    server.ctl(&["user", "delete", "root"]).await.unwrap();
    server.enable_auth("secret").await.unwrap();
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), ticket).await.unwrap(), Outcome::Durable);
    assert_eq!(commit(&writer, b"4").await, Outcome::Durable);
    let kv = EtcdKv::connect(trusted(&server)).await.unwrap();
    assert_eq!(fold(std::sync::Arc::new(kv)).await.texts(), ["1", "2", "3", "4"]);
}
