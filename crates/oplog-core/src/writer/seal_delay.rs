//! Owns the wait between a completion and the next seal (`oplog_max_seal_delay`): the callers just woken may come back into one
//! batch instead of two that take turns. It never delays an idle writer.

use std::time::Duration;

use ha_types::MonoTime;

use super::shared::Shared;
use crate::sync::yield_now;

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

/// One wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// So many entries committed since the start end it.
    target: u64,
    whole: Duration,
    quiet: Duration,
    since: MonoTime,
    /// Entries committed at the last look that found new ones, and when that was.
    seen: (u64, MonoTime),
}

impl SealDelay {
    pub(super) fn new(max: Duration) -> Self {
        Self { max }
    }

    /// What to wait for after a batch that took `took` and for which `woken` callers waited; `committed` is the count of entries
    /// before they are woken. `None`: nothing. What came while the batch was in flight does not count as somebody's return, or two
    /// groups of callers that take turns would never meet. A miss has no memory: to back off is to fall into two groups again.
    pub(super) fn after(self, took: Duration, woken: usize, committed: u64, now: MonoTime) -> Option<Gathering> {
        (!self.max.is_zero() && woken > 0 && took >= FASTEST).then(|| Gathering {
            target: committed.saturating_add(woken as u64),
            whole: self.max.min(took / 4),
            quiet: QUIET.min(took / 20),
            since: now,
            seen: (committed, now),
        })
    }
}

impl Gathering {
    /// Whether the wait is over: as many entries came as callers were woken, nobody new came for a while, or the time is up.
    fn is_over(&mut self, committed: u64, now: MonoTime) -> bool {
        if committed > self.seen.0 {
            self.seen = (committed, now);
        }
        let silent = now.saturating_since(self.seen.1) >= self.quiet;
        committed >= self.target || silent || now.saturating_since(self.since) >= self.whole
    }

    /// Waits until [it is over](Self::is_over), or nobody who could still come would be in the next batch. By yielding, because a
    /// timer's grain is a millisecond.
    pub(super) async fn wait(mut self, shared: &Shared) {
        for _ in 0..MOST_YIELDS {
            let Some(committed) = shared.with_core(|core| core.committed_if_more_may_join()) else { return };
            if self.is_over(committed, shared.now()) {
                return;
            }
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests;
