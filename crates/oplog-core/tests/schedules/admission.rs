//! Owns the line of those who wait for a slot: granted, cancelled, overtaken by nobody.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};

use oplog_core::Outcome;
use shuttle::future::block_on;
use shuttle::thread;

use crate::SCHEDULES;
use crate::world::{World, slots, toss};

#[derive(Default)]
struct Rang(AtomicBool);

impl Wake for Rang {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn those_in_line_get_each_slot_that_is_given_back_and_one_who_leaves_passes_it_on() {
    const SITUATIONS: &[&str] = &[
        "a slot at the first look",
        "left the line before its turn",
        "left the line with a slot just granted",
        "waited in line and got the slot",
        "reserve refused: somebody waits or the slot is taken",
        "the slot came back by an abort",
        "the slot came back by a seal",
    ];
    SCHEDULES.explore("ready", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(1));
        let holder = {
            let (hand, reached) = (hand.clone(), reached.clone());
            let slot = hand.try_reserve().expect("the only slot");
            thread::spawn(move || {
                if toss() {
                    reached.mark("the slot came back by an abort");
                    drop(slot);
                } else {
                    reached.mark("the slot came back by a seal");
                    drop(hand.commit(slot, 0).expect("the writer has not ended"));
                }
            })
        };
        let leaver = {
            let (hand, reached) = (hand.clone(), reached.clone());
            thread::spawn(move || {
                let rang = Arc::new(Rang::default());
                let waker = rang.clone().into();
                let mut ready = pin!(hand.writer.ready());
                if ready.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    reached.mark("a slot at the first look");
                    return;
                }
                thread::yield_now();
                let granted = rang.0.load(Ordering::SeqCst);
                reached.mark_if(granted, "left the line with a slot just granted");
                reached.mark_if(!granted, "left the line before its turn");
            })
        };
        let waiters: Vec<_> = (1..3)
            .map(|payload| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || {
                    let refused = hand.try_reserve().is_none();
                    reached.mark_if(refused, "reserve refused: somebody waits or the slot is taken");
                    let slot = block_on(hand.writer.ready()).expect("the writer takes entries");
                    reached.mark_if(refused, "waited in line and got the slot");
                    let ticket = hand.commit(slot, payload).expect("the writer has not ended");
                    assert_eq!(block_on(ticket), Outcome::Durable);
                })
            })
            .collect();
        for task in [holder, leaver].into_iter().chain(waiters) {
            task.join().expect("a task");
        }
        assert_eq!(hand.writer.metrics().slots, 0, "a slot is lost");
        drop(hand);
        assert!(matches!(world.close().len(), 2 | 3));
    });
}

#[test]
fn several_slots_are_taken_at_once_or_not_at_all() {
    const SITUATIONS: &[&str] = &["all at once", "none, and one at a time instead"];
    SCHEDULES.explore("reserve_many", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(2));
        let tasks: Vec<_> = (0..2)
            .map(|who| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || {
                    let slots = hand.writer.reserve_many(2);
                    reached.mark_if(slots.is_ok(), "all at once");
                    reached.mark_if(slots.is_err(), "none, and one at a time instead");
                    let slots = slots
                        .unwrap_or_else(|_| vec![block_on(hand.writer.ready()).expect("the writer takes entries")]);
                    assert!(hand.writer.metrics().slots <= 2, "more slots than there are");
                    for (slot, n) in slots.into_iter().zip(0..) {
                        drop(hand.commit(slot, who * 2 + n).expect("the writer has not ended"));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("a task");
        }
        drop(hand);
        assert!(matches!(world.close().len(), 3 | 4));
    });
}

/// Bulk may have one of two slots; the other class may have both. Nobody is left in either line, and no slot changes its class.
#[test]
fn two_classes_share_the_slots_and_neither_is_left_in_line() {
    const SITUATIONS: &[&str] =
        &["bulk waited for its share", "bulk had its share and another passed", "bulk was aborted", "bulk was sealed"];
    SCHEDULES.explore("bulk", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(2));
        let bulk: Vec<_> = (0..2)
            .map(|payload| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || {
                    let at_once = hand.writer.reserve_bulk(1).ok().and_then(|mut slots| slots.pop());
                    reached.mark_if(at_once.is_none(), "bulk waited for its share");
                    let slot = at_once
                        .unwrap_or_else(|| block_on(hand.writer.ready_bulk()).expect("the writer takes entries"));
                    assert!(hand.writer.metrics().bulk_slots <= 1, "more than bulk's share");
                    thread::yield_now();
                    if toss() {
                        reached.mark("bulk was aborted");
                        drop(slot);
                    } else {
                        reached.mark("bulk was sealed");
                        drop(hand.commit(slot, payload).expect("the writer has not ended"));
                    }
                })
            })
            .collect();
        let waiters: Vec<_> = (2..4)
            .map(|payload| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || {
                    let full = hand.writer.metrics().bulk_slots == 1;
                    let slot = block_on(hand.writer.ready()).expect("the writer takes entries");
                    let still = hand.writer.metrics().bulk_slots == 1;
                    reached.mark_if(full && still, "bulk had its share and another passed");
                    let ticket = hand.commit(slot, payload).expect("the writer has not ended");
                    assert_eq!(block_on(ticket), Outcome::Durable);
                })
            })
            .collect();
        for task in bulk.into_iter().chain(waiters) {
            task.join().expect("a task");
        }
        drop(hand);
        assert!(matches!(world.close().len(), 2..=4));
    });
}
