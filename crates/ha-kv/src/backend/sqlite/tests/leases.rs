//! Tests of leases between handles whose clocks have nothing to do with each other.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use ha_types::ManualClock;

use super::{Home, open_with, raw};
use crate::{Effect, Kv, KvErrorKind, LeaseId, LeaseKv, PutIfAbsent, SqliteKv, SqliteOptions};

const TTL: Duration = Duration::from_secs(2);
const KEY: &[u8] = b"leader";

struct Node {
    clock: Arc<ManualClock>,
    kv: SqliteKv,
}

impl Node {
    async fn open(home: &Home) -> Self {
        let clock = Arc::new(ManualClock::new());
        let options = SqliteOptions { busy_timeout: Duration::from_millis(50), ..home.options() };
        Self { kv: open_with(options, clock.clone()).await.expect("opens"), clock }
    }

    async fn grant(&self) -> LeaseId {
        self.kv.grant(TTL).await.expect("granted").0
    }

    async fn campaign(&self, lease: LeaseId, name: &'static str) -> PutIfAbsent {
        self.kv.put_if_absent(KEY, Bytes::from(name), lease).await.expect("answered")
    }
}

fn held_by(name: &'static str) -> PutIfAbsent {
    PutIfAbsent::Held(Bytes::from(name))
}

#[tokio::test]
async fn takeover_needs_a_whole_ttl_of_the_candidates_own_clock() {
    let home = Home::new();
    let (a, b) = (Node::open(&home).await, Node::open(&home).await);
    let lease_a = a.grant().await;
    assert_eq!(a.campaign(lease_a, "a").await, PutIfAbsent::Put);
    // The holder's clock stands still: it is stopped. The candidate's says what it likes before its first look, a grant or a put.
    b.clock.advance(Duration::from_secs(1));
    let lease_b = b.grant().await;
    assert_eq!(b.campaign(lease_b, "b").await, held_by("a"));
    b.kv.keep_alive(lease_b).await.expect("alive");
    b.clock.advance(TTL - Duration::from_millis(1));
    assert_eq!(b.campaign(lease_b, "b").await, held_by("a"), "a millisecond early");
    b.kv.keep_alive(lease_b).await.expect("alive");
    b.clock.advance(Duration::from_millis(1));
    assert_eq!(b.campaign(lease_b, "b").await, PutIfAbsent::Put);
    // The old holder resumes and believes that no time has passed.
    let resumed = a.kv.keep_alive(lease_a).await.expect_err("it was taken over");
    assert_eq!((resumed.kind, resumed.effect), (KvErrorKind::LeaseNotFound, Effect::NotApplied));
    let again = a.kv.put_if_absent(KEY, Bytes::from("a"), lease_a).await.expect_err("it was taken over");
    assert_eq!(again.kind, KvErrorKind::LeaseNotFound);
    assert_eq!(a.kv.get(KEY).await.expect("read").as_deref(), Some(&b"b"[..]));
}

#[tokio::test]
async fn the_first_look_never_takes_over_however_late_it_is() {
    let home = Home::new();
    let (a, b) = (Node::open(&home).await, Node::open(&home).await);
    let lease_a = a.grant().await;
    assert_eq!(a.campaign(lease_a, "a").await, PutIfAbsent::Put);
    b.clock.advance(Duration::from_secs(3600));
    let lease_b = b.grant().await;
    assert_eq!(b.campaign(lease_b, "b").await, held_by("a"));
}

#[tokio::test]
async fn a_keep_alive_starts_the_candidates_wait_anew() {
    let home = Home::new();
    let (a, b) = (Node::open(&home).await, Node::open(&home).await);
    let (lease_a, lease_b) = (a.grant().await, b.grant().await);
    assert_eq!(a.campaign(lease_a, "a").await, PutIfAbsent::Put);
    assert_eq!(b.campaign(lease_b, "b").await, held_by("a"));
    for _ in 0..5 {
        b.clock.advance(TTL * 3 / 4);
        a.kv.keep_alive(lease_a).await.expect("alive");
        b.kv.keep_alive(lease_b).await.expect("alive");
        assert_eq!(b.campaign(lease_b, "b").await, held_by("a"));
    }
    b.clock.advance(TTL / 2);
    b.kv.keep_alive(lease_b).await.expect("alive");
    b.clock.advance(TTL / 2);
    assert_eq!(b.campaign(lease_b, "b").await, PutIfAbsent::Put);
}

