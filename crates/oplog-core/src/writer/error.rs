//! Owns the refusals of the writer. A refused call has changed nothing and used no sequence.

use super::Closed;
use crate::Terminal;

/// Why there is no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// OPLOG_UNAVAILABLE.
    #[error("the log takes no entries: {reason}")]
    Unavailable {
        /// Why, for programs.
        closed: Closed,
        /// Why, in words.
        reason: String,
    },
    /// QUEUE_FULL.
    #[error("the log's queue is full; try again, or wait with ready()")]
    QueueFull,
    /// More than could ever be reserved.
    #[error("{asked} entries cannot be reserved at once; 1 to {limit} can")]
    OutOfRange {
        /// Asked.
        asked: usize,
        /// Limit.
        limit: usize,
    },
}

/// Why an entry was refused; no sequence was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// It could not fit a batch.
    #[error("the entry has {bytes} bytes encoded; a batch takes {limit}")]
    TooLarge {
        /// Size of a record with this entry alone.
        bytes: usize,
        /// Limit.
        limit: usize,
    },
    /// A field is empty or over its limit.
    #[error("{0}")]
    Invalid(String),
    /// The writer ended.
    #[error("the log has ended: {0}")]
    Terminal(Terminal),
}

/// Why a drain did not finish: what was still open at the deadline, or when the writer ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the drain ended early: {waiting} entries not durable, {reserved} reservations open, {callbacks} callbacks not run"
)]
pub struct DrainError {
    /// Committed entries that were not durable.
    pub waiting: u64,
    /// Reservations neither committed nor aborted.
    pub reserved: u64,
    /// Callbacks that had not run.
    pub callbacks: u64,
}
