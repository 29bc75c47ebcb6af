//! Owns the ways a writer ends. All are for good.

use std::fmt;

use crate::DurablePrefix;

/// Why the writer ended. Latched: the first one stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// A higher epoch owns the log.
    Fenced {
        /// The prefix found.
        found: DurablePrefix,
    },
    /// The log, or the store, is not as it must be.
    Corrupt {
        /// What was found.
        reason: String,
    },
    /// The store refuses the batch for good.
    Rejected {
        /// What it said.
        reason: String,
    },
    /// Stopped by its owner, or its runtime or its last handle is gone.
    Shutdown,
    /// The store has not answered for longer than `oplog_retry_budget`.
    RetryBudget,
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { found } => write!(f, "fenced: epoch {} of owner {} owns the log", found.epoch, found.owner),
            Self::Corrupt { reason } => write!(f, "corrupt: {reason}"),
            Self::Rejected { reason } => write!(f, "rejected by the store: {reason}"),
            Self::Shutdown => f.write_str("shut down"),
            Self::RetryBudget => f.write_str("the store has not answered for longer than oplog_retry_budget"),
        }
    }
}
