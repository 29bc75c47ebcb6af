//! Owns the copy-rate budget of GC: how long a copy must pause. It neither sleeps nor reads a clock.

use std::num::NonZeroU64;
use std::time::Duration;

use ha_types::MonoTime;

/// The longest pause that the share of the time asks for after one step. A step that took hours, because the machine stood still, must
/// not keep GC away for days.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What GC may copy: a share of the time and bytes per second, measured in hindsight. A step is taken first and paid for before the
/// next one. An idle time earns nothing, so a long pause is never followed by a burst longer than one step.
#[derive(Clone, Copy, Debug)]
pub struct CopyBudget {
    share: f64,
    bytes_per_second: Option<NonZeroU64>,
    paid_at: MonoTime,
}

impl CopyBudget {
    /// A budget of this share of the time, of (0, 1], and of `bytes_per_second`; a share of 1 and `None` never pause.
    #[must_use]
    pub const fn new(share: f64, bytes_per_second: Option<NonZeroU64>) -> Self {
        Self { share, bytes_per_second, paid_at: MonoTime::ZERO }
    }

    /// Whether it ever asks for a pause.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.share < 1.0 || self.bytes_per_second.is_some()
    }

    /// How long to wait before the next step; zero if it may be taken now.
    #[must_use]
    pub fn pause(&self, now: MonoTime) -> Duration {
        self.paid_at.saturating_since(now)
    }

    /// Books a step of `bytes` from `begun` to `ended`, so that the next one waits for what both limits allow.
    pub fn spend(&mut self, begun: MonoTime, ended: MonoTime, bytes: u64) {
        let took = ended.saturating_since(begun);
        // What is no time at all is the share of a number that is next to nothing.
        let by_share = Duration::try_from_secs_f64(took.as_secs_f64() / self.share).unwrap_or(Duration::MAX);
        let by_share = by_share.clamp(took, took.saturating_add(LONGEST_PAUSE));
        let by_rate = self.bytes_per_second.map_or(Duration::ZERO, |rate| {
            let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
            Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
        });
        self.paid_at = self.paid_at.max(begun).saturating_add(by_share.max(by_rate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn a_step_is_paid_for_before_the_next_one() {
        let mut budget = CopyBudget::new(1.0, NonZeroU64::new(1_000_000));
        assert_eq!(budget.pause(at(5)), Duration::ZERO);
        budget.spend(at(5), at(6), 10_000);
        assert_eq!(budget.pause(at(5)), Duration::from_millis(10));
        assert_eq!(budget.pause(at(14)), Duration::from_millis(1));
        assert_eq!(budget.pause(at(15)), Duration::ZERO);
    }

    #[test]
    fn the_rate_holds_over_many_steps_and_idle_time_earns_nothing() {
        let mut budget = CopyBudget::new(1.0, NonZeroU64::new(1_000_000));
        let mut now = at(60_000);
        for _ in 0..100 {
            now = now.saturating_add(budget.pause(now));
            budget.spend(now, now, 50_000);
        }
        now = now.saturating_add(budget.pause(now));
        assert_eq!(now, at(65_000));
    }

    #[test]
    fn without_a_rate_nothing_pauses_and_no_number_overflows() {
        let mut free = CopyBudget::new(1.0, None);
        free.spend(at(1), at(2), u64::MAX);
        assert_eq!((free.pause(at(2)), free.is_throttled()), (Duration::ZERO, false));
        let mut slow = CopyBudget::new(1.0, NonZeroU64::new(1));
        slow.spend(at(1), at(1), u64::MAX);
        slow.spend(at(1), at(1), u64::MAX);
        assert!(slow.pause(at(1)) > Duration::from_secs(1 << 30));
    }

    #[test]
    fn a_share_of_the_time_is_left_to_others_whatever_a_step_takes() {
        let mut budget = CopyBudget::new(0.25, None);
        budget.spend(at(100), at(110), 1);
        assert_eq!((budget.pause(at(110)), budget.is_throttled()), (Duration::from_millis(30), true));
        // The stricter of the two limits counts.
        let mut both = CopyBudget::new(0.5, NonZeroU64::new(1_000_000));
        both.spend(at(0), at(10), 50_000);
        assert_eq!(both.pause(at(10)), Duration::from_millis(40));
        for share in [f64::NAN, 0.0, -1.0, f64::MIN_POSITIVE, 2.0] {
            let mut odd = CopyBudget::new(share, None);
            odd.spend(at(0), at(10), 1);
            assert!(odd.pause(at(0)) >= Duration::from_millis(10), "{share}");
        }
    }

    #[test]
    fn the_smallest_share_is_the_slowest_copy_and_a_step_of_hours_keeps_nothing_away_for_days() {
        let pause = |share, took: u64| {
            let mut budget = CopyBudget::new(share, None);
            budget.spend(at(0), at(took), 1);
            budget.pause(at(took))
        };
        assert_eq!(pause(f64::MIN_POSITIVE, 10), LONGEST_PAUSE);
        assert_eq!(pause(0.001, 10), Duration::from_millis(9_990));
        assert_eq!(pause(0.001, 7_200_000), LONGEST_PAUSE);
    }
}
