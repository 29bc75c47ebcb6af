//! Owns the name of one object for all time.

use std::fmt;

use crate::{Epoch, Owner};

/// 16 bytes that name one object for all time: the claimed epoch (below 2^31), the low 32 bits of that claim's owner, and a
/// counter from 1, each big-endian. Without a log the first eight bytes are random with the top bit set. All zero:
/// written before incarnations existed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ObjectIncarnation([u8; 16]);

impl ObjectIncarnation {
    /// Written before incarnations existed.
    pub const LEGACY: Self = Self([0; 16]);

    /// The incarnation `counter` of a claim. `None` if the epoch is zero or not below 2^31, or the counter is zero.
    #[must_use]
    pub fn of_claim(epoch: Epoch, owner: Owner, counter: u64) -> Option<Self> {
        let epoch = u32::try_from(epoch.get()).ok().filter(|e| *e != 0 && *e < 1 << 31)?;
        if counter == 0 {
            return None;
        }
        let low_owner = (owner.get() & 0xffff_ffff) as u32;
        let head = (u64::from(epoch) << 32) | u64::from(low_owner);
        Some(Self::from_parts(head, counter))
    }

    /// The incarnation `counter` of a life without a log, whose random draw was `random`. `None` if the counter is zero.
    #[must_use]
    pub fn without_log(random: u64, counter: u64) -> Option<Self> {
        (counter != 0).then(|| Self::from_parts(random | (1 << 63), counter))
    }

    fn from_parts(head: u64, counter: u64) -> Self {
        let value = (u128::from(head) << 64) | u128::from(counter);
        Self(value.to_be_bytes())
    }

    /// The incarnation that these bytes spell.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for ObjectIncarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ObjectIncarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectIncarnation({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::ObjectIncarnation;
    use crate::{Epoch, Owner};

    #[test]
    fn m8_the_bytes_hold_epoch_low_owner_and_counter_in_that_order() {
        let made = ObjectIncarnation::of_claim(Epoch::new(7), Owner::new(0xaabb_ccdd_1122_3344), 9).unwrap();
        assert_eq!(made.to_string(), "00000007112233440000000000000009");
        assert_eq!(ObjectIncarnation::from_bytes(made.to_bytes()), made);
    }

    #[test]
    fn m8_a_claim_that_could_not_be_told_from_another_is_refused() {
        let owner = Owner::new(1);
        assert_eq!(ObjectIncarnation::of_claim(Epoch::ZERO, owner, 1), None);
        assert_eq!(ObjectIncarnation::of_claim(Epoch::new(1 << 31), owner, 1), None);
        assert_eq!(ObjectIncarnation::of_claim(Epoch::new(1), owner, 0), None);
        assert!(ObjectIncarnation::of_claim(Epoch::new((1 << 31) - 1), owner, u64::MAX).is_some());
    }

    #[test]
    fn m8_lives_with_and_without_a_log_never_meet() {
        let without = ObjectIncarnation::without_log(0, 1).unwrap();
        assert_eq!(without.to_bytes()[0] & 0x80, 0x80);
        let with = ObjectIncarnation::of_claim(Epoch::new((1 << 31) - 1), Owner::new(u64::MAX), 1).unwrap();
        assert_eq!(with.to_bytes()[0] & 0x80, 0);
        assert_eq!(ObjectIncarnation::without_log(5, 0), None);
    }
}
