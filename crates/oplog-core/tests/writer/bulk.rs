//! Bulk admission: its share, its line, and how many transactions somebody waits beside it. By counts, on one thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind};
use oplog_core::{OrderedWriter, Outcome, Refusal, Reservation, ReserveError, WriterConfig};

use crate::support::{Log, ends, entry};

fn slots(n: usize) -> WriterConfig {
    WriterConfig { oplog_batch_max_entries: n, ..WriterConfig::default() }
}

/// Four callers wait in what bulk leaves free. The most transactions that had to end, from a caller's wish to its durable entry, beside producers that never wait.
async fn most_transactions(config: WriterConfig, bulk: bool) -> u64 {
    let log = Log::new().await;
    let node = log.node(config).await;
    node.kv.always(OpKind::Txn, Some(Fault::Delay(Duration::from_millis(10))));
    let slot = async move |writer: &OrderedWriter| match bulk {
        true => writer.ready_bulk().await,
        false => writer.ready().await,
    };
    let mut producers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let writer = node.writer.clone();
        producers.spawn(async move {
            loop {
                drop(slot(&writer).await.expect("a slot").commit(entry(&[7; 100])).expect("committed"));
            }
        });
    }
    let mut waiters = tokio::task::JoinSet::new();
    for i in 0..4_u64 {
        let (writer, status) = (node.writer.clone(), node.writer.status());
        waiters.spawn(async move {
            let ended = || status.borrow().durable.batch_id.get();
            let mut most = 0;
            for round in 0..40 {
                // At every moment of a transaction.
                tokio::time::sleep(Duration::from_millis((i * 3 + round) % 11)).await;
                let before = ended();
                let slot = writer.ready().await.expect("a slot");
                assert_eq!(slot.commit(entry(b"waited for")).expect("committed").await, Outcome::Durable);
                most = most.max(ended() - before);
            }
            most
        });
    }
    let most = waiters.join_all().await.into_iter().max().expect("four");
    producers.shutdown().await;
    node.writer.stop().await;
    assert_eq!(node.writer.metrics().slots, 0, "L9");
    most
}

