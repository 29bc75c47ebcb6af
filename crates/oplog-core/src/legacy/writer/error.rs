//! Owns the legacy writer's refusals and the ways it ends.

use ha_types::Seq;

use crate::legacy::{LegacyRefusal, LegacyReplica};
use crate::{Closed, DurablePrefix, LogError, ReplayFault};

/// Why an entry was refused; no sequence was used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LegacyCommitError {
    /// OPLOG_UNAVAILABLE: the store fails, or the writer is being drained.
    #[error("the legacy log takes no entries: {reason}")]
    Unavailable {
        /// Why, for programs.
        closed: Closed,
        /// Why, in words.
        reason: String,
    },
    /// QUEUE_FULL.
    #[error("the legacy log's queue is full; try again")]
    QueueFull,
    /// It could not fit a transaction.
    #[error("the entry needs a transaction of {bytes} bytes; the legacy log's may have {limit}")]
    TooLarge {
        /// Bytes of a transaction with this entry alone.
        bytes: usize,
        /// Limit.
        limit: usize,
    },
    /// The format cannot carry it.
    #[error(transparent)]
    Refused(#[from] LegacyRefusal),
    /// Every sequence but the last, which is never used, has been given.
    #[error("the legacy log takes no entries: its sequences have come to their end")]
    Exhausted,
    /// The writer ended.
    #[error("the legacy log has ended: {0}")]
    Terminal(LegacyTerminal),
}

/// How the writer ended. Latched: the first one stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LegacyTerminal {
    /// The log was cut over.
    #[error("fenced: the log was cut over to batch records ({found})")]
    Fenced {
        /// The durable prefix found.
        found: DurablePrefix,
    },
    /// Somebody else writes this log.
    #[error("{key}: expected {expected}, found {found}: another writer writes this log")]
    OtherWriter {
        /// The key that gave it away.
        key: String,
        /// What it had to hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// The durable prefix or the store cannot be read.
    #[error("corrupt: {reason}")]
    Corrupt {
        /// What was found.
        reason: String,
    },
    /// The store refuses the entries for good.
    #[error("rejected by the store: {reason}")]
    Rejected {
        /// What it said.
        reason: String,
    },
    /// Stopped by its owner, or its runtime or its last handle is gone.
    #[error("shut down")]
    Shutdown,
    /// The store has not answered for longer than `retry_budget`.
    #[error("the store has not answered for longer than retry_budget")]
    RetryBudget,
}

/// Why a writer does not start.
#[derive(Debug, thiserror::Error)]
pub enum LegacyStartError {
    /// The settings do not fit the store; one sentence with the setting.
    #[error("{0}")]
    Config(String),
    /// There is a durable prefix.
    #[error("the log was cut over to batch records ({0}); nothing is written into the legacy log any more")]
    CutOver(DurablePrefix),
    /// The log holds more than the state has applied.
    #[error("{key}: the legacy log goes on to {found}, the state has applied entry {applied}; catch up first")]
    NotCaughtUp {
        /// The key that says so.
        key: String,
        /// What the state has applied.
        applied: Seq,
        /// What the log holds.
        found: Seq,
    },
    /// The log cannot be read, or is wrong.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl From<ReplayFault> for LegacyStartError {
    fn from(fault: ReplayFault) -> Self {
        Self::Log(fault.into())
    }
}

/// A writer that did not start gives the state back.
#[derive(Debug)]
pub struct LegacyStartFailed<S> {
    /// The state.
    pub replica: LegacyReplica<S>,
    /// Why.
    pub error: LegacyStartError,
}
