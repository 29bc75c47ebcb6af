//! Owns the counters: records and bytes by what they are, for a bucket and in all. They are kept by differences, in O(1) a change.

use std::ops::{AddAssign, SubAssign};

use super::slots::SlotState;

/// A number of records and their bytes in data files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Records.
    pub(crate) records: u64,
    /// Their bytes, headers and checksums included.
    pub(crate) bytes: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
}

impl SubAssign for Sum {
    fn sub_assign(&mut self, other: Self) {
        self.records -= other.records;
        self.bytes -= other.bytes;
    }
}

/// The counters of a bucket, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures([Sum; SlotState::ALL.len()]);

impl Figures {
    /// Records in that state.
    pub(crate) const fn of(&self, state: SlotState) -> Sum {
        self.0[state as usize]
    }

    /// Dead records: hidden, superseded and tombstoned.
    pub(crate) fn dead(&self) -> Sum {
        self.sum(SlotState::is_dead)
    }

    /// Records that are not dead: live ones, and damaged ones that nothing may remove.
    pub(crate) fn kept(&self) -> Sum {
        self.sum(|state| !state.is_dead())
    }

    /// All records.
    pub(crate) fn all(&self) -> Sum {
        self.sum(|_| true)
    }

    fn sum(&self, counted: impl Fn(SlotState) -> bool) -> Sum {
        let mut sum = Sum::default();
        SlotState::ALL.into_iter().filter(|state| counted(*state)).for_each(|state| sum += self.of(state));
        sum
    }

    pub(super) fn add(&mut self, state: SlotState, bytes: u64) {
        self.0[state as usize] += Sum { records: 1, bytes };
    }

    pub(super) fn remove(&mut self, state: SlotState, bytes: u64) {
        self.0[state as usize] -= Sum { records: 1, bytes };
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, other)| *sum += other);
    }
}

impl SubAssign for Figures {
    fn sub_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, other)| *sum -= other);
    }
}
