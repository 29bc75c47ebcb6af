//! Owns the pauses after failures: which bucket GC leaves alone, and until when. It must not know why.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use ha_types::MonoTime;

/// Pauses that double with every failure in a row, by whatever `K` names.
#[derive(Debug)]
pub(super) struct SetAside<K> {
    min: Duration,
    max: Duration,
    failing: HashMap<K, Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    until: MonoTime,
    next: Duration,
}

impl<K: Copy + Eq + Hash> SetAside<K> {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, failing: HashMap::new() }
    }

    /// It failed: gives how long it is left alone.
    pub(super) fn failed(&mut self, what: K, now: MonoTime) -> Duration {
        let pause = self.failing.get(&what).map_or(self.min, |pause| pause.next);
        let next = pause.saturating_mul(2).min(self.max);
        self.failing.insert(what, Pause { until: now.saturating_add(pause), next });
        pause
    }

    /// It succeeded, or is gone.
    pub(super) fn forget(&mut self, what: K) {
        self.failing.remove(&what);
    }

    /// The end of its pause, if it has not passed.
    pub(super) fn until(&self, what: K, now: MonoTime) -> Option<MonoTime> {
        self.failing.get(&what).map(|pause| pause.until).filter(|until| *until > now)
    }

    /// Forgets what is not there any more.
    pub(super) fn keep(&mut self, is_there: impl Fn(K) -> bool) {
        self.failing.retain(|what, _| is_there(*what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn b14_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() {
        let mut aside = SetAside::new(Duration::from_millis(10), Duration::from_millis(35));
        let pauses: Vec<_> = (0..4).map(|_| aside.failed('a', at(100)).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 35, 35]);
        assert_eq!((aside.until('a', at(134)), aside.until('a', at(135))), (Some(at(135)), None));
        assert_eq!(aside.until('b', at(0)), None);
        // That a pause is over is no success.
        assert_eq!(aside.failed('a', at(500)).as_millis(), 35);
        aside.forget('a');
        assert_eq!(aside.failed('a', at(500)).as_millis(), 10);
        aside.keep(|what| what != 'a');
        assert_eq!(aside.until('a', at(0)), None);
    }
}
