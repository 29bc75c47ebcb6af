//! RFC batch record, testing strategy, "Writer Admission"; L9; row W8.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use ha_kv::faulty::{Fault, OpKind};
use oplog_core::{CommitError, Outcome, ReserveError, WriterConfig};

use crate::support::{Log, entry};

fn small(entries: usize) -> WriterConfig {
    WriterConfig { oplog_batch_max_entries: entries, ..WriterConfig::default() }
}

#[tokio::test]
async fn reserve_allocates_no_sequence_and_abort_leaves_no_gap() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let (a, b, c) = (node.reserve(), node.reserve(), node.reserve());
    drop(b);
    let last = c.commit(entry(b"first")).expect("committed");
    assert_eq!(last.seq().get(), 1, "the sequence is assigned by commit, in its order");
    let first = a.commit(entry(b"second")).expect("committed");
    assert_eq!(first.seq().get(), 2);
    assert_eq!((last.await, first.await), (Outcome::Durable, Outcome::Durable));
    assert_eq!(log.payloads().await, [b"first".to_vec(), b"second".to_vec()]);
}

#[tokio::test]
async fn l9_slots_return_to_zero_at_rest() {
    let log = Log::new().await;
    let node = log.node(small(8)).await;
    for round in 0..50_u32 {
        let mut reserved = node.writer.reserve_many(8).expect("eight slots");
        drop(reserved.split_off(5));
        let tickets: Vec<_> = reserved.into_iter().map(|r| r.commit(entry(&round.to_le_bytes()))).collect();
        for ticket in tickets {
            assert_eq!(ticket.expect("committed").await, Outcome::Durable);
        }
        assert_eq!(node.writer.metrics().slots, 0, "round {round}");
    }
    assert!(node.until(|s| s.accepting).await.terminal.is_none());
    let refused = node.reserve().commit(entry(b""));
    assert!(matches!(refused, Err(CommitError::Invalid(_))), "{refused:?}");
    assert_eq!(node.writer.metrics().slots, 0, "a refused commit gives its slot back");
    assert_eq!(log.payloads().await.len(), 250);
}

#[tokio::test]
async fn reserve_limits_what_waits_and_not_the_batch_being_written() {
    let log = Log::new().await;
    let node = log.node(small(2)).await;
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let sent = node.kv.calls(OpKind::Txn);
    let mut tickets = Vec::new();
    for payload in [b"a", b"b"] {
        tickets.push(node.reserve().commit(entry(payload)).expect("committed"));
    }
    node.kv.reached(OpKind::Txn, sent + 1).await;
    // Both are being written: two more may wait, a third may not.
    let (c, d) = (node.reserve(), node.reserve());
    assert_eq!(node.writer.reserve().unwrap_err(), ReserveError::QueueFull);
    tickets.push(c.commit(entry(b"c")).expect("committed"));
    assert_eq!(node.writer.reserve().unwrap_err(), ReserveError::QueueFull, "a committed entry keeps its slot");
    tickets.push(d.commit(entry(b"d")).expect("committed"));
    assert_eq!(node.writer.metrics().refused.queue_full(), 2);
    assert!(node.status().accepting, "a full queue is no failure");
    node.kv.release();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let reserved = node.writer.reserve_many(2).expect("the seal released the slots");
    assert_eq!(reserved.len(), 2);
}

#[tokio::test]
async fn a_seal_does_not_wait_for_reservations_and_they_keep_their_slots() {
    let log = Log::new().await;
    let node = log.node(small(2)).await;
    let slow = node.reserve();
    assert_eq!(node.reserve().commit(entry(b"a")).expect("committed").await, Outcome::Durable);
    assert_eq!(node.writer.metrics().slots, 1);
    let other = node.reserve();
    assert_eq!(node.writer.reserve().unwrap_err(), ReserveError::QueueFull);
    assert_eq!(slow.commit(entry(b"b")).expect("committed").await, Outcome::Durable);
    drop(other);
    assert_eq!(log.payloads().await, [b"a".to_vec(), b"b".to_vec()]);
}

#[tokio::test]
async fn reserve_many_is_all_or_nothing_and_refuses_what_can_never_be() {
    let log = Log::new().await;
    let node = log.node(small(4)).await;
    for asked in [0, 5, usize::MAX] {
        let error = node.writer.reserve_many(asked).unwrap_err();
        assert_eq!(error, ReserveError::OutOfRange { asked, limit: 4 });
    }
    let three = node.writer.reserve_many(3).expect("three of four");
    assert_eq!(node.writer.reserve_many(2).unwrap_err(), ReserveError::QueueFull);
    assert_eq!(node.writer.metrics().slots, 3, "nothing was taken by the refused call");
    let one = node.reserve();
    drop((three, one));
    assert_eq!(node.writer.metrics().slots, 0);
}

#[tokio::test]
async fn ready_is_first_come_first_served_and_reserve_does_not_overtake() {
    let log = Log::new().await;
    let node = log.node(small(1)).await;
    let held = node.reserve();
    let mut cx = Context::from_waker(Waker::noop());
    let mut line: Vec<_> = (0..3).map(|_| Box::pin(node.writer.ready())).collect();
    for waiting in &mut line {
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
    }
    drop(held);
    assert_eq!(node.writer.reserve().unwrap_err(), ReserveError::QueueFull, "the slot belongs to the first in line");
    assert!(line[1].as_mut().poll(&mut cx).is_pending());
    let Poll::Ready(Ok(first)) = line[0].as_mut().poll(&mut cx) else { panic!("the first in line has the slot") };
    drop(first);
    assert!(line[2].as_mut().poll(&mut cx).is_pending());
    // The second was granted the slot and leaves without having looked: it goes to the third.
    drop(line.remove(1));
    let Poll::Ready(Ok(third)) = line[1].as_mut().poll(&mut cx) else { panic!("the third in line has the slot") };
    // One that leaves the line while it waits takes nothing along.
    let mut gone = Box::pin(node.writer.ready());
    assert!(gone.as_mut().poll(&mut cx).is_pending());
    drop(gone);
    drop(third);
    assert_eq!(node.writer.metrics().slots, 0);
    drop(node.reserve());
}

