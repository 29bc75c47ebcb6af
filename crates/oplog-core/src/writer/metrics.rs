//! Owns the writer's figures.

use std::time::Duration;

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
    /// Refusals because the queue was full.
    pub refused_queue_full: u64,
    /// Refusals because the writer was not accepting.
    pub refused_unavailable: u64,
    /// Entries refused because they could not fit a batch.
    pub refused_too_large: u64,
    /// Entries refused because a field was not allowed.
    pub refused_invalid: u64,
    /// Slots taken now: reservations, and entries waiting.
    pub slots: u64,
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
    /// Of each batch that has callbacks: from its durability until they have run.
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
}

impl StageMetrics {
    pub(super) fn record(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.total_us = self.total_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
    }
}
