//! Owns the random part: how probable each fault is, and the draw.

use std::time::Duration;

use ha_types::Entropy;

use super::{Fault, OpKind};
use crate::KvErrorKind;

/// Probabilities of faults, each in per mille of the calls; together at most 1000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// [`Fault::Delay`] by up to [`max_delay`](Self::max_delay).
    pub delay: u16,
    /// [`Fault::FailBefore`] with a transient kind.
    pub fail_before: u16,
    /// [`Fault::LoseRequest`].
    pub lose_request: u16,
    /// [`Fault::FailAfter`].
    pub fail_after: u16,
    /// [`Fault::ApplyLater`] within [`max_delay`](Self::max_delay).
    pub apply_later: u16,
    /// [`Fault::Duplicate`].
    pub duplicate: u16,
    /// A hint of a watch that never arrives; drawn a hint, not a call.
    pub lose_hint: u16,
    /// The longest delay drawn.
    pub max_delay: Duration,
}

impl FaultPlan {
    /// No faults.
    pub const NONE: Self = Self {
        delay: 0,
        fail_before: 0,
        lose_request: 0,
        fail_after: 0,
        apply_later: 0,
        duplicate: 0,
        lose_hint: 0,
        max_delay: Duration::ZERO,
    };

    /// Everything, each in about 3 % of the calls.
    #[must_use]
    pub const fn rough(max_delay: Duration) -> Self {
        Self {
            delay: 100,
            fail_before: 30,
            lose_request: 30,
            fail_after: 30,
            apply_later: 30,
            duplicate: 30,
            lose_hint: 100,
            max_delay,
        }
    }

    /// Draws what befalls the next call.
    pub(super) fn draw(&self, kind: OpKind, entropy: &dyn Entropy) -> Fault {
        // One draw a call, whatever the plan, so that two plans of one seed meet the same sequence.
        let dice = entropy.next_u64();
        let mut roll = u16::try_from(dice % 1000).unwrap_or(0);
        let mut hit = |per_mille: u16| {
            let hit = roll < per_mille;
            roll = roll.saturating_sub(per_mille);
            if hit {
                roll = u16::MAX;
            }
            hit
        };
        let delay = || {
            let micros = u64::try_from(self.max_delay.as_micros()).unwrap_or(u64::MAX);
            Duration::from_micros((dice >> 16) % micros.max(1))
        };
        let transient = match dice >> 62 {
            0 => KvErrorKind::Busy,
            1 => KvErrorKind::Timeout,
            _ => KvErrorKind::Unavailable,
        };
        if hit(self.delay) {
            Fault::Delay(delay())
        } else if hit(self.fail_before) {
            Fault::FailBefore(transient)
        } else if hit(self.lose_request) {
            Fault::LoseRequest(KvErrorKind::Timeout)
        } else if hit(self.fail_after) {
            Fault::FailAfter(KvErrorKind::Unavailable)
        } else if hit(self.apply_later) && kind.is_write() {
            Fault::ApplyLater(Some(delay()))
        } else if hit(self.duplicate) {
            Fault::Duplicate
        } else {
            Fault::Pass
        }
    }
}

impl FaultPlan {
    /// # Panics
    /// If the probabilities sum to more than 1000: such a plan would silently be another one.
    pub(super) fn check(&self) {
        let calls =
            [self.delay, self.fail_before, self.lose_request, self.fail_after, self.apply_later, self.duplicate];
        let sum: u32 = calls.into_iter().map(u32::from).sum();
        assert!(sum <= 1000, "the fault plan's probabilities sum to {sum} per mille; lower them to at most 1000");
    }
}