#[tokio::test]
async fn waiting_bytes_are_capped() {
    let log = Log::new().await;
    let config = WriterConfig { oplog_batch_max_bytes: 1000, oplog_waiting_max_bytes: 3000, ..small(1000) };
    let node = log.node(config).await;
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let payload = [7; 400];
    let mut tickets = Vec::new();
    let refused = loop {
        match node.writer.reserve() {
            Ok(slot) => tickets.push(slot.commit(entry(&payload)).expect("committed")),
            Err(e) => break e,
        }
        tokio::task::yield_now().await;
        assert!(tickets.len() < 100, "nothing stops the waiting bytes");
    };
    assert_eq!(refused, ReserveError::QueueFull);
    let metrics = node.writer.metrics();
    assert!((3000..3500).contains(&metrics.waiting_bytes), "{metrics:?}");
    let mut waiting = pin!(node.writer.ready());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    node.kv.release();
    drop(waiting.await.expect("room once bytes have left"));
    let committed = tickets.len();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(log.payloads().await.len(), committed);
    assert_eq!(node.writer.metrics().waiting_bytes, 0);
}

/// The caller checks, commits, and only then changes its state: whatever is refused, both sides agree.
#[tokio::test]
async fn w8_queue_full_while_a_segment_changes() {
    let log = Log::new().await;
    let node = log.node(small(2)).await;
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let mut segment: Vec<Vec<u8>> = Vec::new();
    let mut refused = 0;
    for change in 0..20_u8 {
        let slot = match node.writer.reserve() {
            Ok(slot) => slot,
            Err(ReserveError::QueueFull) => {
                refused += 1;
                if refused == 5 {
                    node.kv.release();
                }
                tokio::task::yield_now().await;
                continue;
            }
            Err(e) => panic!("{e}"),
        };
        // Every third change is too large for a batch: refused at commit.
        let payload = if change % 3 == 0 { vec![change; 2 << 20] } else { vec![change] };
        match slot.commit(entry(&payload)) {
            Ok(ticket) => {
                segment.push(payload);
                drop(ticket);
            }
            Err(CommitError::TooLarge { bytes, limit }) => assert!(bytes > limit),
            Err(e) => panic!("{e}"),
        }
    }
    assert!(refused >= 5 && !segment.is_empty(), "refused {refused}, changed {}", segment.len());
    node.writer.drain(deadline(&log)).await.expect("drained");
    assert_eq!(log.payloads().await, segment);
}

fn deadline(log: &Log) -> ha_types::MonoTime {
    ha_types::Clock::now(&*log.clock).saturating_add(std::time::Duration::from_secs(10))
}

/// A store whose every call fails the test: commit must not reach it, nor wait, nor need the driver.
#[tokio::test]
async fn commit_is_synchronous_and_does_no_io() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let calls: Vec<_> = OpKind::ALL.iter().map(|kind| node.kv.calls(*kind)).collect();
    let lock = std::sync::Mutex::new(());
    let under_the_callers_lock = lock.lock();
    let tickets: Vec<_> = (0..100_u8).map(|i| node.reserve().commit(entry(&[i])).expect("committed")).collect();
    // No await since: on this runtime of one thread the driver has not run, and the store was not asked.
    assert_eq!(OpKind::ALL.iter().map(|kind| node.kv.calls(*kind)).collect::<Vec<_>>(), calls);
    drop(under_the_callers_lock);
    for (i, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.seq().get(), i as u64 + 1);
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(log.batches().await.len(), 1, "all that waited went in one batch");
}

/// A clock that counts who asks for the time of a record.
#[derive(Debug)]
struct RecordTimes(std::sync::Arc<ha_kv::faulty::RuntimeClock>, AtomicU64);

impl ha_types::Clock for RecordTimes {
    fn now(&self) -> ha_types::MonoTime {
        self.0.now()
    }

    fn unix_ms(&self) -> u64 {
        self.1.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// The record of a batch holds its time, so it cannot be made without asking for it: no commit does, however much waits.
#[tokio::test]
async fn commit_serializes_no_batch_record() {
    let log = Log::new().await;
    let kv = log.client();
    let clock = std::sync::Arc::new(RecordTimes(std::sync::Arc::clone(&log.clock), AtomicU64::new(0)));
    let env = oplog_core::WriterEnv { clock: clock.clone(), ..log.env() };
    let claimed = log.claim(kv.clone()).await;
    let writer = oplog_core::OrderedWriter::start(claimed, WriterConfig::default(), env).expect("the writer starts");
    tokio::task::yield_now().await;
    let asked = || clock.1.load(Ordering::SeqCst);
    let idle = asked();
    let slots = writer.reserve_many(1000).expect("slots");
    let tickets: Vec<_> = slots.into_iter().map(|slot| slot.commit(entry(&[7; 500])).expect("committed")).collect();
    assert_eq!(asked(), idle, "a commit made a record");
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let times: Vec<_> = log.batches().await.iter().map(|batch| batch.header().timestamp_ms).collect();
    assert_eq!(times, [idle + 1], "the seal made it, once");
}
