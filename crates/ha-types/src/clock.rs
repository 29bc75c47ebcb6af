//! Owns how time enters: a monotonic reading for every decision, a wall reading for people only.

use std::fmt;
use std::time::Duration;

/// A reading of one process's monotonic clock: the time since an origin that never changes while the process lives.
///
/// Readings of different processes have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MonoTime(Duration);

impl MonoTime {
    /// The origin.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// The reading `since_origin` after the origin.
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(since_origin)
    }

    /// Time since the origin.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// `self - earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// `self + by`, at most the largest reading.
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }

    /// `self - by`, at least the origin.
    #[must_use]
    pub fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by))
    }
}

impl fmt::Debug for MonoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{:?}", self.0)
    }
}

/// The only way a Plimsoll crate below the binary learns the time.
///
/// # Contract
/// * `now` never goes back and goes on while the process is stopped (`SIGSTOP`); otherwise a paused leader would believe
///   that its lease still runs.
/// * `unix_ms` may jump. Nothing is ever decided by it; it is written into records for people.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The monotonic reading.
    fn now(&self) -> MonoTime;

    /// Milliseconds since the Unix epoch, for people.
    fn unix_ms(&self) -> u64;
}

/// The operating system's clocks.
#[cfg(feature = "system")]
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: std::time::Instant,
}

#[cfg(feature = "system")]
#[expect(clippy::disallowed_methods, reason = "this is the one place where the system's clock is read")]
impl SystemClock {
    /// A clock whose origin is this call.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: std::time::Instant::now() }
    }
}

#[cfg(feature = "system")]
impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(feature = "system")]
#[expect(clippy::disallowed_methods, reason = "this is the one place where the system's clock is read")]
impl Clock for SystemClock {
    fn now(&self) -> MonoTime {
        MonoTime(self.origin.elapsed())
    }

    fn unix_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that a test moves by hand.
#[cfg(feature = "test-kit")]
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "test-kit")]
impl ManualClock {
    /// A clock that stands at the origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    ///
    /// # Panics
    /// If `by` is longer than 584 years.
    pub fn advance(&self, by: Duration) {
        let ns = u64::try_from(by.as_nanos()).expect("a test advances by less than 584 years");
        self.now_ns.fetch_add(ns, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(feature = "test-kit")]
impl Clock for ManualClock {
    fn now(&self) -> MonoTime {
        MonoTime(Duration::from_nanos(self.now_ns.load(std::sync::atomic::Ordering::SeqCst)))
    }

    fn unix_ms(&self) -> u64 {
        1_700_000_000_000 + self.now_ns.load(std::sync::atomic::Ordering::SeqCst) / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::MonoTime;

    #[test]
    fn arithmetic_stops_at_both_ends() {
        let two = MonoTime::from_origin(Duration::from_secs(2));
        assert_eq!(MonoTime::ZERO.saturating_since(two), Duration::ZERO);
        assert_eq!(MonoTime::ZERO.saturating_sub(Duration::from_secs(1)), MonoTime::ZERO);
        assert_eq!(two.saturating_add(Duration::MAX).since_origin(), Duration::MAX);
        assert_eq!(two.saturating_since(MonoTime::ZERO), Duration::from_secs(2));
    }

    #[cfg(feature = "system")]
    #[test]
    fn the_system_clock_does_not_go_back() {
        use super::{Clock as _, SystemClock};
        let clock = SystemClock::new();
        let first = clock.now();
        assert!(clock.now() >= first);
        assert!(clock.unix_ms() > 1_600_000_000_000);
    }

    #[cfg(feature = "test-kit")]
    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        use super::{Clock as _, ManualClock};
        let clock = ManualClock::new();
        assert_eq!(clock.now(), MonoTime::ZERO);
        clock.advance(Duration::from_millis(3));
        assert_eq!(clock.now().since_origin(), Duration::from_millis(3));
        assert_eq!(clock.unix_ms(), 1_700_000_000_003);
    }
}
