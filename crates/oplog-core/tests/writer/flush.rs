//! RFC batch record, testing strategy, "Writer Flush": what happens while the store works. L6, L8, L10.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind};
use ha_types::Clock;
use oplog_core::{Outcome, WriterConfig};

use crate::support::{Log, entry};

/// The RFC's rule, whatever the default is.
fn rfc() -> WriterConfig {
    WriterConfig { oplog_max_seal_delay: Duration::ZERO, ..WriterConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn l10_an_idle_writer_writes_even_one_entry_in_the_same_turn() {
    let log = Log::new().await;
    let node = log.node(rfc()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (sent, at) = (node.kv.calls(OpKind::Txn), log.clock.now());
    let ticket = node.reserve().commit(entry(b"alone")).expect("committed");
    // One turn of the scheduler: the driver runs, and the store answers at once.
    tokio::task::yield_now().await;
    assert_eq!(node.kv.calls(OpKind::Txn), sent + 1);
    assert_eq!(ticket.outcome(), Some(Outcome::Durable));
    assert_eq!(log.clock.now(), at, "no time passed");
}

#[tokio::test(start_paused = true)]
async fn l10_what_waits_is_sent_in_the_turn_of_the_completion() {
    let log = Log::new().await;
    let node = log.node(rfc()).await;
    let sent = node.kv.calls(OpKind::Txn);
    let took = Duration::from_millis(5);
    node.kv.always(OpKind::Txn, Some(Fault::Delay(took)));
    let start = log.clock.now();
    let first = node.reserve().commit(entry(b"1")).expect("committed");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let rest: Vec<_> = (2..=9_u8).map(|i| node.reserve().commit(entry(&[i])).expect("committed")).collect();
    assert_eq!(first.await, Outcome::Durable);
    for ticket in rest {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(log.clock.now().saturating_since(start), 2 * took, "two transactions and nothing between them");
    let counts: Vec<_> = log.batches().await.iter().map(|b| b.count()).collect();
    assert_eq!(counts, [1, 8], "what came meanwhile went together");
}

#[tokio::test(start_paused = true)]
async fn l8_nothing_passes_a_stuck_batch() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let sent = node.kv.calls(OpKind::Txn);
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(ha_kv::KvErrorKind::Timeout)));
    let slots = node.writer.reserve_many(3).expect("slots");
    let mut tickets = Vec::new();
    for (i, slot) in slots.into_iter().enumerate() {
        tickets.push(slot.commit(entry(&[i as u8])).expect("what is reserved may commit"));
        node.kv.reached(OpKind::Txn, sent + 1 + 5 * i as u64).await;
    }
    assert_eq!(log.batches().await.len(), 0);
    assert!(tickets.iter().all(|t| t.outcome().is_none()));
    node.kv.always(OpKind::Txn, None);
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let batches = log.batches().await;
    assert_eq!(batches.iter().map(|b| b.count()).collect::<Vec<_>>(), [1, 2], "the stuck batch first, as it was");
    assert_eq!(log.payloads().await, [[0], [1], [2]]);
}

#[tokio::test]
async fn l6_one_success_a_sequence_in_order_without_a_hole_over_two_lifetimes() {
    let log = Log::new().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    for life in 0..2_u8 {
        let node = log.node(WriterConfig::default()).await;
        for i in 0..100_u8 {
            let told = told.clone();
            let callback = move |seq: oplog_core::Seq, outcome| told.lock().expect("lock").push((seq.get(), outcome));
            node.reserve().commit_with(entry(&[life, i]), callback).expect("committed");
            if i % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(10))).await.expect("drained");
        node.writer.stop().await;
    }
    let expected: Vec<_> = (1..=200).map(|seq| (seq, Outcome::Durable)).collect();
    assert_eq!(*told.lock().expect("lock"), expected);
    assert_eq!(log.payloads().await.len(), 200);
}

#[tokio::test]
async fn a_late_look_at_a_ticket_is_answered() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let mut kept = None;
    for i in 0..20_000_u32 {
        let ticket = node.writer.ready().await.expect("a slot").commit(entry(&i.to_le_bytes())).expect("committed");
        if i == 777 {
            kept = Some(ticket);
        }
    }
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(10))).await.expect("drained");
    assert_eq!(kept.expect("kept").await, Outcome::Durable);
    assert_eq!(node.writer.metrics().durable, 20_000);
}

#[test]
fn a_thread_may_wait_for_its_ticket() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let node = runtime.block_on(async {
        let log = Log::new().await;
        log.node(WriterConfig::default()).await
    });
    for i in 0..50_u8 {
        assert_eq!(node.reserve().commit(entry(&[i])).expect("committed").wait(), Outcome::Durable);
    }
}

#[tokio::test]
async fn when_the_last_handle_goes_what_was_committed_is_still_written() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let mut status = node.writer.status();
    for i in 0..10_u8 {
        drop(node.reserve().commit(entry(&[i])).expect("committed"));
    }
    drop(node);
    status.wait_for(|s| s.terminal.is_some()).await.expect("the end is shown");
    assert_eq!(log.payloads().await.len(), 10);
}

/// Real threads: producers that wait, that do not, that abort and give up, faults at the store, and callbacks meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_lose_nothing_and_keep_the_order() {
    let log = Log::new().await;
    let config = WriterConfig {
        oplog_batch_max_entries: 16,
        oplog_retry_max: Duration::from_millis(4),
        ..WriterConfig::default()
    };
    let node = log.node(config).await;
    node.kv.plan(ha_kv::faulty::FaultPlan::rough(Duration::from_millis(2)));
    let called = Arc::new(Mutex::new(Vec::new()));
    let mut producers = tokio::task::JoinSet::new();
    for producer in 0..8_u32 {
        let (writer, called) = (node.writer.clone(), called.clone());
        producers.spawn(async move {
            let mut committed = Vec::new();
            for i in 0..600_u32 {
                let Ok(Ok(slot)) = tokio::time::timeout(Duration::from_millis(20), writer.ready()).await else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                };
                let payload = [producer.to_le_bytes(), i.to_le_bytes()].concat();
                match i % 4 {
                    0 => drop(slot),
                    1 => {
                        let called = called.clone();
                        let callback =
                            move |seq: oplog_core::Seq, outcome| called.lock().expect("lock").push((seq, outcome));
                        committed.push((slot.commit_with(entry(&payload), callback).expect("committed"), payload));
                    }
                    2 => {
                        let ticket = slot.commit(entry(&payload)).expect("committed");
                        committed.push((ticket.seq(), payload));
                        assert_eq!(ticket.await, Outcome::Durable);
                    }
                    _ => {
                        let ticket = slot.commit(entry(&payload)).expect("committed");
                        committed.push((ticket.seq(), payload));
                    }
                }
            }
            committed
        });
    }
    let mut committed =
        tokio::time::timeout(Duration::from_secs(120), producers.join_all()).await.expect("nobody hangs").concat();
    node.kv.plan(ha_kv::faulty::FaultPlan::NONE);
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    committed.sort_unstable();
    let payloads: Vec<_> = committed.into_iter().map(|(_, payload)| payload).collect();
    assert!(payloads.len() > 100, "only {} entries", payloads.len());
    assert_eq!(log.payloads().await, payloads, "the log is what was committed, in order of the sequences given");
    let called = called.lock().expect("lock").clone();
    assert!(called.is_sorted_by_key(|(seq, _)| *seq) && called.iter().all(|(_, outcome)| *outcome == Outcome::Durable));
    let metrics = node.writer.metrics();
    assert_eq!((metrics.slots, metrics.callbacks_waiting, metrics.callback_panics), (0, 0, 0));
}
