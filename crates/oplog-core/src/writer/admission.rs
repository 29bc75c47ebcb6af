//! Owns the slots of the waiting queue and the lines of those who wait for one (RFC batch record §7). It knows no entries and
//! wakes nobody: wakers are handed out to be woken after the lock is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::class::{Class, Slots};

/// Slots, first come first served among those who may have one. Bulk stands in a line of its own: it waits for its share while
/// others pass, and for a free slot in its turn.
#[derive(Debug)]
pub(super) struct Admission {
    limit: usize,
    /// Reserved, and committed but not yet sealed.
    used: Slots,
    /// Whether nothing but slots is in the way.
    open: bool,
    /// The same for bulk.
    bulk_open: bool,
    /// Of both lines, so that one who may have a slot is passed by nobody who came later.
    next_number: u64,
    waiters: BTreeMap<u64, Waker>,
    bulk: BTreeMap<u64, Waker>,
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
        Self {
            limit,
            used: Slots::default(),
            open: true,
            bulk_open: true,
            next_number: 0,
            waiters: BTreeMap::new(),
            bulk: BTreeMap::new(),
            granted: BTreeSet::new(),
        }
    }

    pub(super) fn used(&self) -> Slots {
        self.used
    }

    /// Most slots that `class` may have.
    pub(super) fn limit(&self, class: Class) -> usize {
        match class {
            Class::Waiter => self.limit,
            Class::Bulk => Class::share(self.limit),
        }
    }

    fn has_room(&self, class: Class, n: usize) -> bool {
        let share = class == Class::Waiter || self.bulk_open && n <= self.limit(Class::Bulk) - self.used.bulk;
        self.open && share && n <= self.limit - self.used.all
    }

    /// Takes `n` slots if they are free. Nobody of the same class is overtaken: whenever a slot is given back it goes to those in
    /// line first, so while somebody waits none is free for that class.
    pub(super) fn take(&mut self, class: Class, n: usize) -> bool {
        let free = self.has_room(class, n);
        if free {
            self.used += Slots::of(class, n);
        }
        free
    }

    /// Gives slots back and passes them on.
    pub(super) fn release(&mut self, slots: Slots, wake: &mut Vec<Waker>) {
        self.give_back(slots);
        self.grant(wake);
    }

    /// Gives slots back. [`Self::set_open`] passes them on: what gave them back may have opened admission for one class too, and
    /// nobody of the other may pass it meanwhile.
    pub(super) fn give_back(&mut self, slots: Slots) {
        self.used -= slots;
    }

    /// Opens or closes for a passing reason (bytes), for all and for bulk; those in line stay.
    pub(super) fn set_open(&mut self, open: bool, bulk_open: bool, wake: &mut Vec<Waker>) {
        self.open = open;
        self.bulk_open = bulk_open;
        self.grant(wake);
    }

    fn line(&mut self, class: Class) -> &mut BTreeMap<u64, Waker> {
        match class {
            Class::Waiter => &mut self.waiters,
            Class::Bulk => &mut self.bulk,
        }
    }

    /// Joins the end of the line.
    pub(super) fn join(&mut self, class: Class, waker: Waker) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.line(class).insert(number, waker);
        number
    }

    /// Looks whether it is `number`'s turn. A waker that another takes the place of is woken rather than dropped: to drop the last
    /// reference to a task runs code of its owner's, and this is called under a lock.
    pub(super) fn turn(&mut self, class: Class, number: u64, waker: &Waker, wake: &mut Vec<Waker>) -> Turn {
        if self.granted.remove(&number) {
            return Turn::Granted;
        }
        match self.line(class).get_mut(&number) {
            Some(kept) => {
                if !kept.will_wake(waker) {
                    wake.push(std::mem::replace(kept, waker.clone()));
                }
                Turn::Waiting
            }
            None => Turn::Refused,
        }
    }

    /// Leaves the line; a slot granted in the meantime goes to the next. The waker is woken rather than dropped, as in
    /// [`Self::turn`].
    pub(super) fn leave(&mut self, class: Class, number: u64, wake: &mut Vec<Waker>) {
        if self.granted.remove(&number) {
            self.release(Slots::of(class, 1), wake);
        } else {
            wake.extend(self.line(class).remove(&number));
        }
    }

    /// Turns everybody in line away.
    pub(super) fn refuse_all(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(std::mem::take(&mut self.waiters).into_values());
        wake.extend(std::mem::take(&mut self.bulk).into_values());
    }

    /// The class of the one who came first of those who may have a slot now.
    fn next(&self) -> Option<Class> {
        let first = |class, line: &BTreeMap<u64, Waker>| {
            let (number, _) = line.first_key_value()?;
            self.has_room(class, 1).then_some((*number, class))
        };
        let (waiter, bulk) = (first(Class::Waiter, &self.waiters), first(Class::Bulk, &self.bulk));
        waiter.into_iter().chain(bulk).min_by_key(|(number, _)| *number).map(|(_, class)| class)
    }

    fn grant(&mut self, wake: &mut Vec<Waker>) {
        while let Some(class) = self.next() {
            let Some((number, waker)) = self.line(class).pop_first() else { return };
            self.used += Slots::of(class, 1);
            self.granted.insert(number);
            wake.push(waker);
        }
    }
}
