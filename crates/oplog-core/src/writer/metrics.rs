//! Owns the writer's figures.

use std::time::Duration;

use super::{Phase, Refusals};

/// Counters since the start, and gauges now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterMetrics {
    /// Entries committed.
    pub committed: u64,
    /// Entries durable.
    pub durable: u64,
    /// Batches durable.
    pub batches: u64,
    /// Record bytes durable.
    pub bytes: u64,
    /// Transactions sent again.
    pub retries: u64,
    /// Batches cut because the store found them too large.
    pub cuts: u64,
    /// Outcomes that were unknown and turned out committed.
    pub recovered_unknown: u64,
    /// Reservations and entries refused, by reason.
    pub refused: Refusals,
    /// What it is doing now.
    pub phase: Phase,
    /// Entries committed and not known durable: how far the durable prefix is behind.
    pub prefix_lag_entries: u64,
    /// Age of the oldest of them in milliseconds, 0 if none.
    pub prefix_lag_ms: u64,
    /// Slots taken now: reservations, and entries waiting.
    pub slots: u64,
    /// Of them, those of [bulk](crate::OrderedWriter::ready_bulk).
    pub bulk_slots: u64,
    /// Entries waiting now.
    pub waiting_entries: u64,
    /// Bytes waiting now.
    pub waiting_bytes: u64,
    /// Callbacks whose outcome is known and that have not run yet.
    pub callbacks_waiting: u64,
    /// Callbacks that panicked.
    pub callback_panics: u64,
    /// Age of the batch in flight in milliseconds, 0 if none.
    pub stuck_batch_age_ms: u64,
    /// The bytes at which a batch seals now: the setting, or less after the store found a batch too large.
    pub seal_bytes: u64,
    /// Of each batch: from its first commit to its seal.
    pub waiting: StageMetrics,
    /// Of each batch: from its seal to its durability, retries included.
    pub writing: StageMetrics,
    /// Of each batch that has callbacks: from the moment its outcome was known until the first of them began.
    pub notifying: StageMetrics,
    /// Of each batch that has callbacks: from the moment its outcome was known until all of them have run.
    pub calling_back: StageMetrics,
    /// The last failure, in words; kept after it is cured.
    pub last_error: Option<String>,
}

/// How long one stage took, over all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageMetrics {
    /// How many.
    pub count: u64,
    /// All of them together, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
    /// How many took at most the bound of the same index and more than the one before it; the last holds the rest.
    pub buckets: [u64; Self::BOUNDS_US.len() + 1],
}

impl StageMetrics {
    /// Upper bounds of the buckets, in microseconds: from a store in memory to one that is down for a minute.
    pub const BOUNDS_US: [u64; 19] = [
        50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
        2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ];

    pub(super) fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.total_us = self.total_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
        let bucket = Self::BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_of_the_first_bound_that_is_not_below_it() {
        let mut stage = StageMetrics::default();
        for us in [0, 50, 51, 60_000_000, 60_000_001, u64::MAX] {
            stage.record(Duration::from_micros(us));
        }
        assert!(StageMetrics::BOUNDS_US.is_sorted_by(|a, b| a < b));
        let (first, last) = (&stage.buckets[..2], &stage.buckets[18..]);
        assert_eq!((first, last), (&[2, 1][..], &[1, 2][..]));
        assert_eq!((stage.count, stage.buckets.iter().sum::<u64>(), stage.max_us), (6, 6, u64::MAX));
        assert_eq!(stage.total_us, u64::MAX, "it stays at the end instead of beginning anew");
    }
}
