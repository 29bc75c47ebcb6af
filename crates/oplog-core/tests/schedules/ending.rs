//! Owns the ends: stop and drain against commit, and the last handle going with the last commit.

use std::time::Duration;

use ha_types::MonoTime;
use oplog_core::{CommitError, Outcome, ReserveError, Terminal};
use shuttle::future::block_on;
use shuttle::thread;

use crate::SCHEDULES;
use crate::world::{World, entry, slots, toss};

#[test]
fn a_stop_tells_every_commit_that_races_with_it_the_truth() {
    const SITUATIONS: &[&str] = &[
        "reserve refused by the end",
        "commit refused by the end",
        "durable in spite of the stop",
        "never",
        "unknown: stopped in flight",
    ];
    SCHEDULES.explore("stop", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(2));
        let producers: Vec<_> = (0..2)
            .map(|who| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || {
                    let slot = match hand.writer.reserve() {
                        Ok(slot) => slot,
                        Err(ReserveError::Unavailable { .. }) => {
                            reached.mark("reserve refused by the end");
                            return None;
                        }
                        Err(e) => panic!("{e}"),
                    };
                    match slot.commit(entry(&[who])) {
                        Ok(ticket) => {
                            hand.kept(ticket.seq(), who);
                            let seq = ticket.seq();
                            Some((seq, ticket.wait()))
                        }
                        Err(CommitError::Terminal(Terminal::Shutdown)) => {
                            reached.mark("commit refused by the end");
                            None
                        }
                        Err(e) => panic!("{e}"),
                    }
                })
            })
            .collect();
        block_on(hand.writer.stop());
        let told: Vec<_> = producers.into_iter().filter_map(|p| p.join().expect("a producer")).collect();
        assert_eq!(hand.writer.metrics().slots, 0, "a slot is lost");
        drop(hand);
        for (seq, outcome) in told {
            world.check(seq, outcome);
            reached.mark(match outcome {
                Outcome::Durable => "durable in spite of the stop",
                Outcome::Never => "never",
                Outcome::Unknown => "unknown: stopped in flight",
            });
        }
        world.close();
    });
}

#[test]
fn an_outcome_that_was_told_stays_whoever_asks_while_the_writer_ends() {
    const SITUATIONS: &[&str] = &["asked before it was known", "told durable", "told never", "told unknown"];
    SCHEDULES.explore("outcome_at_the_end", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(2));
        let asking: Vec<_> = (0..2)
            .map(|payload| {
                let slot = hand.try_reserve().expect("a slot");
                let ticket = hand.commit(slot, payload).expect("the writer has not ended");
                let reached = reached.clone();
                thread::spawn(move || {
                    reached.mark_if(ticket.outcome().is_none(), "asked before it was known");
                    let told = (0..40).find_map(|_| ticket.outcome());
                    let seq = ticket.seq();
                    let last = ticket.wait();
                    assert!(told.is_none_or(|told| told == last), "{seq} was told {told:?}, then {last:?}");
                    (seq, last)
                })
            })
            .collect();
        // Half of the stops come while a transaction is in flight.
        for _ in 0..if toss() { 50 } else { 0 } {
            if hand.store.is_flying() {
                break;
            }
            thread::yield_now();
        }
        block_on(hand.writer.stop());
        drop(hand);
        for asked in asking {
            let (seq, outcome) = asked.join().expect("one who asks");
            world.check(seq, outcome);
            reached.mark(match outcome {
                Outcome::Durable => "told durable",
                Outcome::Never => "told never",
                Outcome::Unknown => "told unknown",
            });
        }
        world.close();
    });
}

#[test]
fn a_drain_waits_for_what_is_reserved_and_refuses_the_rest() {
    const SITUATIONS: &[&str] = &[
        "reserve refused by the drain",
        "the last slot was committed",
        "the last slot was given back",
        "turned away in line",
    ];
    SCHEDULES.explore("drain", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(1));
        let holder = {
            let (hand, reached) = (hand.clone(), reached.clone());
            let slot = hand.try_reserve().expect("the only slot");
            thread::spawn(move || {
                if toss() {
                    reached.mark("the last slot was committed");
                    drop(hand.commit(slot, 0).expect("what is reserved may commit"));
                } else {
                    reached.mark("the last slot was given back");
                    drop(slot);
                }
            })
        };
        let waiter = {
            let (hand, reached) = (hand.clone(), reached.clone());
            thread::spawn(move || match block_on(hand.writer.ready()) {
                Ok(slot) => drop(hand.commit(slot, 1).expect("what is reserved may commit")),
                Err(_) => reached.mark("turned away in line"),
            })
        };
        block_on(hand.writer.drain(MonoTime::from_origin(Duration::MAX))).expect("the drain ends well");
        let metrics = hand.writer.metrics();
        assert_eq!((metrics.slots, metrics.committed), (0, metrics.durable), "the drain was over before its work");
        reached.mark_if(hand.writer.reserve().is_err(), "reserve refused by the drain");
        for task in [holder, waiter] {
            task.join().expect("a task");
        }
        assert_eq!(hand.writer.metrics().committed, metrics.committed, "something was committed after the drain");
        drop(hand);
        assert_eq!(world.close().len() as u64, metrics.durable);
    });
}

#[test]
fn v5_an_entry_whose_last_handle_goes_with_its_commit_is_written_and_the_driver_ends() {
    const SITUATIONS: &[&str] = &["the ticket went first", "the writer went first", "nothing was ever committed"];
    SCHEDULES.explore("last_handle", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(2));
        let slot = hand.try_reserve().expect("a slot");
        if toss() {
            reached.mark("nothing was ever committed");
            let other = thread::spawn(move || drop(slot));
            drop(hand);
            other.join().expect("a task");
            assert_eq!(world.close(), Vec::<u8>::new());
            return;
        }
        let first = toss();
        reached.mark(if first { "the ticket went first" } else { "the writer went first" });
        let committer = {
            let hand = hand.clone();
            thread::spawn(move || {
                let ticket = hand.commit(slot, 0).expect("the writer has not ended");
                if first {
                    drop(ticket);
                    drop(hand);
                } else {
                    drop(hand);
                    drop(ticket);
                }
            })
        };
        drop(hand);
        committer.join().expect("a task");
        assert_eq!(world.close(), [0], "the late commit is stranded");
    });
}
