//! Owns what tickets look at: the durable sequence all of them share, how the log ended, and a ring of wakers by sequence. A
//! ticket that nobody polls costs nothing here.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::task::Waker;

use ha_types::Seq;

use crate::Outcome;
use crate::sync::{AtomicU64, Mutex, OnceLock};

/// Shared by the writer and all its tickets.
#[derive(Debug)]
pub(super) struct Tickets {
    durable: AtomicU64,
    /// Set once: what lies above the durable sequence and up to here is unknown, what lies above is never.
    unknown_through: OnceLock<Seq>,
    ring: Mutex<Ring>,
}

/// Wakers of the sequences from `first` on; as long as the furthest that was polled.
#[derive(Debug)]
struct Ring {
    first: u64,
    wakers: VecDeque<Option<Waker>>,
}

impl Tickets {
    pub(super) fn new(durable: Seq) -> Self {
        let ring = Ring { first: durable.get().saturating_add(1), wakers: VecDeque::new() };
        Self { durable: AtomicU64::new(durable.get()), unknown_through: OnceLock::new(), ring: Mutex::new(ring) }
    }

    pub(super) fn durable(&self) -> Seq {
        Seq::new(self.durable.load(Ordering::Acquire))
    }

    /// What became of `seq`; `None` while it is open.
    pub(super) fn outcome(&self, seq: Seq) -> Option<Outcome> {
        if seq <= self.durable() {
            return Some(Outcome::Durable);
        }
        let unknown_through = *self.unknown_through.get()?;
        // The end is published after the last durable sequence, so this second look is final.
        Some(match seq {
            _ if seq <= self.durable() => Outcome::Durable,
            _ if seq <= unknown_through => Outcome::Unknown,
            _ => Outcome::Never,
        })
    }

    /// The outcome, or keeps `waker` for it.
    pub(super) fn poll(&self, seq: Seq, waker: &Waker) -> Option<Outcome> {
        if let Some(outcome) = self.outcome(seq) {
            return Some(outcome);
        }
        let mut ring = self.ring.lock();
        // Whoever moves the boundary takes the wakers under this lock afterwards: no wake-up can be missed.
        if let Some(outcome) = self.outcome(seq) {
            return Some(outcome);
        }
        let replaced = ring.keep(seq, waker);
        drop(ring);
        // Not under the lock: to drop the last reference to a task runs code of its owner's, which may drop a ticket.
        drop(replaced);
        None
    }

    /// How many wakers are kept, and for how many there is room.
    #[cfg(test)]
    pub(super) fn wakers(&self) -> (usize, usize) {
        let ring = self.ring.lock();
        (ring.wakers.len(), ring.wakers.capacity())
    }

    /// Forgets the waker of a ticket that was polled and dropped.
    pub(super) fn forget(&self, seq: Seq) {
        let forgotten = self.ring.lock().forget(seq);
        drop(forgotten);
    }

    /// Everything up to `through` is durable; the caller wakes `wake` outside all locks.
    pub(super) fn advance(&self, through: Seq, wake: &mut Vec<Waker>) {
        let before = self.durable.swap(through.get(), Ordering::AcqRel);
        assert!(before <= through.get(), "the durable sequence went back from {before} to {through}");
        self.ring.lock().take_through(through, wake);
    }

    /// The log has ended: what is above the durable sequence is unknown up to `unknown_through`, and never above.
    pub(super) fn end(&self, unknown_through: Seq, wake: &mut Vec<Waker>) {
        if self.unknown_through.set(unknown_through).is_ok() {
            self.ring.lock().take_through(Seq::new(u64::MAX), wake);
        }
    }
}

impl Ring {
    fn index(&self, seq: Seq) -> Option<usize> {
        usize::try_from(seq.get().checked_sub(self.first)?).ok()
    }

    /// Keeps a clone of `waker`, and gives out the one it takes the place of.
    fn keep(&mut self, seq: Seq, waker: &Waker) -> Option<Waker> {
        let index = self.index(seq)?;
        if index >= self.wakers.len() {
            self.wakers.resize(index + 1, None);
        }
        let slot = self.wakers.get_mut(index)?;
        match slot {
            Some(kept) if kept.will_wake(waker) => None,
            _ => slot.replace(waker.clone()),
        }
    }

    fn forget(&mut self, seq: Seq) -> Option<Waker> {
        let index = self.index(seq)?;
        self.wakers.get_mut(index)?.take()
    }

    fn take_through(&mut self, through: Seq, wake: &mut Vec<Waker>) {
        let count = self.index(through).map_or(0, |index| index.saturating_add(1).min(self.wakers.len()));
        wake.extend(self.wakers.drain(..count).flatten());
        self.first = self.first.max(through.get().saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn seq(n: u64) -> Seq {
        Seq::new(n)
    }

    fn wake_all(wake: Vec<Waker>) -> usize {
        wake.into_iter().map(Waker::wake).count()
    }

    #[test]
    fn only_the_polled_are_woken_and_only_once_their_sequence_is_durable() {
        let tickets = Tickets::new(seq(10));
        let (a, b) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
        assert_eq!(tickets.poll(seq(10), Waker::noop()), Some(Outcome::Durable));
        assert_eq!(tickets.poll(seq(12), &a.clone().into()), None);
        assert_eq!(tickets.poll(seq(15), &b.clone().into()), None);
        let mut wake = Vec::new();
        tickets.advance(seq(13), &mut wake);
        wake_all(wake);
        assert_eq!((a.0.load(Ordering::SeqCst), b.0.load(Ordering::SeqCst)), (1, 0));
        assert_eq!(tickets.poll(seq(12), Waker::noop()), Some(Outcome::Durable));
        let mut wake = Vec::new();
        tickets.advance(seq(20), &mut wake);
        assert_eq!(wake_all(wake), 1);
    }

    #[test]
    fn the_end_tells_three_truths() {
        let tickets = Tickets::new(seq(4));
        let mut wake = Vec::new();
        assert_eq!(tickets.poll(seq(6), Waker::noop()), None);
        tickets.end(seq(7), &mut wake);
        assert_eq!(wake.len(), 1);
        assert_eq!(tickets.outcome(seq(4)), Some(Outcome::Durable));
        assert_eq!(tickets.outcome(seq(7)), Some(Outcome::Unknown));
        assert_eq!(tickets.outcome(seq(8)), Some(Outcome::Never));
        tickets.end(seq(100), &mut wake);
        assert_eq!(tickets.outcome(seq(8)), Some(Outcome::Never), "the first end is the end");
    }

    #[test]
    fn a_forgotten_waker_is_not_woken() {
        let tickets = Tickets::new(seq(0));
        assert_eq!(tickets.poll(seq(1), Waker::noop()), None);
        tickets.forget(seq(1));
        let mut wake = Vec::new();
        tickets.advance(seq(1), &mut wake);
        assert!(wake.is_empty());
        tickets.forget(seq(1));
    }

    #[test]
    fn the_ring_is_as_long_as_the_furthest_poll_and_shrinks_with_the_boundary() {
        let tickets = Tickets::new(seq(0));
        let mut wake = Vec::new();
        tickets.advance(seq(1_000_000), &mut wake);
        assert_eq!(tickets.ring.lock().wakers.capacity(), 0, "a million tickets that nobody polled cost nothing");
        assert_eq!(tickets.poll(seq(1_000_003), Waker::noop()), None);
        assert_eq!(tickets.ring.lock().wakers.len(), 3);
    }
}
