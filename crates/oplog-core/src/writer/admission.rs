//! Owns the slots of the waiting queue and the line of those who wait for one (RFC batch record §7). It knows no entries and
//! wakes nobody: wakers are handed out to be woken after the lock is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

/// Slots, first come first served.
#[derive(Debug)]
pub(super) struct Admission {
    limit: usize,
    /// Reserved, and committed but not yet sealed.
    used: usize,
    /// Whether nothing but slots is in the way.
    open: bool,
    next_number: u64,
    waiting: BTreeMap<u64, Waker>,
    /// A slot is theirs; they have not looked yet.
    granted: BTreeSet<u64>,
}

/// What one who waits finds when it looks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The slot is the caller's now.
    Granted,
    /// Not yet; the waker was kept.
    Waiting,
    /// Turned away.
    Refused,
}

impl Admission {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, used: 0, open: true, next_number: 0, waiting: BTreeMap::new(), granted: BTreeSet::new() }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Takes `n` slots if they are free. Nobody is overtaken: whenever a slot is given back it goes to those in line first, so
    /// while somebody waits none is free.
    pub(super) fn take(&mut self, n: usize) -> bool {
        let free = self.open && n <= self.limit - self.used;
        if free {
            self.used += n;
        }
        free
    }

    /// Gives `n` slots back and passes them on.
    pub(super) fn release(&mut self, n: usize, wake: &mut Vec<Waker>) {
        assert!(n <= self.used, "{n} slots given back of {} taken", self.used);
        self.used -= n;
        self.grant(wake);
    }

    /// Opens or closes for a passing reason (bytes); those in line stay.
    pub(super) fn set_open(&mut self, open: bool, wake: &mut Vec<Waker>) {
        self.open = open;
        self.grant(wake);
    }

    /// Joins the end of the line.
    pub(super) fn join(&mut self, waker: Waker) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.waiting.insert(number, waker);
        number
    }

    /// Looks whether it is `number`'s turn.
    pub(super) fn turn(&mut self, number: u64, waker: &Waker) -> Turn {
        if self.granted.remove(&number) {
            return Turn::Granted;
        }
        match self.waiting.get_mut(&number) {
            Some(kept) => {
                kept.clone_from(waker);
                Turn::Waiting
            }
            None => Turn::Refused,
        }
    }

    /// Leaves the line; a slot granted in the meantime goes to the next.
    pub(super) fn leave(&mut self, number: u64, wake: &mut Vec<Waker>) {
        if self.granted.remove(&number) {
            self.release(1, wake);
        } else {
            self.waiting.remove(&number);
        }
    }

    /// Turns everybody in line away.
    pub(super) fn refuse_all(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(std::mem::take(&mut self.waiting).into_values());
    }

    fn grant(&mut self, wake: &mut Vec<Waker>) {
        while self.open && self.used < self.limit {
            let Some((number, waker)) = self.waiting.pop_first() else { return };
            self.used += 1;
            self.granted.insert(number);
            wake.push(waker);
        }
    }
}
