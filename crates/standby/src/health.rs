//! Owns what anyone may watch of a standby, and who may campaign.

use oplog_core::{DurablePrefix, Replica, StateMachine};

use crate::{Fault, StandbyConfig};

/// How a standby is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It has not read the log to its end once yet.
    #[default]
    Starting,
    /// It follows. A store that fails for a while does not change this; see
    /// [`StandbyMetrics::last_error`](crate::StandbyMetrics::last_error).
    Following {
        /// Entries between what it has applied and the durable prefix it read last.
        lag: u64,
    },
    /// The log is wrong. It stays so until an operator has acted, and is never promoted.
    Unhealthy {
        /// What is wrong.
        fault: Fault,
    },
}

impl Health {
    /// A short name for metrics and reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Following { .. } => "following",
            Self::Unhealthy { .. } => "unhealthy",
        }
    }
}

/// How far one replica is behind one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lag {
    pub(crate) entries: u64,
    pub(crate) batches: u64,
}

impl Lag {
    pub(crate) fn of<S: StateMachine>(replica: &Replica<S>, prefix: Option<&DurablePrefix>) -> Self {
        let at = replica.position();
        prefix.map_or_else(Self::default, |p| Self {
            entries: p.last_seq.distance_from(at.last_seq),
            batches: p.batch_id.distance_from(at.batch_id),
        })
    }

    pub(crate) fn is_close(self, config: &StandbyConfig) -> bool {
        self.entries <= config.campaign_max_lag_entries && self.batches <= config.campaign_max_lag_batches
    }
}
