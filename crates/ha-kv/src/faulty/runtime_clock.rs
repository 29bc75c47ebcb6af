//! Owns the clock of tests over a faulty store: the runtime's own time. It must not be used where time is not a test's.

use ha_types::{Clock, MonoTime};
use tokio::time::Instant;

/// The runtime's time since this was made: that by which [`FaultyKv`](super::FaultyKv) delays, so that a test that pauses the
/// runtime moves both. Its wall time stands still.
#[derive(Debug)]
pub struct RuntimeClock(Instant);

impl RuntimeClock {
    /// What [`Clock::unix_ms`] always says.
    pub const UNIX_MS: u64 = 1_700_000_000_000;

    /// Begins now.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        clippy::new_without_default,
        reason = "this is the clock, and it begins when told"
    )]
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> MonoTime {
        MonoTime::from_origin(self.0.elapsed())
    }

    fn unix_ms(&self) -> u64 {
        Self::UNIX_MS
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_moves_with_the_runtimes_time_and_its_wall_time_does_not() {
        let clock = RuntimeClock::new();
        assert_eq!(clock.now(), MonoTime::ZERO);
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(
            (clock.now(), clock.unix_ms()),
            (MonoTime::from_origin(Duration::from_secs(7)), RuntimeClock::UNIX_MS)
        );
    }
}
