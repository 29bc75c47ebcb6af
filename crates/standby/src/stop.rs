//! Owns why a round ended early, and how an error of the log becomes one. Here is decided what is the store's and what the log's.

use ha_kv::{KvError, KvErrorKind};
use oplog_core::{FaultKind, LogError};

use crate::Fault;

/// Why a round ended before the prefix.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The store failed; the position stays and the next round goes on from it.
    Store(KvError),
    /// The log is wrong.
    Fault(Fault),
    /// Leadership ended during a promotion.
    NotLeader,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Stop {
    /// An error met at `key`.
    pub(crate) fn from_log(key: &[u8], error: LogError) -> Self {
        match error {
            LogError::Store(error) => Self::from_store(key, error),
            LogError::Fault(fault) => Self::Fault(fault.into()),
            LogError::Refused(why) => {
                Self::Fault(Fault::log(FaultKind::ForeignState, key, "a log and a store that fit together", why))
            }
        }
    }

    /// An error of the store itself. That it is damaged, or another one than it was, is a verdict; everything else may pass.
    fn from_store(key: &[u8], error: KvError) -> Self {
        match error.kind {
            KvErrorKind::Corrupt | KvErrorKind::WrongStore => {
                let key = error.key.as_deref().unwrap_or(key).escape_ascii().to_string();
                Self::Fault(Fault::Store { key, message: error.message })
            }
            _ => Self::Store(error),
        }
    }
}
