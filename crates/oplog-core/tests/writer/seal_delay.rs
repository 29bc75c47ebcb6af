//! `oplog_max_seal_delay` on: what it merges, whom it never delays, and what may happen during the wait. Time is paused, so a wait
//! ends by what comes, or by a count of looks.

use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind};
use ha_types::Clock;
use oplog_core::{Outcome, Terminal, WriterConfig};

use crate::support::{Log, Node, ends, entry};

const T: Duration = Duration::from_millis(4);

fn delayed() -> WriterConfig {
    WriterConfig { oplog_max_seal_delay: Duration::from_micros(200), ..WriterConfig::default() }
}

async fn slow(log: &Log) -> Node {
    let node = log.node(delayed()).await;
    node.kv.always(OpKind::Txn, Some(Fault::Delay(T)));
    node
}

/// A caller that waits for each of its entries.
fn waiter(node: &Node, payload: u8, rounds: u8) -> tokio::task::JoinHandle<()> {
    let writer = node.writer.clone();
    tokio::spawn(async move {
        for _ in 0..rounds {
            let slot = writer.ready().await.expect("a slot");
            assert_eq!(slot.commit(entry(&[payload])).expect("committed").await, Outcome::Durable);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn l10_an_idle_writer_is_never_delayed_by_the_setting() {
    let log = Log::new().await;
    let node = slow(&log).await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (sent, at) = (node.kv.calls(OpKind::Txn), log.clock.now());
        let ticket = node.reserve().commit(entry(b"alone")).expect("committed");
        tokio::task::yield_now().await;
        assert_eq!(node.kv.calls(OpKind::Txn), sent + 1, "sent in the same turn");
        assert_eq!(ticket.await, Outcome::Durable);
        assert_eq!(log.clock.now().saturating_since(at), T);
    }
}

#[tokio::test(start_paused = true)]
async fn l10_what_nobody_waits_for_is_sent_in_the_turn_of_the_completion() {
    let log = Log::new().await;
    let node = slow(&log).await;
    let sent = node.kv.calls(OpKind::Txn);
    drop(node.reserve().commit(entry(b"1")).expect("committed"));
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let second = node.reserve().commit(entry(b"2")).expect("committed");
    let mut status = node.writer.status();
    status.wait_for(|s| s.durable.last_seq.get() == 1).await.expect("the writer works");
    assert_eq!(node.kv.calls(OpKind::Txn), sent + 2, "nobody was woken, so nobody is waited for");
    assert_eq!(second.await, Outcome::Durable);
}

#[tokio::test(start_paused = true)]
async fn a_lone_caller_gets_a_transaction_an_entry() {
    let log = Log::new().await;
    let node = slow(&log).await;
    let at = log.clock.now();
    waiter(&node, 1, 20).await.expect("the caller");
    assert_eq!(log.clock.now().saturating_since(at), 20 * T);
}

/// Two groups that take turns become one, and stay one.
#[tokio::test(start_paused = true)]
async fn two_cohorts_of_callers_become_one() {
    let log = Log::new().await;
    let node = slow(&log).await;
    let sent = node.kv.calls(OpKind::Txn);
    let mut callers: Vec<_> = (0..4).map(|i| waiter(&node, i, 10)).collect();
    node.kv.reached(OpKind::Txn, sent + 1).await;
    callers.extend((4..8).map(|i| waiter(&node, i, 10)));
    for caller in callers {
        caller.await.expect("a caller");
    }
    let counts: Vec<_> = log.batches().await.iter().map(|b| b.count()).collect();
    let whole = counts.iter().filter(|count| **count == 8).count();
    assert!(whole >= 9 && counts.len() <= 12, "they travel in two groups: {counts:?}");
}

/// An entry that comes while the callers' batch is in flight waits for them to come back.
#[tokio::test(start_paused = true)]
async fn what_came_meanwhile_goes_with_the_callers_that_come_back() {
    let log = Log::new().await;
    let node = slow(&log).await;
    let sent = node.kv.calls(OpKind::Txn);
    waiter(&node, 1, 1).await.expect("the first");
    let cohort: Vec<_> = (0..8).map(|i| waiter(&node, i, 3)).collect();
    node.kv.reached(OpKind::Txn, sent + 2).await;
    let late = node.reserve().commit(entry(b"late")).expect("committed");
    for caller in cohort {
        caller.await.expect("a caller");
    }
    assert_eq!(late.await, Outcome::Durable);
    let counts: Vec<_> = log.batches().await.iter().map(|b| b.count()).collect();
    assert!(counts.len() <= 6 && counts.contains(&9), "{counts:?}");
}

/// Two callers are woken; the first comes back and stops, drains or loses the log while the second is waited for.
async fn during_the_delay<F: Future<Output = ()>>(then: impl FnOnce(Node) -> F) {
    let log = Log::new().await;
    let node = slow(&log).await;
    let sent = node.kv.calls(OpKind::Txn);
    drop(node.reserve().commit(entry(b"goes ahead")).expect("committed"));
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let gone = node.reserve().commit(entry(b"does not come back")).expect("committed");
    let gone = tokio::spawn(async move { assert_eq!(gone.await, Outcome::Durable) });
    let mine = node.reserve().commit(entry(b"comes back")).expect("committed");
    assert_eq!(mine.await, Outcome::Durable);
    assert_eq!(node.kv.calls(OpKind::Txn), sent + 2);
    then(node).await;
    gone.await.expect("it was told");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_delay_and_what_waited_is_never_written() {
    ends(during_the_delay(async |node| {
        let sent = node.kv.calls(OpKind::Txn);
        let ticket = node.reserve().commit(entry(b"waits for the delay")).expect("committed");
        tokio::task::yield_now().await;
        assert_eq!(node.kv.calls(OpKind::Txn), sent, "the second caller is waited for");
        node.writer.stop().await;
        assert_eq!((ticket.await, node.kv.calls(OpKind::Txn)), (Outcome::Never, sent));
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_the_delay_and_what_waited_is_written() {
    ends(during_the_delay(async |node| {
        let sent = node.kv.calls(OpKind::Txn);
        let ticket = node.reserve().commit(entry(b"waits for the delay")).expect("committed");
        let deadline = ha_types::MonoTime::from_origin(Duration::from_secs(3600));
        let writer = node.writer.clone();
        let drain = tokio::spawn(async move { writer.drain(deadline).await });
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        assert_eq!(node.kv.calls(OpKind::Txn), sent + 1, "nobody can come any more, so it is sent");
        assert_eq!(ticket.await, Outcome::Durable);
        drain.await.expect("the task").expect("drained");
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_during_the_delay_fences_the_batch_that_follows_it() {
    ends(async {
        let log = Log::new().await;
        let node = slow(&log).await;
        let first = node.reserve().commit(entry(b"1")).expect("committed");
        let other = node.reserve().commit(entry(b"2")).expect("committed");
        let other = tokio::spawn(other);
        assert_eq!(first.await, Outcome::Durable);
        let sent = node.kv.calls(OpKind::Txn);
        let ticket = node.reserve().commit(entry(b"3")).expect("committed");
        let claimed = log.claim(log.client()).await;
        assert_eq!(node.kv.calls(OpKind::Txn), sent, "the claim came during the delay");
        assert_eq!(ticket.await, Outcome::Never);
        assert_eq!(other.await.expect("told"), Outcome::Durable);
        let status = node.until(|s| s.terminal.is_some()).await;
        assert!(matches!(status.terminal, Some(Terminal::Fenced { .. })), "{status:?}");
        assert_eq!(log.prefix().await, *claimed.prefix());
    })
    .await;
}