#[tokio::test]
async fn a_keep_alive_between_look_and_takeover_wins() {
    let home = Home::new();
    let (a, b) = (Node::open(&home).await, Node::open(&home).await);
    let (lease_a, lease_b) = (a.grant().await, b.grant().await);
    assert_eq!(a.campaign(lease_a, "a").await, PutIfAbsent::Put);
    assert_eq!(b.campaign(lease_b, "b").await, held_by("a"));
    b.clock.advance(TTL - Duration::from_millis(1));
    b.kv.keep_alive(lease_b).await.expect("alive");
    b.clock.advance(Duration::from_millis(1));
    // The candidate has decided to take over; before it has the write lock the holder's keep-alive lands.
    a.kv.keep_alive(lease_a).await.expect("alive");
    let inner = Arc::clone(&b.kv.inner);
    let taken = b.kv.write(move |connection| inner.take(connection, KEY, b"b", lease_b)).await.expect("answered");
    assert_eq!(taken, held_by("a"));
    a.kv.keep_alive(lease_a).await.expect("still the holder");
}

#[tokio::test]
async fn a_holder_past_its_own_ttl_gives_up_and_frees_the_key() {
    let home = Home::new();
    let (a, b) = (Node::open(&home).await, Node::open(&home).await);
    let lease_a = a.grant().await;
    assert_eq!(a.campaign(lease_a, "a").await, PutIfAbsent::Put);
    a.clock.advance(TTL);
    assert_eq!(a.kv.keep_alive(lease_a).await.expect_err("too late").kind, KvErrorKind::LeaseNotFound);
    let lease_b = b.grant().await;
    assert_eq!(b.campaign(lease_b, "b").await, PutIfAbsent::Put, "nobody has to wait for it any more");
}

#[tokio::test]
async fn a_dropped_keep_alive_leaves_the_lease_usable() {
    let home = Home::new();
    let a = Node::open(&home).await;
    let lease = a.grant().await;
    assert_eq!(a.campaign(lease, "a").await, PutIfAbsent::Put);
    for _ in 0..20 {
        let mut call = a.kv.keep_alive(lease);
        std::future::poll_fn(|context| {
            let _ = call.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        drop(call);
        a.kv.keep_alive(lease).await.expect("whether the dropped one landed or not");
    }
}

#[tokio::test]
async fn a_counter_that_went_back_is_not_ours() {
    let home = Home::new();
    let a = Node::open(&home).await;
    let lease = a.grant().await;
    for _ in 0..3 {
        a.kv.keep_alive(lease).await.expect("alive");
    }
    // The file was restored from a copy of an earlier moment.
    raw(&home.file()).execute("UPDATE lease SET beat = beat - 1", []).expect("set back");
    assert_eq!(a.kv.keep_alive(lease).await.expect_err("not ours").kind, KvErrorKind::LeaseNotFound);
}

#[tokio::test]
async fn leases_of_the_dead_do_not_pile_up() {
    let home = Home::new();
    let count =
        || -> i64 { raw(&home.file()).query_row("SELECT count(*) FROM lease", [], |r| r.get(0)).expect("counted") };
    for _ in 0..5 {
        let _forgotten = Node::open(&home).await.grant().await;
    }
    let b = Node::open(&home).await;
    let _first = b.grant().await;
    assert_eq!(count(), 6);
    b.clock.advance(TTL);
    let _second = b.grant().await;
    // Its own first one has run out, too, and ends with its next keep-alive.
    assert_eq!(count(), 2);
}

/// The lock is held by somebody who does not go on; the other processes wait, and are told that nothing was applied.
#[tokio::test]
async fn w15_holder_stopped_inside_a_transaction_keeps_the_lock() {
    let home = Home::new();
    let mut holder = super::child::Child::start("hold-lock", &home.file().display().to_string());
    assert_eq!(holder.line(), "locked");
    holder.signal("STOP");
    let b = Node::open(&home).await;
    // Reading needs no lock: the candidate sees the holder and waits for its TTL.
    assert_eq!(b.kv.get(KEY).await.expect("read").as_deref(), Some(&b"holder"[..]));
    let busy = b.kv.grant(TTL).await.expect_err("the lock is held");
    assert_eq!((busy.kind, busy.effect), (KvErrorKind::Busy, Effect::NotApplied), "{busy}");
    let busy = b.kv.put(b"other", Bytes::from("v")).await.expect_err("the lock is held");
    assert_eq!((busy.kind, busy.effect), (KvErrorKind::Busy, Effect::NotApplied), "{busy}");
    holder.kill();
    // The lock dies with its holder; the lease does not, and runs out by the candidate's clock.
    let lease = b.grant().await;
    assert_eq!(b.campaign(lease, "b").await, held_by("holder"));
    b.clock.advance(TTL / 2);
    b.kv.keep_alive(lease).await.expect("alive");
    b.clock.advance(TTL / 2);
    assert_eq!(b.campaign(lease, "b").await, PutIfAbsent::Put);
    assert_eq!(b.kv.get(b"half").await.expect("read"), None, "what the killed transaction had written is gone");
}
