//! Three members, one of which stops answering (W20 at the level of the store).

use std::time::Duration;

use ha_kv::{Effect, EtcdKv, EtcdOptions, Kv as _, KvErrorKind, LeaseKv as _, PutIfAbsent, TxnKv as _, TxnOutcome};
use plimsoll_tests::{EtcdCluster, eventually, eventually_within};

use crate::support::{BOUND, connect_to, etcd_or_skip, options, swap, text};

#[tokio::test]
async fn w20_the_member_we_talk_to_is_stopped() {
    let program = etcd_or_skip!("w20_the_member_we_talk_to_is_stopped");
    let cluster = EtcdCluster::start(&program).await.unwrap();
    let kv = connect_to(cluster.endpoints()).await;
    kv.put(b"k", "0".into()).await.unwrap();
    let (lease, _) = kv.grant(Duration::from_secs(10)).await.unwrap();
    assert_eq!(kv.put_if_absent(b"leader", "me".into(), lease).await.unwrap(), PutIfAbsent::Put);

    // Calls go to the first endpoint until it fails. Its kernel goes on accepting connections.
    cluster.members()[0].process().stop();
    let error = tokio::time::timeout(BOUND, kv.txn(&swap("k", "0", "1"))).await.expect("bounded").unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown), "{error}");
    assert!(error.message.contains(&cluster.members()[0].endpoint()), "{error}");

    // The next calls reach another member; while it elects a new leader they may time out there too.
    let value = eventually("another member answers", async || kv.get(b"k").await.ok()).await;
    let txn = match text(value).as_deref() {
        Some("0") => swap("k", "0", "2"),
        _ => swap("k", "1", "2"),
    };
    eventually("another member takes a write", async || {
        // One that timed out may have been applied, and then its repetition fails its compare.
        let _ = kv.txn(&txn).await;
        (text(kv.get(b"k").await.ok()?).as_deref() == Some("2")).then_some(())
    })
    .await;
    eventually("the lease is kept", async || kv.keep_alive(lease).await.ok()).await;
    assert_eq!(text(kv.get(b"leader").await.unwrap()).as_deref(), Some("me"));

    // The stopped member comes back with what it had read; it must not undo anything.
    cluster.members()[0].process().cont();
    assert_eq!(kv.txn(&swap("k", "2", "3")).await.unwrap(), TxnOutcome::Committed);
}

#[tokio::test]
async fn w20_a_caller_with_less_patience_than_the_request_timeout_reaches_another_member_too() {
    let program = etcd_or_skip!("w20_a_caller_with_less_patience_than_the_request_timeout_reaches_another_member_too");
    let cluster = EtcdCluster::start(&program).await.unwrap();
    // The transport's own pings, which would find the connection dead in the end, do not come into it.
    let (request_timeout, keep_alive) = (Duration::from_secs(2), Duration::from_secs(600));
    let quick = EtcdOptions { request_timeout, keep_alive, ..options(cluster.endpoints()) };
    let kv = EtcdKv::connect(quick).await.unwrap();
    kv.put(b"k", "0".into()).await.unwrap();
    cluster.members()[0].process().stop();
    // Half a second is slow: a caller that waits 800 ms at most is sent on, though no call of its own ever times out.
    eventually_within(BOUND, "another member answers in time", async || {
        tokio::time::timeout(Duration::from_millis(800), kv.get(b"k")).await.ok()?.ok()
    })
    .await;
}

/// A member that lost the others says so itself, before it proposes anything.
#[tokio::test]
async fn w11_a_member_without_a_leader_says_so_and_applies_nothing() {
    let program = etcd_or_skip!("w11_a_member_without_a_leader_says_so_and_applies_nothing");
    let cluster = EtcdCluster::start(&program).await.unwrap();
    let [gone, gone_too, left] = cluster.members() else { panic!("three members") };
    let kv = connect_to([left.endpoint()]).await;
    kv.put(b"k", "0".into()).await.unwrap();
    for member in [gone, gone_too] {
        member.process().stop();
    }
    let error = eventually("it notices", async || {
        let error = kv.txn(&swap("k", "unlikely", "1")).await.unwrap_err();
        error.message.contains("no leader").then_some(error)
    })
    .await;
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::NotApplied), "{error}");
    for member in [gone, gone_too] {
        member.process().cont();
    }
    let value = eventually("it has a leader again", async || kv.get(b"k").await.ok()).await;
    assert_eq!(text(value).as_deref(), Some("0"));
}

#[tokio::test]
async fn connecting_needs_only_one_member_that_answers() {
    let program = etcd_or_skip!("connecting_needs_only_one_member_that_answers");
    let cluster = EtcdCluster::start(&program).await.unwrap();
    cluster.members()[0].process().stop();
    let kv = eventually("the others elect a leader", async || EtcdKv::connect(options(cluster.endpoints())).await.ok())
        .await;
    kv.put(b"k", "v".into()).await.unwrap();
}
