//! Owns how randomness enters.

use std::fmt;

/// The only way a Plimsoll crate below the binary draws randomness.
///
/// # Contract
/// Two processes, and two lives of one process, must not draw the same numbers: owners of a claim and incarnations
/// without a log rest on it. A generator with a fixed seed is for tests.
pub trait Entropy: Send + Sync + fmt::Debug + 'static {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The operating system's generator.
#[cfg(feature = "system")]
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

#[cfg(feature = "system")]
#[expect(clippy::disallowed_methods, reason = "this is the one place where the system's generator is read")]
impl Entropy for SystemEntropy {
    /// # Panics
    /// If the operating system has no randomness to give, which ends the process rather than weaken it.
    fn next_u64(&self) -> u64 {
        getrandom::u64().expect("the operating system's random generator works")
    }
}

/// A reproducible generator (`SplitMix64`), for tests.
#[cfg(feature = "test-kit")]
#[derive(Debug)]
pub struct SeededEntropy {
    state: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "test-kit")]
impl SeededEntropy {
    /// The generator of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: std::sync::atomic::AtomicU64::new(seed) }
    }
}

#[cfg(feature = "test-kit")]
impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, std::sync::atomic::Ordering::SeqCst).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(all(test, feature = "test-kit"))]
mod tests {
    use super::{Entropy as _, SeededEntropy};

    #[test]
    fn a_seed_gives_one_sequence() {
        let draw = |seed| {
            let from = SeededEntropy::new(seed);
            [from.next_u64(), from.next_u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(
            draw(0),
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4],
            "the published SplitMix64 sequence of seed 0"
        );
    }

    #[cfg(feature = "system")]
    #[test]
    fn the_system_does_not_repeat_itself() {
        use super::SystemEntropy;
        assert_ne!(SystemEntropy.next_u64(), SystemEntropy.next_u64());
    }
}
