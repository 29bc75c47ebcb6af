//! Owns the errors of reading the log: the store failed, the log is wrong, or the two do not fit together.

use ha_kv::KvError;

use crate::ReplayFault;

/// Why the log could not be read or opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The store failed; the log may be fine.
    #[error(transparent)]
    Store(#[from] KvError),
    /// The log is wrong.
    #[error(transparent)]
    Fault(#[from] ReplayFault),
    /// The store or the configuration cannot carry this log; one sentence with the remedy.
    #[error("{0}")]
    Refused(String),
}

/// Why following stopped. The replica keeps its position.
pub type FollowError = LogError;
