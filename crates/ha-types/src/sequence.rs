//! Owns the two counters of the log: entries and batches. They cannot be confused and never wrap.

use std::fmt;

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Before the first one.
            pub const ZERO: Self = Self(0);

            /// The id `value`.
            #[must_use]
            pub const fn new(value: u64) -> Self {
                Self(value)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The one after, or `None` at the end of the numbers.
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            /// `self + n`, or `None` past the end of the numbers.
            #[must_use]
            pub const fn checked_add(self, n: u64) -> Option<Self> {
                match self.0.checked_add(n) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }

            /// How many lie in `(earlier, self]`; zero if `earlier` is not earlier.
            #[must_use]
            pub const fn distance_from(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

counter! {
    /// The sequence of one entry of the log: 1, 2, 3, ... without a hole. Zero is the empty log.
    Seq
}

counter! {
    /// The number of one batch record: 1, 2, 3, ... without a hole. Zero is the log before its first batch.
    BatchId
}

#[cfg(test)]
mod tests {
    use super::{BatchId, Seq};

    #[test]
    fn the_counters_stop_at_the_end_instead_of_wrapping() {
        assert_eq!(Seq::new(u64::MAX).next(), None);
        assert_eq!(BatchId::new(u64::MAX - 1).checked_add(2), None);
        assert_eq!(Seq::ZERO.next(), Some(Seq::new(1)));
    }

    #[test]
    fn distance_counts_what_lies_after_the_earlier_one() {
        assert_eq!(Seq::new(7).distance_from(Seq::new(4)), 3);
        assert_eq!(Seq::new(4).distance_from(Seq::new(7)), 0);
    }
}
