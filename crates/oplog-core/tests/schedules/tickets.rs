//! Owns tickets that are polled, handed over, dropped and blocked on while they are resolved.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use ha_schedules::Reached;
use oplog_core::{Outcome, Ticket};
use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;

use crate::SCHEDULES;
use crate::world::{Hand, World, slots};

/// A waker that remembers.
#[derive(Default)]
struct Rang(AtomicBool);

impl Wake for Rang {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn poll(ticket: &mut Ticket, waker: &Waker) -> Poll<Outcome> {
    Pin::new(ticket).poll(&mut Context::from_waker(waker))
}

fn commit(hand: &Hand, payload: u8) -> Ticket {
    let slot = hand.try_reserve().expect("a slot");
    hand.commit(slot, payload).expect("the writer has not ended")
}

fn handed_over(mut ticket: Ticket, reached: &Reached) {
    let rang = Arc::new(Rang::default());
    let pending = poll(&mut ticket, &rang.clone().into()).is_pending();
    reached.mark_if(pending, "polled before it is resolved");
    reached.mark_if(!pending, "resolved before it is polled");
    if pending {
        assert_eq!(block_on(ticket), Outcome::Durable);
        reached
            .mark_if(!rang.0.load(Ordering::SeqCst), "resolved after the second waker had taken the first one's place");
    }
}

fn dropped(mut ticket: Ticket, reached: &Reached) {
    let rang = Arc::new(Rang::default());
    if poll(&mut ticket, &rang.clone().into()).is_pending() {
        for _ in 0..thread_rng().gen_range(0..8) {
            thread::yield_now();
        }
        let before = rang.0.load(Ordering::SeqCst);
        drop(ticket);
        let after = rang.0.load(Ordering::SeqCst);
        reached.mark_if(before, "dropped when it was woken");
        reached.mark_if(!after, "dropped before it was woken");
    }
}

#[test]
fn tickets_are_polled_handed_over_dropped_and_blocked_on_while_they_are_resolved() {
    const SITUATIONS: &[&str] = &[
        "polled before it is resolved",
        "resolved before it is polled",
        "resolved after the second waker had taken the first one's place",
        "dropped when it was woken",
        "dropped before it was woken",
        "blocked on",
    ];
    SCHEDULES.explore("tickets", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(4));
        let tasks: [fn(Ticket, &Reached); 3] = [handed_over, dropped, |ticket, reached| {
            reached.mark_if(ticket.outcome().is_none(), "blocked on");
            assert_eq!(ticket.wait(), Outcome::Durable);
        }];
        let tasks: Vec<_> = tasks
            .into_iter()
            .zip(0..)
            .map(|(task, payload)| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || task(commit(&hand, payload), &reached))
            })
            .collect();
        drop(hand);
        for task in tasks {
            task.join().expect("a task");
        }
        assert_eq!(world.close().len(), 3);
    });
}
