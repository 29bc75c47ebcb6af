//! Owns the fence: who claimed the log, and the how-manieth claim it was.

use std::fmt;

/// How often the log has been claimed. Zero: never; nobody can write under it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(u64);

impl Epoch {
    /// No claim.
    pub const ZERO: Self = Self(0);

    /// The epoch `value`.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch of the next claim, or `None` at the end of the numbers.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(v) => Some(Self(v)),
            None => None,
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({})", self.0)
    }
}

/// A random number that tells one claim from another of the same epoch. Shown as 16 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Owner(u64);

impl Owner {
    /// Nobody: the owner beside epoch 0.
    pub const NOBODY: Self = Self(0);

    /// The owner `value`.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:016x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoch, Owner};

    #[test]
    fn the_last_epoch_has_no_next() {
        assert_eq!(Epoch::ZERO.next(), Some(Epoch::new(1)));
        assert_eq!(Epoch::new(u64::MAX).next(), None);
    }

    #[test]
    fn an_owner_always_shows_sixteen_digits() {
        assert_eq!(Owner::new(0xab).to_string(), "00000000000000ab");
        assert_eq!(Owner::NOBODY.to_string(), "0".repeat(16));
    }
}
