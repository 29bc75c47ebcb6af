//! Leases and hints over restarts, silence and races.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Effect, Kv as _, KvErrorKind, LeaseKv as _, PutIfAbsent, WatchKv as _};
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually, eventually_within};

use crate::support::{connect, connect_to, redis_or_skip, start};

/// Long enough that no machine is too slow for it.
const LONG: Duration = Duration::from_secs(600);
const BOUND: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_lease_outlives_a_restart_of_the_server_and_ends_when_nobody_asks() {
    let program = redis_or_skip!("a_lease_outlives_a_restart_of_the_server_and_ends_when_nobody_asks");
    let mut server = start(&program).await;
    let (kv, other) = (connect(&server).await, connect(&server).await);
    let (lease, _) = kv.grant(LONG).await.unwrap();
    assert_eq!(kv.put_if_absent(b"leader", "a".into(), lease).await.unwrap(), PutIfAbsent::Put);
    server.process().kill();
    server.restart().await.unwrap();
    eventually("the lease is kept alive", async || kv.keep_alive(lease).await.ok()).await;
    let (theirs, _) = eventually("a lease is granted", async || other.grant(LONG).await.ok()).await;
    let held = other.put_if_absent(b"leader", "b".into(), theirs).await.unwrap();
    assert_eq!(held, PutIfAbsent::Held("a".into()), "the restart freed nothing");
    assert_eq!(kv.put_if_absent(b"leader", "a".into(), lease).await.unwrap(), PutIfAbsent::Put, "asked again");

    let (short, granted) = kv.grant(Duration::from_secs(10)).await.unwrap();
    assert_eq!(granted, Duration::from_secs(10));
    assert_eq!(kv.put_if_absent(b"short", "a".into(), short).await.unwrap(), PutIfAbsent::Put);
    let taken = eventually_within(BOUND, "the key of a silent holder is taken over", async || {
        let answer = other.put_if_absent(b"short", "b".into(), theirs).await.unwrap();
        (answer == PutIfAbsent::Put).then_some(answer)
    })
    .await;
    assert_eq!(taken, PutIfAbsent::Put);
    assert_eq!(kv.keep_alive(short).await.unwrap_err().kind, KvErrorKind::LeaseNotFound);
    kv.revoke(short).await.unwrap();
    assert_eq!(other.get(b"short").await.unwrap().as_deref(), Some(&b"b"[..]), "the new holder's key stays");
}

#[tokio::test]
async fn a_keep_alive_without_an_answer_says_nothing_of_the_lease() {
    let program = redis_or_skip!("a_keep_alive_without_an_answer_says_nothing_of_the_lease");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let kv = connect_to(proxy.address()).await;
    let (lease, _) = kv.grant(LONG).await.unwrap();
    proxy.set(Direction::ToClient, Flow::Swallow);
    let error = kv.keep_alive(lease).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown), "{error}");
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();
    eventually("the lease lives", async || kv.keep_alive(lease).await.ok()).await;
}

#[tokio::test]
async fn of_many_candidates_one_gets_the_key() {
    let program = redis_or_skip!("of_many_candidates_one_gets_the_key");
    let server = start(&program).await;
    let mut racing = tokio::task::JoinSet::new();
    let start_line = Arc::new(tokio::sync::Barrier::new(12));
    for number in 0..12_u8 {
        let (kv, start_line) = (connect(&server).await, start_line.clone());
        racing.spawn(async move {
            let (lease, _) = kv.grant(LONG).await.unwrap();
            start_line.wait().await;
            kv.put_if_absent(b"leader", vec![number].into(), lease).await.unwrap()
        });
    }
    let answers = racing.join_all().await;
    let won = answers.iter().filter(|answer| **answer == PutIfAbsent::Put).count();
    assert_eq!(won, 1, "{answers:?}");
    let leader = connect(&server).await.get(b"leader").await.unwrap().unwrap();
    let losers: Vec<_> = answers.iter().filter(|answer| **answer != PutIfAbsent::Put).collect();
    assert!(losers.iter().all(|answer| **answer == PutIfAbsent::Held(leader.clone())), "{answers:?}");
}

#[tokio::test]
async fn a_watch_ends_in_time_when_its_server_stops_answering_and_the_next_one_hints() {
    let program = redis_or_skip!("a_watch_ends_in_time_when_its_server_stops_answering_and_the_next_one_hints");
    let server = start(&program).await;
    let (kv, writer) = (connect(&server).await, connect(&server).await);
    let mut hints = kv.watch(b"a", b"z").await.unwrap();
    hints.changed().await.unwrap();
    writer.put(b"k", "1".into()).await.unwrap();
    tokio::time::timeout(BOUND, hints.changed()).await.expect("a change is hinted at").unwrap();
    server.process().stop();
    let ended = async {
        loop {
            // A hint may have waited.
            if let Err(error) = hints.changed().await {
                return error;
            }
        }
    };
    let error = tokio::time::timeout(BOUND, ended).await.expect("the watch ends");
    assert_eq!(error.class(), ha_kv::ErrorClass::Transient, "{error}");
    assert!(kv.watch(b"a", b"z").await.is_err(), "no watch stands while nobody answers");
    server.process().cont();
    let mut hints = eventually("a watch is set up", async || kv.watch(b"a", b"z").await.ok()).await;
    hints.changed().await.unwrap();
    eventually("a write is taken", async || writer.put(b"k", "2".into()).await.ok()).await;
    tokio::time::timeout(BOUND, hints.changed()).await.expect("a change is hinted at").unwrap();
}
