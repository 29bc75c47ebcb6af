//! Owns the figures of a standby: counters since its start, gauges now.

use crate::Health;

/// Figures of one standby.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandbyMetrics {
    /// How it is.
    pub health: Health,
    /// The last entry applied.
    pub applied_seq: u64,
    /// The last batch applied.
    pub applied_batch: u64,
    /// The last entry of the durable prefix read last; 0 before the first.
    pub prefix_seq: u64,
    /// The last batch of the durable prefix read last; 0 before the first.
    pub prefix_batch: u64,
    /// The epoch of the durable prefix read last; 0 before the first.
    pub prefix_epoch: u64,
    /// Entries behind that prefix.
    pub lag_entries: u64,
    /// Batches behind that prefix.
    pub lag_batches: u64,
    /// Entries applied.
    pub entries: u64,
    /// Batches applied.
    pub batches: u64,
    /// Bytes of batch records applied.
    pub bytes: u64,
    /// Requests sent to the store.
    pub reads: u64,
    /// Rounds begun by a hint.
    pub hints: u64,
    /// Rounds begun by the poll interval.
    pub polls: u64,
    /// Requests that failed.
    pub store_errors: u64,
    /// Doubtful readings that a second one did not confirm.
    pub unconfirmed: u64,
    /// The last failure of the store; kept after it works again.
    pub last_error: Option<String>,
    /// Whether the last round reached the store.
    pub store_answers: bool,
}
