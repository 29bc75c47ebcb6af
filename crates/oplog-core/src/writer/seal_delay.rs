//! Owns the wait between a completion and the next seal (`oplog_max_seal_delay`): the callers just woken may come back into one
//! batch instead of two that take turns. It never delays an idle writer.

use std::time::Duration;

use super::shared::Shared;

/// A store faster than this gains nothing from waiting.
const FASTEST: Duration = Duration::from_micros(100);
/// Longest silence after which nobody else is expected.
const QUIET: Duration = Duration::from_micros(50);
/// A bound on the yields of one wait, should the clock stand still.
const MOST_YIELDS: u32 = 10_000;

/// The rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct SealDelay {
    max: Duration,
}

impl SealDelay {
    pub(super) fn new(max: Duration) -> Self {
        Self { max }
    }

    /// Whether to wait after a batch that took `took` and that `waited` callers waited for.
    pub(super) fn applies(self, waited: usize, took: Duration) -> bool {
        !self.max.is_zero() && waited > 0 && took >= FASTEST
    }

    /// Waits until as many entries have come as callers were woken, nobody new comes, or the time is up: a quarter of the last
    /// transaction, at most the setting. By yielding, because a timer's grain is a millisecond.
    pub(super) async fn wait(self, shared: &Shared, woken: usize, took: Duration) {
        let whole = self.max.min(took / 4);
        let quiet = QUIET.min(took / 20);
        let start = shared.now();
        let mut seen = 0;
        let mut seen_at = start;
        for _ in 0..MOST_YIELDS {
            let come = shared.with_core(|core| core.waiting_entries());
            let now = shared.now();
            if come > seen {
                (seen, seen_at) = (come, now);
            }
            let silent = now.saturating_since(seen_at) >= quiet;
            if come >= woken || silent || now.saturating_since(start) >= whole {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}
