//! Tests of partitions: one client is cut, the others are not.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{client, settle, swap};
use crate::faulty::{Fault, FaultPlan, Link, OpKind, Situation};
use crate::{Effect, Kv, KvErrorKind, MemoryKv, TxnKv, TxnOutcome, WatchKv};

#[tokio::test]
async fn a_cut_client_fails_at_once_and_cannot_tell() {
    let store = Arc::new(MemoryKv::new());
    let (cut, other) = (client(&store), client(&store));
    other.put(b"k", Bytes::from("1")).await.expect("put");
    cut.partition(true);
    let read = cut.get(b"k").await.expect_err("cut");
    assert_eq!((read.kind, read.effect), (KvErrorKind::Unavailable, Effect::NotApplied));
    let write = cut.txn(&swap("k", "1", "2")).await.expect_err("cut");
    assert_eq!((write.kind, write.effect), (KvErrorKind::Unavailable, Effect::Unknown));
    assert_eq!(other.txn(&swap("k", "1", "3")).await.expect("not cut"), TxnOutcome::Committed);
    cut.partition(false);
    assert_eq!(cut.get(b"k").await.expect("healed").as_deref(), Some(&b"3"[..]));
    assert_eq!(cut.count(Situation::RequestCut), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_flight_at_the_cut_is_unknown_and_may_have_applied() {
    let store = Arc::new(MemoryKv::new());
    store.put(b"k", Bytes::from("1")).await.expect("put");
    let kv = client(&store);
    kv.script(OpKind::Txn, Fault::HoldReply);
    let call = tokio::spawn({
        let kv = Arc::clone(&kv);
        async move { kv.txn(&swap("k", "1", "2")).await }
    });
    settle().await;
    kv.partition(true);
    kv.release();
    let error = call.await.expect("no panic").expect_err("cut");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Unavailable, Effect::Unknown));
    assert_eq!(store.get(b"k").await.expect("read").as_deref(), Some(&b"2"[..]));
    assert_eq!(kv.count(Situation::ReplyCut), 1);
}

#[tokio::test]
async fn cut_replies_apply_every_time() {
    let store = Arc::new(MemoryKv::new());
    store.put(b"k", Bytes::from("1")).await.expect("put");
    let kv = client(&store);
    kv.set_link(Link::RepliesCut);
    let error = kv.txn(&swap("k", "1", "2")).await.expect_err("cut");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown));
    assert_eq!(store.get(b"k").await.expect("read").as_deref(), Some(&b"2"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_hangs_until_it_ends_and_nothing_applies() {
    let store = Arc::new(MemoryKv::new());
    store.put(b"k", Bytes::from("1")).await.expect("put");
    let kv = client(&store);
    kv.black_hole(true);
    let call = tokio::spawn({
        let kv = Arc::clone(&kv);
        async move { kv.txn(&swap("k", "1", "2")).await }
    });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!call.is_finished());
    kv.black_hole(false);
    let error = call.await.expect("no panic").expect_err("swallowed");
    assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown));
    assert_eq!(store.get(b"k").await.expect("read").as_deref(), Some(&b"1"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_hints_ends_at_a_cut_and_is_deaf_in_a_black_hole() {
    let store = Arc::new(MemoryKv::new());
    let kv = client(&store);
    let hinted = async |stream: &mut crate::HintStream| {
        tokio::time::timeout(Duration::from_secs(1), stream.changed()).await.is_ok_and(|h| h.is_ok())
    };
    let mut stream = kv.watch(b"a", b"z").await.expect("watch");
    store.put(b"k", Bytes::new()).await.expect("put");
    assert!(hinted(&mut stream).await);
    kv.black_hole(true);
    store.put(b"k", Bytes::new()).await.expect("put");
    assert!(!hinted(&mut stream).await, "a hint came through the black hole");
    kv.black_hole(false);
    store.put(b"k", Bytes::new()).await.expect("put");
    assert!(hinted(&mut stream).await, "the watch went on");
    kv.plan_for(OpKind::Watch, FaultPlan { lose_hint: 1000, ..FaultPlan::NONE });
    store.put(b"k", Bytes::new()).await.expect("put");
    assert!(!hinted(&mut stream).await, "every hint is lost");
    assert!(kv.count(Situation::HintLost) >= 2);
    kv.partition(true);
    let end = stream.changed().await.expect_err("cut");
    assert_eq!(end.kind, KvErrorKind::Unavailable);
    assert!(kv.watch(b"a", b"z").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_client() {
    let store = Arc::new(MemoryKv::new());
    let kv = client(&store);
    let mut stream = kv.watch(b"a", b"z").await.expect("watch");
    drop(kv);
    assert_eq!(stream.changed().await.expect_err("the client is gone").kind, KvErrorKind::Unavailable);
}
