//! Owns lost, late and refused transactions: admission closes and opens again, and nobody waits for ever.

use oplog_core::{Outcome, ReserveError};
use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;

use crate::SCHEDULES;
use crate::store::Fate;
use crate::world::{World, slots};

#[test]
fn a_store_that_loses_delays_and_refuses_closes_admission_until_it_is_cured() {
    const SITUATIONS: &[&str] = &[
        "a reply was lost",
        "a request was lost",
        "a transaction landed late",
        "a transaction was refused",
        "turned away while the store fails",
        "sent again",
        "an unknown outcome turned out committed",
        "admitted again",
    ];
    SCHEDULES.explore("unknown", SITUATIONS, |reached| {
        let (world, hand) = World::start(slots(1));
        for _ in 0..thread_rng().gen_range(1..3) {
            let (fate, situation) = match thread_rng().gen_range(0..4) {
                0 => (Fate::ReplyLost, "a reply was lost"),
                1 => (Fate::NeverArrived, "a request was lost"),
                2 => (Fate::Late, "a transaction landed late"),
                _ => (Fate::Refused, "a transaction was refused"),
            };
            reached.mark(situation);
            hand.store.fates.lock().push_back(fate);
        }
        let producers: Vec<_> = (0..3)
            .map(|who| {
                let (hand, reached) = (hand.clone(), reached.clone());
                thread::spawn(move || {
                    let mut refused = false;
                    let slot = loop {
                        match block_on(hand.writer.ready()) {
                            Ok(slot) => break slot,
                            Err(ReserveError::Unavailable { .. }) => {
                                reached.mark("turned away while the store fails");
                                refused = true;
                                // The status says when it is worth another try.
                                let mut status = hand.writer.status();
                                block_on(status.wait_for(|s| s.accepting)).expect("the writer lives");
                                // It is shown a moment after it is so.
                                thread::yield_now();
                            }
                            Err(e) => panic!("{e}"),
                        }
                    };
                    reached.mark_if(refused, "admitted again");
                    let ticket = hand.commit(slot, who).expect("the writer has not ended");
                    assert_eq!(block_on(ticket), Outcome::Durable);
                })
            })
            .collect();
        for producer in producers {
            producer.join().expect("a producer");
        }
        let metrics = hand.writer.metrics();
        assert_eq!((metrics.slots, metrics.durable), (0, 3));
        reached.mark_if(metrics.retries > 0, "sent again");
        reached.mark_if(metrics.recovered_unknown > 0, "an unknown outcome turned out committed");
        drop(hand);
        let mut stored = world.close();
        stored.sort_unstable();
        assert_eq!(stored, [0, 1, 2], "each entry once");
    });
}
