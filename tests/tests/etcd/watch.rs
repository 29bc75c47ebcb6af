//! Watches on a real server (W14).

use std::time::Duration;

use ha_kv::{EtcdKv, EtcdOptions, HintStream, Kv as _, KvErrorKind, LeaseKv as _, PutIfAbsent, WatchKv as _};
use plimsoll_tests::eventually;

use crate::support::{BOUND, connect, etcd_or_skip, options, start};

async fn hint(hints: &mut HintStream) {
    tokio::time::timeout(BOUND, hints.changed()).await.expect("a hint comes").expect("the watch lives");
}

async fn is_quiet(hints: &mut HintStream) -> bool {
    tokio::time::timeout(Duration::from_millis(300), hints.changed()).await.is_err()
}

#[tokio::test]
async fn changes_in_the_range_are_hinted_and_others_are_not() {
    let program = etcd_or_skip!("changes_in_the_range_are_hinted_and_others_are_not");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let mut hints = kv.watch(b"b", b"c").await.unwrap();
    hint(&mut hints).await;
    assert!(is_quiet(&mut hints).await);
    kv.put(b"b", "1".into()).await.unwrap();
    hint(&mut hints).await;
    kv.put(b"c", "1".into()).await.unwrap();
    assert!(is_quiet(&mut hints).await, "the end does not belong to the range");
    kv.delete(b"b").await.unwrap();
    hint(&mut hints).await;
    let (lease, _) = kv.grant(Duration::from_secs(60)).await.unwrap();
    assert_eq!(kv.put_if_absent(b"bb", "1".into(), lease).await.unwrap(), PutIfAbsent::Put);
    hint(&mut hints).await;
    kv.revoke(lease).await.unwrap();
    hint(&mut hints).await;
}

#[tokio::test]
async fn w14_a_watch_ends_in_time_when_its_server_stops_answering() {
    let program = etcd_or_skip!("w14_a_watch_ends_in_time_when_its_server_stops_answering");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let mut hints = kv.watch(b"b", b"c").await.unwrap();
    hint(&mut hints).await;
    server.process().stop();
    let ended = tokio::time::timeout(BOUND, hints.changed()).await.expect("a bounded end").unwrap_err();
    // It was asked for a sign of life. The connection's own pings would have noticed later, and in other words.
    assert!(ended.kind == KvErrorKind::Timeout && ended.message.contains("did not answer within"), "{ended}");
    // Setting up another is refused in time too, and works once the server is back.
    assert!(tokio::time::timeout(BOUND, kv.watch(b"b", b"c")).await.expect("bounded").is_err());
    server.process().cont();
    let mut hints = eventually("the watch is set up again", async || kv.watch(b"b", b"c").await.ok()).await;
    hint(&mut hints).await;
    kv.put(b"b", "1".into()).await.unwrap();
    hint(&mut hints).await;
}

/// A server with nothing to say gives a sign of life when it is asked, and the watch goes on.
#[tokio::test]
async fn w14_a_quiet_watch_asks_its_server_for_a_sign_of_life_and_goes_on() {
    let program = etcd_or_skip!("w14_a_quiet_watch_asks_its_server_for_a_sign_of_life_and_goes_on");
    let server = start(&program).await;
    // Quick to ask, and slow to take no answer for an end.
    let (keep_alive, request_timeout) = (Duration::from_millis(100), Duration::from_secs(60));
    let impatient = EtcdOptions { keep_alive, request_timeout, ..options([server.endpoint()]) };
    let kv = EtcdKv::connect(impatient).await.unwrap();
    let mut hints = kv.watch(b"b", b"c").await.unwrap();
    hint(&mut hints).await;
    let created = server.received("Watch").await.unwrap();
    let asked = eventually("it is asked three times", async || {
        (server.received("Watch").await.unwrap() >= created + 3).then_some(())
    });
    tokio::select! {
        () = asked => {}
        ended = hints.changed() => panic!("nothing has changed, and nothing is wrong: {ended:?}"),
    }
    kv.put(b"b", "1".into()).await.unwrap();
    hint(&mut hints).await;
}

#[tokio::test]
async fn w14_a_watch_ends_when_its_server_dies() {
    let program = etcd_or_skip!("w14_a_watch_ends_when_its_server_dies");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let mut hints = kv.watch(b"b", b"c").await.unwrap();
    hint(&mut hints).await;
    server.process().kill();
    let ended = tokio::time::timeout(BOUND, hints.changed()).await.expect("a bounded end").unwrap_err();
    assert_eq!(ended.kind, KvErrorKind::Unavailable, "{ended}");
}
