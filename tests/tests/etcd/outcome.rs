//! What a failed write says about its outcome, at the level of the store (W1, W2 below the log).

use ha_kv::{Effect, Kv as _, KvErrorKind, TxnKv as _, TxnOutcome};
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually};

use crate::log_kit::held_request;
use crate::support::{connect, connect_to, etcd_or_skip, start, swap, text};

#[tokio::test]
async fn w1_a_swallowed_reply_is_unknown_and_the_transaction_was_sent_once() {
    let program = etcd_or_skip!("w1_a_swallowed_reply_is_unknown_and_the_transaction_was_sent_once");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let (kv, watcher) = (connect_to([proxy.endpoint()]).await, connect(&server).await);
    kv.put(b"k", "0".into()).await.unwrap();
    let answered = server.answered("Txn").await.unwrap();

    proxy.set(Direction::ToClient, Flow::Swallow);
    let error = kv.txn(&swap("k", "0", "1")).await.unwrap_err();
    assert_eq!(error.effect, Effect::Unknown, "{error}");
    assert_eq!(text(watcher.get(b"k").await.unwrap()).as_deref(), Some("1"), "it was applied all the same");
    // A layer that repeated it would get "compare failed" and could not tell it from a real one.
    watcher.put(b"k", "0".into()).await.unwrap();
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();
    eventually("the connection is made anew", async || kv.get(b"k").await.ok()).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(text(watcher.get(b"k").await.unwrap()).as_deref(), Some("0"), "nobody sent it again");
    assert_eq!(server.answered("Txn").await.unwrap(), answered + 1, "the server saw it once");
}

#[tokio::test]
async fn w2_a_held_request_arrives_after_the_retry_and_fails_its_compare() {
    let program = etcd_or_skip!("w2_a_held_request_arrives_after_the_retry_and_fails_its_compare");
    let server = start(&program).await;
    let (first, second) =
        (BytesProxy::start(server.address()).await.unwrap(), BytesProxy::start(server.address()).await.unwrap());
    let kv = connect_to([first.endpoint(), second.endpoint()]).await;
    kv.put(b"k", "0".into()).await.unwrap();

    first.set(Direction::ToServer, Flow::Hold);
    let txn = swap("k", "0", "1");
    let (error, request) = tokio::join!(kv.txn(&txn), held_request(&first));
    let error = error.unwrap_err();
    assert_eq!(error.effect, Effect::Unknown, "{error}");
    // The caller reads, finds its compare still good, and sends again: another member, another connection.
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("0"));
    assert_eq!(kv.txn(&txn).await.unwrap(), TxnOutcome::Committed);
    assert_eq!(kv.txn(&swap("k", "1", "2")).await.unwrap(), TxnOutcome::Committed);
    // Only now the first request arrives, without the client's later word that it lost interest.
    let (revision, answered) = (revision_of(&server).await, server.answered("Txn").await.unwrap());
    first.set(Direction::ToServer, Flow::PassFirst(request));
    eventually("the server has judged the held request", async || {
        (server.answered("Txn").await.unwrap() > answered).then_some(())
    })
    .await;
    assert_eq!(text(kv.get(b"k").await.unwrap()).as_deref(), Some("2"), "it failed its compare");
    assert_eq!(revision_of(&server).await, revision, "nothing was written");
}

async fn revision_of(server: &plimsoll_tests::EtcdServer) -> u64 {
    let status = server.ctl(&["get", "k", "-w", "json"]).await.unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    status["header"]["revision"].as_u64().unwrap()
}

#[tokio::test]
async fn a_server_that_was_never_reached_applied_nothing() {
    let program = etcd_or_skip!("a_server_that_was_never_reached_applied_nothing");
    let server = start(&program).await;
    let kv = connect(&server).await;
    server.process().kill();
    // The first call may meet the dying connection; once that is gone the refusal to connect is proof.
    let error = eventually("the connection is known to be gone", async || {
        let error = kv.put(b"k", "v".into()).await.unwrap_err();
        (error.effect == Effect::NotApplied).then_some(error)
    })
    .await;
    assert_eq!(error.kind, KvErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn an_idle_connection_is_left_alone_by_the_server() {
    let program = etcd_or_skip!("an_idle_connection_is_left_alone_by_the_server");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let kv = connect_to([proxy.endpoint()]).await;
    kv.put(b"k", "v".into()).await.unwrap();
    // Several of our keep-alive pauses. The server ends connections whose client pings too often.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(proxy.connections().len(), 1, "still the first connection");
    kv.put(b"k", "w".into()).await.unwrap();
}
