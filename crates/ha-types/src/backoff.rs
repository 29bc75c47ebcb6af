//! Owns the pause between two attempts: doubling, bounded, with jitter. It does not wait; its caller does.

use std::time::Duration;

use crate::Entropy;

/// Pauses that double from a first to a longest one. Each is drawn from the upper half of its step, so that two clients that
/// failed together do not come back together.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    step: Duration,
}

impl Backoff {
    /// Pauses from `min` to `max`. A `max` below `min` counts as `min`.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), step: min }
    }

    /// The next pause, at most the longest one.
    pub fn next_pause(&mut self, entropy: &dyn Entropy) -> Duration {
        let step = self.step;
        self.step = step.saturating_mul(2).min(self.max);
        jittered(step, entropy)
    }

    /// Starts again at the first pause.
    pub fn reset(&mut self) {
        self.step = self.min;
    }
}

/// A duration drawn from the upper half of `full`.
#[must_use]
fn jittered(full: Duration, entropy: &dyn Entropy) -> Duration {
    let half = full / 2;
    let span = u64::try_from((full - half).as_nanos()).unwrap_or(u64::MAX - 1);
    half + Duration::from_nanos(entropy.next_u64() % (span + 1))
}

#[cfg(all(test, feature = "test-kit"))]
mod tests {
    use super::*;
    use crate::SeededEntropy;

    #[test]
    fn doubles_within_its_bounds_and_starts_again() {
        let entropy = SeededEntropy::new(7);
        let (min, max) = (Duration::from_millis(1), Duration::from_millis(100));
        let mut backoff = Backoff::new(min, max);
        let mut step = min;
        for _ in 0..20 {
            let pause = backoff.next_pause(&entropy);
            assert!(pause >= step / 2 && pause <= step, "{pause:?} is not in the upper half of {step:?}");
            step = (step * 2).min(max);
        }
        backoff.reset();
        assert!(backoff.next_pause(&entropy) <= min);
    }

    #[test]
    fn extreme_bounds_do_not_overflow() {
        let entropy = SeededEntropy::new(7);
        let mut backoff = Backoff::new(Duration::MAX, Duration::ZERO);
        for _ in 0..3 {
            assert!(backoff.next_pause(&entropy) >= Duration::MAX / 2);
        }
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).next_pause(&entropy), Duration::ZERO);
    }
}
