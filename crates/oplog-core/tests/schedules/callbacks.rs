//! Owns callbacks: once each, in order of sequence, outside all locks, and a drain that waits for them.

use std::sync::Arc;
use std::time::Duration;

use ha_types::MonoTime;
use oplog_core::{Outcome, Seq};
use parking_lot::Mutex;
use shuttle::future::block_on;
use shuttle::thread;

use crate::SCHEDULES;
use crate::world::{World, entry, slots};

#[test]
fn callbacks_run_once_in_order_and_a_drain_waits_for_them() {
    const SITUATIONS: &[&str] = &[
        "ran while another transaction is in flight",
        "a callback took a slot and gave it back",
        "two batches had callbacks",
        "one batch had several",
    ];
    SCHEDULES.explore("callbacks", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(4));
        let ran: Arc<Mutex<Vec<(Seq, Outcome)>>> = Arc::default();
        let producers: Vec<_> = (0..2)
            .map(|who| {
                let (hand, ran, reached) = (hand.clone(), Arc::clone(&ran), reached.clone());
                thread::spawn(move || {
                    for n in 0..2 {
                        let slot = hand.try_reserve().expect("a slot");
                        let payload = who * 2 + n;
                        let (ran, reached) = (Arc::clone(&ran), reached.clone());
                        let (writer, store) = (hand.writer.clone(), Arc::clone(&hand.store));
                        let seq = slot.commit_with(entry(&[payload]), move |seq, outcome| {
                            // Every lock of the writer is free here, or this would block for ever.
                            reached.mark_if(writer.reserve().is_ok(), "a callback took a slot and gave it back");
                            reached.mark_if(store.is_flying(), "ran while another transaction is in flight");
                            thread::yield_now();
                            ran.lock().push((seq, outcome));
                        });
                        hand.kept(seq.expect("the writer has not ended"), payload);
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.join().expect("a producer");
        }
        block_on(hand.writer.drain(MonoTime::from_origin(Duration::MAX))).expect("the drain ends well");
        let expected: Vec<_> = (1..=4).map(|seq| (Seq::new(seq), Outcome::Durable)).collect();
        assert_eq!(*ran.lock(), expected, "once each, in order, before the drain is over");
        let metrics = hand.writer.metrics();
        assert_eq!((metrics.callbacks_waiting, metrics.slots), (0, 0));
        reached.mark_if(metrics.batches > 1, "two batches had callbacks");
        reached.mark_if(metrics.batches < 4, "one batch had several");
        drop(hand);
        world.close();
    });
}

#[test]
fn a_stop_calls_every_callback_once_with_the_truth() {
    const SITUATIONS: &[&str] =
        &["called with durable", "called with never", "called with unknown", "refused, and not called"];
    SCHEDULES.explore("callbacks_at_the_end", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(2));
        let ran: Arc<Mutex<Vec<(Seq, Outcome)>>> = Arc::default();
        let producers: Vec<_> = (0..2)
            .map(|who| {
                let (hand, ran, reached) = (hand.clone(), Arc::clone(&ran), reached.clone());
                thread::spawn(move || {
                    let seq = hand.writer.reserve().ok().and_then(|slot| {
                        slot.commit_with(entry(&[who]), move |seq, outcome| ran.lock().push((seq, outcome))).ok()
                    });
                    reached.mark_if(seq.is_none(), "refused, and not called");
                    seq
                })
            })
            .collect();
        block_on(hand.writer.stop());
        let mut committed: Vec<_> = producers.into_iter().filter_map(|p| p.join().expect("a producer")).collect();
        drop(hand);
        committed.sort();
        // The notifier holds nothing of the writer; its threads are joined by the end of the schedule, so wait for them here.
        while ran.lock().len() < committed.len() {
            thread::yield_now();
        }
        let called = ran.lock().clone();
        assert_eq!(called.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), committed, "once each, in order");
        for (seq, outcome) in called {
            world.check(seq, outcome);
            reached.mark(match outcome {
                Outcome::Durable => "called with durable",
                Outcome::Never => "called with never",
                Outcome::Unknown => "called with unknown",
            });
        }
        world.close();
    });
}