#[tokio::test(start_paused = true)]
async fn a_waiter_beside_saturating_bulk_waits_two_transactions_at_most() {
    ends(async {
        let bytes = WriterConfig { oplog_batch_max_bytes: 4096, ..slots(256) };
        let delayed = WriterConfig { oplog_max_seal_delay: Duration::from_micros(200), ..slots(64) };
        for config in [slots(64), slots(32), bytes, delayed] {
            let (beside_bulk, beside_others) =
                (most_transactions(config.clone(), true).await, most_transactions(config.clone(), false).await);
            assert!(beside_bulk <= 2, "{beside_bulk} transactions with {config:?}");
            assert!(beside_others > 2, "the producers do not saturate: {beside_others} transactions with {config:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn bulk_gets_seven_eighths_of_the_slots_and_others_the_rest() {
    let log = Log::new().await;
    let node = log.node(slots(16)).await;
    let too_many = node.writer.reserve_bulk(15).unwrap_err();
    assert_eq!(too_many, ReserveError::OutOfRange { asked: 15, limit: 14 });
    let mut bulk = node.writer.reserve_bulk(13).expect("its share but one");
    assert_eq!(node.writer.reserve_bulk(2).unwrap_err(), ReserveError::QueueFull, "all or none");
    bulk.extend(node.writer.reserve_bulk(1).expect("the last of its share"));
    assert_eq!(node.writer.reserve_bulk(1).unwrap_err(), ReserveError::QueueFull);
    let others = node.writer.reserve_many(2).expect("what bulk leaves");
    assert_eq!(node.writer.reserve().unwrap_err(), ReserveError::QueueFull);
    let metrics = node.writer.metrics();
    assert_eq!((metrics.slots, metrics.bulk_slots), (16, 14));
    let refused = |why| metrics.refused.of(why);
    assert_eq!((refused(Refusal::BulkEntries), refused(Refusal::QueueEntries)), (2, 1));
    // A slot that is given back is of its class again: by an abort, and by a seal.
    drop(bulk.pop());
    bulk.extend(node.writer.reserve_bulk(1).expect("its own again"));
    for slot in bulk.into_iter().chain(others) {
        drop(slot.commit(entry(b"x")).expect("committed"));
    }
    node.until(|s| s.durable.last_seq.get() == 16).await;
    let metrics = node.writer.metrics();
    assert_eq!((metrics.slots, metrics.bulk_slots), (0, 0));
    drop(node.writer.reserve_bulk(14).expect("its whole share"));
}

#[tokio::test(start_paused = true)]
async fn bulk_gets_seven_eighths_of_a_batch_in_bytes() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_batch_max_bytes: 2048, ..slots(1000) }).await;
    let sent = node.kv.calls(OpKind::Txn);
    node.kv.always(OpKind::Txn, Some(Fault::Delay(Duration::from_secs(1))));
    drop(node.reserve().commit(entry(b"in flight")).expect("committed"));
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let mut committed = 0;
    while let Ok(slot) = node.writer.reserve_bulk(1) {
        slot.into_iter().for_each(|slot| drop(slot.commit(entry(&[1; 200])).expect("committed")));
        committed += 1;
        assert!(committed < 100, "nothing stops it");
    }
    let metrics = node.writer.metrics();
    assert_eq!(metrics.refused.of(Refusal::BulkBytes), 1);
    assert!((1792..2048).contains(&metrics.waiting_bytes), "{} bytes", metrics.waiting_bytes);
    let mut line = Box::pin(node.writer.ready_bulk());
    assert!(poll(&mut line).is_pending());
    let ticket = node.reserve().commit(entry(b"small")).expect("committed");
    assert_eq!(ticket.await, Outcome::Durable);
    drop(line.await.expect("room once the batch was sealed"));
    let counts: Vec<_> = log.batches().await.iter().map(|b| b.count()).collect();
    assert_eq!(counts, [1, committed + 1], "the waiter's entry was in the next batch");
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

type Line<'a> = Pin<Box<dyn Future<Output = Result<Reservation, ReserveError>> + 'a>>;

/// Who of a line has a slot now; taken out with it.
fn served(line: &mut Vec<(&'static str, Line<'_>)>, kept: &mut Vec<Reservation>) -> Vec<&'static str> {
    let mut names = Vec::new();
    line.retain_mut(|(name, ready)| match poll(ready) {
        Poll::Ready(slot) => {
            kept.push(slot.expect("a slot"));
            names.push(*name);
            false
        }
        Poll::Pending => true,
    });
    names
}

#[tokio::test]
async fn whoever_may_have_the_slot_and_came_first_gets_it() {
    let log = Log::new().await;
    let node = log.node(slots(8)).await;
    let (mut others, mut kept) = (node.writer.reserve_many(8).expect("all"), Vec::new());
    let mut line: Vec<(&str, Line<'_>)> = Vec::new();
    for name in ["w1", "b1", "b2", "w2", "b3"] {
        let bulk = name.starts_with('b');
        let ready: Line<'_> = if bulk { Box::pin(node.writer.ready_bulk()) } else { Box::pin(node.writer.ready()) };
        line.push((name, ready));
        assert_eq!(served(&mut line, &mut kept), [""; 0]);
    }
    for expected in ["w1", "b1", "b2", "w2", "b3"] {
        drop(others.pop());
        assert_eq!(served(&mut line, &mut kept), [expected], "one line while slots are what is missing");
    }
    assert_eq!(node.writer.metrics().bulk_slots, 3);
}

#[tokio::test]
async fn others_pass_bulk_that_has_its_share_and_bulk_does_not_starve() {
    let log = Log::new().await;
    let node = log.node(slots(8)).await;
    let (mut bulk, mut kept) = (node.writer.reserve_bulk(7).expect("its share"), Vec::new());
    let mut line: Vec<(&str, Line<'_>)> = vec![("b1", Box::pin(node.writer.ready_bulk()))];
    assert_eq!(served(&mut line, &mut kept), [""; 0]);
    let other = node.reserve();
    line.extend([("w1", Box::pin(node.writer.ready()) as Line<'_>), ("w2", Box::pin(node.writer.ready()))]);
    line.push(("b2", Box::pin(node.writer.ready_bulk())));
    assert_eq!(served(&mut line, &mut kept), [""; 0]);
    drop(other);
    assert_eq!(served(&mut line, &mut kept), ["w1"], "bulk has its share");
    // From here on it has less, and came first.
    drop(bulk.pop());
    assert_eq!(served(&mut line, &mut kept), ["b1"]);
    drop(bulk.pop());
    assert_eq!(served(&mut line, &mut kept), ["w2"]);
    // One who leaves with a slot just granted gives it back to its class.
    drop(bulk.pop());
    line.clear();
    let metrics = node.writer.metrics();
    assert_eq!((metrics.slots, metrics.bulk_slots), (7, 5));
}

#[tokio::test]
async fn bulk_in_line_is_turned_away_when_the_writer_takes_no_more() {
    let log = Log::new().await;
    let node = log.node(slots(8)).await;
    let bulk = node.writer.reserve_bulk(7).expect("its share");
    let mut ready = Box::pin(node.writer.ready_bulk());
    assert!(poll(&mut ready).is_pending());
    node.writer.stop().await;
    assert!(matches!(ready.await, Err(ReserveError::Unavailable { .. })));
    assert!(matches!(node.writer.ready_bulk().await, Err(ReserveError::Unavailable { .. })));
    assert!(matches!(node.writer.reserve_bulk(1), Err(ReserveError::Unavailable { .. })));
    drop(bulk);
    let metrics = node.writer.metrics();
    assert_eq!((metrics.slots, metrics.bulk_slots), (0, 0));
}
