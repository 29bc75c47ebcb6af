//! What is left at rest: after a million tickets that nobody read, nothing. And the one state that only the core can show.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ha_types::{Epoch, ManualClock, MonoTime, Owner, SeededEntropy};

use super::kit::{ENTRY, claimed};
use crate::writer::class::Class;
use crate::writer::core::Core;
use crate::writer::flight::Action;
use crate::writer::{OrderedWriter, Phase, WriterConfig, WriterEnv};
use crate::{DurablePrefix, NewEntry, Outcome, Terminal};

async fn writer() -> OrderedWriter {
    let env = WriterEnv { clock: Arc::new(ManualClock::new()), entropy: Arc::new(SeededEntropy::new(1)) };
    OrderedWriter::start(claimed().await, WriterConfig::default(), env).expect("it starts")
}

/// Commits `count` entries and drops each ticket, every hundredth after it was polled once.
async fn commit_and_drop(writer: &OrderedWriter, count: u32) {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut left = count;
    while left > 0 {
        while let Ok(slot) = writer.reserve() {
            let mut ticket = slot.commit(ENTRY).expect("committed");
            if left.is_multiple_of(100) {
                let _ = std::pin::Pin::new(&mut ticket).poll(&mut cx);
            }
            drop(ticket);
            left -= 1;
            if left == 0 {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
    while writer.metrics().durable < writer.metrics().committed {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_million_tickets_dropped_unread_leave_nothing_behind() {
    let writer = writer().await;
    // A first round fills the buffers that are kept to be used again.
    commit_and_drop(&writer, 5_000).await;
    let shared = Arc::clone(&writer.handle.0);
    let (handles, owners) = (Arc::strong_count(&writer.handle), Arc::strong_count(&shared));
    let wakers = shared.tickets.wakers();
    commit_and_drop(&writer, 1_000_000).await;
    let metrics = writer.metrics();
    assert_eq!((metrics.committed, metrics.durable), (1_005_000, 1_005_000));
    let now = (metrics.slots, metrics.waiting_entries, metrics.waiting_bytes, metrics.callbacks_waiting);
    assert_eq!(now, (0, 0, 0, 0));
    assert_eq!(
        (Arc::strong_count(&writer.handle), Arc::strong_count(&shared)),
        (handles, owners),
        "a ticket left a handle"
    );
    let (kept, room) = shared.tickets.wakers();
    assert_eq!(kept, 0, "a waker of a dropped ticket was kept");
    assert!(room <= wakers.1.max(2048), "the ring of wakers grew to {room}, with the tickets that were dropped");
    assert_eq!(metrics.phase, Phase::Idle);
}

/// Sealing happens without the lock: a stop or a drain that comes meanwhile is heard before anything is sent.
#[test]
fn stop_and_drain_while_a_batch_is_being_sealed() {
    for stop in [true, false] {
        let claimed = DurablePrefix { epoch: Epoch::new(1), owner: Owner::new(1), ..DurablePrefix::FRESH };
        let mut core = Core::new(WriterConfig::default(), claimed, 0);
        core.reserve(Class::Waiter, 1).expect("a slot");
        core.commit(Class::Waiter, &ENTRY, &mut None, || MonoTime::ZERO).expect("committed");
        let departure = core.depart(0, MonoTime::ZERO).expect("one batch");
        assert_eq!(core.metrics(MonoTime::ZERO).phase, Phase::Sealing);
        if stop {
            core.stop();
        } else {
            core.start_drain();
        }
        let mut sealed = departure.seal(&mut crate::record::BatchCompressor::off()).expect("it seals");
        let action = core.take_off(&mut sealed);
        if stop {
            assert_eq!(action, Action::End(Terminal::Shutdown, Outcome::Never), "nothing was sent");
            let ended = core.end(Outcome::Never);
            assert_eq!((ended.durable_through, ended.unknown_through), (claimed.last_seq, claimed.last_seq));
            assert_eq!(core.metrics(MonoTime::ZERO).phase, Phase::Ended);
        } else {
            assert_eq!(action, Action::Append, "what was committed is written");
            assert_eq!(core.drained(), None);
            core.finish(MonoTime::from_origin(Duration::from_millis(1)));
            assert_eq!(core.drained(), Some(Ok(())));
        }
        assert_eq!(core.metrics(MonoTime::ZERO).slots, 0);
    }
}

/// A departure frees slots and bytes in one step: who waits for both and came first is not passed by one who waits for a slot alone.
#[test]
fn bulk_that_waits_for_bytes_is_not_passed_when_the_batch_that_held_them_leaves() {
    let claimed = DurablePrefix { epoch: Epoch::new(1), owner: Owner::new(1), ..DurablePrefix::FRESH };
    let config = WriterConfig { oplog_batch_max_entries: 3, oplog_batch_max_bytes: 1000, ..WriterConfig::default() };
    let mut core = Core::new(config, claimed, 0);
    core.reserve(Class::Bulk, 1).expect("a slot");
    let large = NewEntry { payload: &[0; 880], ..ENTRY };
    core.commit(Class::Bulk, &large, &mut None, || MonoTime::ZERO).expect("bulk's share of a batch in one entry");
    core.reserve(Class::Waiter, 2).expect("the other slots");
    let mut join = |class| core.reserve_or_join(class, Waker::noop()).expect("it accepts").expect("nothing is free");
    let (bulk, waiter) = (join(Class::Bulk), join(Class::Waiter));
    core.depart(0, MonoTime::ZERO).expect("one batch");
    let mut turn = |class, number| core.turn(class, number, Waker::noop()).expect("it accepts");
    assert_eq!((turn(Class::Bulk, bulk), turn(Class::Waiter, waiter)), (true, false), "first come, first served");
}
