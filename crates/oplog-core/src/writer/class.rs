//! Owns the two classes of those who write, and slots counted by class.

use std::ops::{AddAssign, SubAssign};

/// For whom a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Somebody who waits for the entry: any slot.
    Waiter,
    /// A producer of many entries that waits for none of them before the next: no more than [`Class::share`].
    Bulk,
}

impl Class {
    /// Of `all` slots or bytes, so many as bulk may take: seven eighths, and at least one.
    pub(super) const fn share(all: usize) -> usize {
        let kept = all.div_ceil(8);
        if all > kept { all - kept } else { 1 }
    }
}

/// So many slots; `bulk` of `all` are bulk's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) all: usize,
    pub(super) bulk: usize,
}

impl Slots {
    pub(super) const fn of(class: Class, n: usize) -> Self {
        match class {
            Class::Waiter => Self { all: n, bulk: 0 },
            Class::Bulk => Self { all: n, bulk: n },
        }
    }
}

impl AddAssign for Slots {
    fn add_assign(&mut self, more: Self) {
        self.all += more.all;
        self.bulk += more.bulk;
    }
}

impl SubAssign for Slots {
    fn sub_assign(&mut self, less: Self) {
        assert!(less.all <= self.all && less.bulk <= self.bulk, "{less:?} slots given back of {self:?} taken");
        self.all -= less.all;
        self.bulk -= less.bulk;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_leaves_an_eighth_and_always_gets_something() {
        assert_eq!([1, 2, 7, 8, 9, 16, 1024].map(Class::share), [1, 1, 6, 7, 7, 14, 896]);
    }
}
