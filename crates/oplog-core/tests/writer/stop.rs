//! Drain and stop in every state the writer can be in.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, Link, OpKind};
use ha_types::{Clock, MonoTime};
use oplog_core::{Closed, CommitError, DrainError, Outcome, ReserveError, Terminal, WriterConfig};

use crate::support::{Log, entry};

fn within(log: &Log, ms: u64) -> MonoTime {
    log.clock.now().saturating_add(Duration::from_millis(ms))
}

#[tokio::test(start_paused = true)]
async fn drain_of_an_idle_writer_closes_admission_and_is_done() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let at = log.clock.now();
    assert_eq!(node.writer.drain(within(&log, 1000)).await, Ok(()));
    assert_eq!(log.clock.now(), at);
    let refused = node.writer.reserve().unwrap_err();
    assert!(
        matches!(&refused, ReserveError::Unavailable { closed: Closed::Draining, reason } if reason.contains("drained")),
        "{refused:?}"
    );
    assert_eq!(node.status().terminal, None, "a drained writer has not ended");
    assert_eq!(node.writer.drain(within(&log, 1000)).await, Ok(()), "again");
    node.writer.stop().await;
    assert_eq!(node.writer.drain(within(&log, 0)).await, Ok(()), "after the end");
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_the_flight_the_queue_the_reservations_and_the_callbacks() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.always(OpKind::Txn, Some(Fault::Delay(Duration::from_millis(10))));
    let sent = node.kv.calls(OpKind::Txn);
    let flying = node.reserve().commit(entry(b"1")).expect("committed");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let (called, was_called) = std::sync::mpsc::sync_channel(1);
    node.reserve().commit_with(entry(b"2"), move |_, o| called.send(o).expect("sent")).expect("committed");
    let reserved = node.reserve();
    let draining = tokio::spawn({
        let (writer, deadline) = (node.writer.clone(), within(&log, 10_000));
        async move { writer.drain(deadline).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(flying.outcome(), Some(Outcome::Durable));
    assert!(!draining.is_finished(), "a reservation is open");
    let last = reserved.commit(entry(b"3")).expect("what is reserved may commit");
    assert_eq!(draining.await.expect("joined"), Ok(()));
    assert_eq!(last.outcome(), Some(Outcome::Durable));
    assert_eq!(was_called.try_recv(), Ok(Outcome::Durable), "callbacks have run");
    assert_eq!(log.payloads().await, [b"1", b"2", b"3"]);
}

#[tokio::test(start_paused = true)]
async fn drain_is_done_when_the_last_reservation_is_aborted() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let reserved = node.reserve();
    let draining = tokio::spawn({
        let (writer, deadline) = (node.writer.clone(), within(&log, 10_000));
        async move { writer.drain(deadline).await }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let at = log.clock.now();
    drop(reserved);
    assert_eq!(draining.await.expect("joined"), Ok(()));
    assert_eq!(log.clock.now(), at);
}

/// The last slot belongs to one who was granted it and leaves without having looked.
#[tokio::test(start_paused = true)]
async fn drain_is_done_when_a_granted_slot_is_given_up() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_batch_max_entries: 1, ..WriterConfig::default() }).await;
    let held = node.reserve();
    let mut in_line = Box::pin(node.writer.ready());
    assert!(in_line.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(held);
    let draining = tokio::spawn({
        let (writer, deadline) = (node.writer.clone(), within(&log, 10_000));
        async move { writer.drain(deadline).await }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(!draining.is_finished());
    let at = log.clock.now();
    drop(in_line);
    assert_eq!(draining.await.expect("joined"), Ok(()));
    assert_eq!(log.clock.now(), at);
}

#[tokio::test(start_paused = true)]
async fn drain_of_a_failing_writer_ends_at_its_deadline_and_says_what_is_open() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
    let reserved = node.reserve();
    node.reserve().commit_with(entry(b"1"), |_, _| {}).expect("committed");
    let ticket = node.reserve().commit(entry(b"2")).expect("committed");
    let at = log.clock.now();
    let open = node.writer.drain(within(&log, 500)).await.unwrap_err();
    assert_eq!(open, DrainError { waiting: 2, reserved: 1, callbacks: 1 });
    let took = log.clock.now().saturating_since(at);
    assert!((500..=502).contains(&took.as_millis()), "{took:?}");
    drop(reserved);
    node.kv.always(OpKind::Txn, None);
    assert_eq!(ticket.await, Outcome::Durable, "the writer goes on");
    assert!(node.writer.reserve().is_err(), "admission stays closed");
    assert_eq!(node.writer.drain(within(&log, 500)).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn drain_ends_at_once_when_the_writer_ends() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.always(OpKind::Txn, Some(Fault::HoldRequest));
    let ticket = node.reserve().commit(entry(b"1")).expect("committed");
    let draining = tokio::spawn({
        let (writer, deadline) = (node.writer.clone(), within(&log, 3_600_000));
        async move { writer.drain(deadline).await }
    });
    tokio::time::sleep(Duration::from_millis(5)).await;
    let _claimed = log.claim(log.client()).await;
    node.kv.release();
    let open = draining.await.expect("joined").unwrap_err();
    assert_eq!(open.waiting, 1);
    assert_eq!(ticket.await, Outcome::Never);
    assert_eq!(node.writer.drain(within(&log, 1000)).await.unwrap_err().waiting, 1, "and says so again");
}

#[tokio::test(start_paused = true)]
async fn stop_gives_the_batch_in_flight_a_moment_for_its_answer() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::Delay(Duration::from_millis(20)));
    let sent = node.kv.calls(OpKind::Txn);
    let (flying, waiting) = (node.reserve(), node.reserve());
    let reserved = node.reserve();
    let flying = flying.commit(entry(b"1")).expect("committed");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let waiting = waiting.commit(entry(b"2")).expect("committed");
    let at = log.clock.now();
    node.writer.stop().await;
    assert!(log.clock.now().saturating_since(at) <= Duration::from_millis(100));
    assert_eq!((flying.outcome(), waiting.outcome()), (Some(Outcome::Durable), Some(Outcome::Never)));
    assert!(matches!(reserved.commit(entry(b"3")), Err(CommitError::Terminal(Terminal::Shutdown))));
    assert_eq!(node.writer.metrics().slots, 0);
    assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
    assert_eq!(log.payloads().await, [b"1"]);
    node.writer.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_a_store_that_hangs() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.always(OpKind::Txn, Some(Fault::HoldRequest));
    let ticket = node.reserve().commit(entry(b"1")).expect("committed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let at = log.clock.now();
    node.writer.stop().await;
    assert!(log.clock.now().saturating_since(at) <= Duration::from_millis(100));
    assert_eq!(ticket.await, Outcome::Unknown, "it may yet arrive");
    assert!(node.writer.ready().await.is_err());
}

/// The transaction was answered with silence, the stop comes while the prefix is read: the read still tells.
#[tokio::test(start_paused = true)]
async fn stop_while_the_prefix_is_read_again_hears_the_answer() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    node.kv.script(OpKind::Get, Fault::Delay(Duration::from_millis(30)));
    let ticket = node.reserve().commit(entry(b"1")).expect("committed");
    node.until(|s| !s.accepting).await;
    node.writer.stop().await;
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
}

/// The stop comes while a transaction is on its way, and its answer, within the grace, calls for a retry: there is none.
#[tokio::test(start_paused = true)]
async fn stop_while_an_answer_that_calls_for_a_retry_is_on_its_way() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::HoldReply);
    node.kv.fill_server(true);
    let sent = node.kv.calls(OpKind::Txn);
    let ticket = node.reserve().commit(entry(b"1")).expect("committed");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let stopping = tokio::spawn({
        let writer = node.writer.clone();
        async move { writer.stop().await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    node.kv.release();
    tokio::time::timeout(Duration::from_millis(100), stopping).await.expect("soon").expect("joined");
    assert_eq!(ticket.await, Outcome::Never);
    assert_eq!(node.kv.calls(OpKind::Txn), sent + 1);
}

#[tokio::test(start_paused = true)]
async fn stop_of_an_idle_writer_is_immediate() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let at = log.clock.now();
    node.writer.stop().await;
    assert_eq!(log.clock.now(), at);
    assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
}

/// The stop is noticed while the request is in flight; its answer comes within the grace, and is that nobody knows.
#[tokio::test(start_paused = true)]
async fn stop_with_a_request_in_flight_that_fails_within_the_grace() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let sent = node.kv.calls(OpKind::Txn);
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let ticket = node.reserve().commit(entry(b"1")).expect("committed");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let stopping = tokio::spawn({
        let writer = node.writer.clone();
        async move { writer.stop().await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    node.kv.set_link(Link::RepliesCut);
    node.kv.release();
    tokio::time::timeout(Duration::from_secs(1), stopping).await.expect("it stops").expect("joined");
    assert_eq!(ticket.await, Outcome::Unknown);
    assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
}

/// Keeps the level of each event of this thread.
struct Levels(std::sync::Arc<std::sync::Mutex<Vec<tracing::Level>>>);

impl tracing::Subscriber for Levels {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        if event.metadata().target().starts_with("oplog_core") {
            self.0.lock().expect("lock").push(*event.metadata().level());
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// What the owner asked for is no alarm; what it did not ask for is one.
#[tokio::test(start_paused = true)]
async fn a_stop_is_logged_as_information_and_a_fence_as_a_warning() {
    for (fenced, level) in [(false, tracing::Level::INFO), (true, tracing::Level::WARN)] {
        let log = Log::new().await;
        let node = log.node(WriterConfig::default()).await;
        let levels = std::sync::Arc::<std::sync::Mutex<Vec<_>>>::default();
        let _guard = tracing::subscriber::set_default(Levels(std::sync::Arc::clone(&levels)));
        node.kv.script(OpKind::Txn, Fault::HoldRequest);
        let sent = node.kv.calls(OpKind::Txn);
        let ticket = node.reserve().commit(entry(b"1")).expect("committed");
        node.kv.reached(OpKind::Txn, sent + 1).await;
        if fenced {
            let _claimed = log.claim(log.client()).await;
            node.kv.release();
            node.until(|s| s.terminal.is_some()).await;
        }
        node.writer.stop().await;
        assert!(ticket.outcome().is_some());
        assert_eq!(levels.lock().expect("lock").iter().copied().min(), Some(level), "fenced: {fenced}");
    }
}
