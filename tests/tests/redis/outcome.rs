//! What a failed or a dropped call says of its outcome, and that no reply is taken for another's (R4, R5).

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Effect, Kv as _, KvErrorKind, RedisOptions, TxnKv as _, TxnOutcome};
use plimsoll_tests::log_kit::held_request;
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually};

use crate::support::{REQUEST_TIMEOUT, connect, connect_to, open, options, redis_or_skip, start, swap, text};

/// More than any call may take, connection included, on a machine that does other things too.
const BOUND: Duration = Duration::from_secs(60);

#[tokio::test]
async fn r5_a_swallowed_reply_is_unknown_and_the_transaction_was_sent_once() {
    let program = redis_or_skip!("r5_a_swallowed_reply_is_unknown_and_the_transaction_was_sent_once");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let (kv, watcher) = (connect_to(proxy.address()).await, connect(&server).await);
    kv.put(b"k", "0".into()).await.unwrap();
    let ran = server.ran("evalsha").await.unwrap();

    proxy.set(Direction::ToClient, Flow::Swallow);
    let error = kv.txn(&swap("k", "0", "1")).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown), "{error}");
    assert_eq!(text(watcher.get(b"k").await.unwrap()).as_deref(), Some("1"), "it was applied all the same");
    // A layer that repeated it would get "compare failed" and could not tell it from a real one.
    watcher.put(b"k", "0".into()).await.unwrap();
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();
    eventually("the connection is made anew", async || kv.get(b"k").await.ok()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(text(watcher.get(b"k").await.unwrap()).as_deref(), Some("0"), "nobody sent it again");
    let writes_and_reads = server.ran("evalsha").await.unwrap() - ran;
    assert!(writes_and_reads >= 5, "the statistics count what they should: {writes_and_reads}");
}

#[tokio::test]
async fn r5_a_held_request_arrives_after_its_retry_and_fails_its_compare() {
    let program = redis_or_skip!("r5_a_held_request_arrives_after_its_retry_and_fails_its_compare");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let patient = RedisOptions { request_timeout: Duration::from_secs(60), ..options(proxy.address()) };
    let (kv, other) = (Arc::new(open(patient).await.unwrap()), connect(&server).await);
    kv.put(b"k", "0".into()).await.unwrap();

    proxy.set(Direction::ToServer, Flow::Hold);
    let held = tokio::spawn({
        let kv = Arc::clone(&kv);
        async move { kv.txn(&swap("k", "0", "1")).await }
    });
    held_request(&proxy).await;
    // The caller's next life reads, finds its compare still good, and sends the same again.
    assert_eq!(text(other.get(b"k").await.unwrap()).as_deref(), Some("0"));
    assert_eq!(other.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed);
    assert_eq!(other.txn(&swap("k", "1", "2")).await.unwrap(), TxnOutcome::Committed);
    proxy.set(Direction::ToServer, Flow::Pass);
    assert_eq!(held.await.unwrap().unwrap(), TxnOutcome::CompareFailed);
    assert_eq!(text(other.get(b"k").await.unwrap()).as_deref(), Some("2"), "nothing was written");
}

#[tokio::test]
async fn r5_a_black_hole_before_connect_is_bounded_and_applied_nothing() {
    let program = redis_or_skip!("r5_a_black_hole_before_connect_is_bounded_and_applied_nothing");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    proxy.set(Direction::ToClient, Flow::Swallow);
    let error = tokio::time::timeout(BOUND, open(options(proxy.address()))).await.expect("bounded").unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::NotApplied), "{error}");

    proxy.set(Direction::ToClient, Flow::Pass);
    let kv = connect_to(proxy.address()).await;
    kv.put(b"k", "0".into()).await.unwrap();
    // The connection goes, and the next one meets the hole in its admission: the write was never sent.
    proxy.set(Direction::ToClient, Flow::Swallow);
    proxy.cut();
    let error = eventually("the connection is known to be gone", async || {
        let error = tokio::time::timeout(BOUND, kv.txn(&swap("k", "0", "1"))).await.expect("bounded").unwrap_err();
        (error.effect == Effect::NotApplied).then_some(error)
    })
    .await;
    assert_eq!(error.kind, KvErrorKind::Timeout, "{error}");
    assert_eq!(text(connect(&server).await.get(b"k").await.unwrap()).as_deref(), Some("0"));
}

#[tokio::test]
async fn r5_a_stopped_server_is_bounded_for_all_who_wait_and_used_again() {
    let program = redis_or_skip!("r5_a_stopped_server_is_bounded_for_all_who_wait_and_used_again");
    let server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"k", "0".into()).await.unwrap();
    server.process().stop();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let kv = Arc::clone(&kv);
        waiting.spawn(async move { kv.txn(&swap("k", "0", "1")).await });
    }
    let waited = tokio::time::timeout(BOUND, waiting.join_all()).await.expect("bounded");
    assert!(waited.iter().all(|r| r.as_ref().is_err_and(|e| e.kind == KvErrorKind::Timeout)), "{waited:?}");
    server.process().cont();
    let value = eventually("the server is used again", async || kv.get(b"k").await.ok()).await;
    assert!(matches!(text(value).as_deref(), Some("0" | "1")), "one of the eight may have been applied");
}

