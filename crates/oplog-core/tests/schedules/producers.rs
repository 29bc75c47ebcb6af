//! Owns producers that reserve, commit and abort while batches are sealed and completed.

use std::time::Duration;

use ha_schedules::Reached;
use ha_types::MonoTime;
use oplog_core::{Outcome, WriterConfig};
use shuttle::future::block_on;
use shuttle::thread;

use crate::SCHEDULES;
use crate::world::{Hand, World, slots, toss};

const PRODUCERS: u8 = 3;
const ENTRIES: u8 = 2;

fn produce(hand: &Hand, who: u8, reached: &Reached) {
    for n in 0..ENTRIES {
        let slot = loop {
            match hand.try_reserve() {
                Some(slot) => break slot,
                None => {
                    reached.mark("reserve refused: the queue is full");
                    thread::yield_now();
                }
            }
        };
        if toss() {
            reached.mark("aborted");
            drop(slot);
            continue;
        }
        let busy = hand.store.is_flying();
        let ticket = hand.commit(slot, who * ENTRIES + n).expect("the writer has not ended");
        reached.mark_if(busy, "committed while a transaction is in flight");
        if toss() {
            assert_eq!(ticket.wait(), Outcome::Durable);
            reached.mark("waited for its own entry");
        } else {
            reached.mark_if(ticket.outcome().is_none(), "dropped a ticket that is open");
        }
    }
}

fn run(config: WriterConfig, reached: &Reached) {
    let (world, hand) = World::start(config);
    let before = hand.store.txns();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|who| {
            let (hand, reached) = (hand.clone(), reached.clone());
            thread::spawn(move || produce(&hand, who, &reached))
        })
        .collect();
    for producer in producers {
        producer.join().expect("a producer");
    }
    block_on(hand.writer.drain(MonoTime::from_origin(Duration::MAX))).expect("everything committed becomes durable");
    let metrics = hand.writer.metrics();
    assert_eq!((metrics.slots, metrics.waiting_entries), (0, 0), "a slot is lost");
    assert_eq!(metrics.committed, metrics.durable);
    reached.mark_if(metrics.batches < metrics.durable, "a batch of several entries");
    assert_eq!((hand.store.txns() - before) as u64, metrics.batches, "one transaction a batch");
    drop(hand);
    assert_eq!(world.close().len() as u64, metrics.durable);
}

const SITUATIONS: &[&str] = &[
    "reserve refused: the queue is full",
    "aborted",
    "committed while a transaction is in flight",
    "waited for its own entry",
    "dropped a ticket that is open",
    "a batch of several entries",
];

#[test]
fn producers_reserve_commit_and_abort_while_batches_are_sealed_and_completed() {
    SCHEDULES.explore("producers", SITUATIONS, |reached| run(slots(2), reached));
}

#[test]
fn producers_come_back_during_the_seal_delay() {
    let config = WriterConfig { oplog_max_seal_delay: Duration::from_millis(100), ..slots(2) };
    SCHEDULES.explore("producers_with_seal_delay", SITUATIONS, move |reached| run(config.clone(), reached));
}