#[tokio::test]
async fn r5_a_server_killed_for_five_seconds_is_bounded_and_used_again() {
    let program = redis_or_skip!("r5_a_server_killed_for_five_seconds_is_bounded_and_used_again");
    let mut server = start(&program).await;
    let kv = connect(&server).await;
    kv.put(b"k", "0".into()).await.unwrap();
    server.process().kill();
    let down = std::time::Instant::now();
    let mut refused = 0;
    while down.elapsed() < Duration::from_secs(5) {
        let error = tokio::time::timeout(BOUND, kv.put(b"k", "1".into())).await.expect("bounded").unwrap_err();
        assert_eq!(error.class(), ha_kv::ErrorClass::Transient, "{error}");
        if error.effect == Effect::NotApplied {
            refused += 1;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(refused > 0, "a server that cannot be connected to applied nothing, and the errors say so");
    server.restart().await.unwrap();
    let value = eventually("the server is used again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(value).as_deref(), Some("0"), "what was acknowledged is there, what was refused is not");
    assert_eq!(kv.txn(&swap("k", "0", "1")).await.unwrap(), TxnOutcome::Committed, "the scripts were loaded anew");
}

#[tokio::test]
async fn r5_a_caller_with_less_patience_than_the_request_timeout_gets_a_new_connection_too() {
    let program = redis_or_skip!("r5_a_caller_with_less_patience_than_the_request_timeout_gets_a_new_connection_too");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let patient = RedisOptions { request_timeout: Duration::from_secs(4), ..options(proxy.address()) };
    let kv = open(patient).await.unwrap();
    kv.put(b"k", "0".into()).await.unwrap();
    // This one connection is a hole; a new one would be none.
    proxy.connections()[0].set(Direction::ToClient, Flow::Swallow);
    let value = eventually("a new connection is made", async || {
        tokio::time::timeout(Duration::from_millis(1500), kv.get(b"k")).await.ok()?.ok()
    })
    .await;
    assert_eq!(text(value).as_deref(), Some("0"));
}

#[tokio::test]
async fn r4_dropped_calls_never_shift_the_replies_of_later_ones() {
    let program = redis_or_skip!("r4_dropped_calls_never_shift_the_replies_of_later_ones");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    // So patient that no pause of the machine makes an answer a slow one, for which a dropped call ends the connection.
    let patient = RedisOptions { request_timeout: Duration::from_secs(240), ..options(proxy.address()) };
    let kv = open(patient).await.unwrap();
    for n in 0..50_u32 {
        kv.put(format!("k{n}").as_bytes(), n.to_string().into()).await.unwrap();
    }
    let mut dropped = 0;
    for round in 0..200_u32 {
        let (given_up, wanted) = (round % 50, (round + 7) % 50);
        let key = format!("k{given_up}");
        // Held back, so that the call is certainly dropped between its request and its reply.
        proxy.set(Direction::ToClient, Flow::Hold);
        let abandoned = tokio::time::timeout(Duration::from_millis(3), kv.get(key.as_bytes())).await;
        dropped += u32::from(abandoned.is_err());
        proxy.set(Direction::ToClient, Flow::Pass);
        let found = kv.get(format!("k{wanted}").as_bytes()).await.unwrap();
        assert_eq!(text(found), Some(wanted.to_string()), "round {round}");
    }
    assert!(dropped > 100, "only {dropped} calls were dropped in mid-command");
    assert_eq!(proxy.connections().len(), 1, "an impatient caller alone does not end the connection");
}

#[tokio::test]
async fn r4_the_reply_of_another_request_is_refused_and_its_connection_ended() {
    let program = redis_or_skip!("r4_the_reply_of_another_request_is_refused_and_its_connection_ended");
    let server = start(&program).await;
    let crooked = crate::crooked::Crooked::start(server.address()).await;
    let kv = connect_to(crooked.address()).await;
    kv.put(b"a", "1".into()).await.unwrap();
    kv.put(b"b", "2".into()).await.unwrap();
    assert_eq!(text(kv.get(b"a").await.unwrap()).as_deref(), Some("1"));
    // The server's last reply comes a second time, in front of the next one: as a client that lost count would read it.
    crooked.repeat_last_reply();
    let error = kv.get(b"b").await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    assert!(error.message.contains("another request"), "{error}");
    assert_eq!(text(kv.get(b"b").await.unwrap()).as_deref(), Some("2"), "over a new connection");
    crooked.repeat_last_reply();
    let error = kv.txn(&swap("b", "2", "3")).await.unwrap_err();
    assert_eq!(error.effect, Effect::Unknown, "a write's own reply was never seen: {error}");
    assert_eq!(text(kv.get(b"b").await.unwrap()).as_deref(), Some("3"));
}

#[tokio::test]
async fn a_server_that_was_never_reached_applied_nothing() {
    let program = redis_or_skip!("a_server_that_was_never_reached_applied_nothing");
    let server = start(&program).await;
    server.process().kill();
    let error = open(options(server.address())).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    assert!(error.message.contains(&server.address().to_string()), "{error}");
    assert!(REQUEST_TIMEOUT < BOUND);
}
