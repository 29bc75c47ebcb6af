//! Owns the verdicts after which a standby is unhealthy. A store that fails is none of them.

use std::fmt;

use ha_types::Seq;
use oplog_core::{FaultKind, ReplayFault};

/// Why a standby is unhealthy: what is wrong, where, and what to do. No retry cures it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The log is not as it must be.
    Log(ReplayFault),
    /// The store says that what it holds is damaged, or that it is another store than it was.
    Store {
        /// The key that was asked for.
        key: String,
        /// What the store said.
        message: String,
    },
}

impl Fault {
    pub(crate) fn log(kind: FaultKind, key: &[u8], expected: impl ToString, found: impl ToString) -> Self {
        Self::Log(ReplayFault::new(kind, key, expected, found))
    }

    /// A short name for metrics and reports: [`FaultKind::name`], or `store`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Log(fault) => fault.kind.name(),
            Self::Store { .. } => "store",
        }
    }

    /// The kind, if it is the log's.
    #[must_use]
    pub const fn kind(&self) -> Option<FaultKind> {
        match self {
            Self::Log(fault) => Some(fault.kind),
            Self::Store { .. } => None,
        }
    }

    /// The entry, where one entry is at fault.
    #[must_use]
    pub const fn seq(&self) -> Option<Seq> {
        match self {
            Self::Log(fault) => fault.seq,
            Self::Store { .. } => None,
        }
    }

    /// The key it is about.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Log(fault) => &fault.key,
            Self::Store { key, .. } => key,
        }
    }

    /// Whether a second reading must agree before the verdict: what a reading between two writes, or one older than the last,
    /// could explain. Bytes that fail their checksum and entries that cannot be applied prove themselves.
    pub(crate) fn needs_second_read(&self) -> bool {
        match self {
            // State beside an absent prefix: the prefix may have been created between the two readings. A base that cannot be told
            // rests on batch 1 being absent, which one reply alone does not prove.
            Self::Log(fault) => {
                fault.kind.needs_second_read() || matches!(fault.kind, FaultKind::ForeignState | FaultKind::BaseNotHeld)
            }
            Self::Store { .. } => false,
        }
    }

    /// What an operator does about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self.kind() {
            Some(FaultKind::PrefixMissing | FaultKind::PrefixRegressed | FaultKind::AppliedAbovePrefix) => {
                "the store lost acknowledged writes or was rolled back: find out why, then restart this node"
            }
            Some(FaultKind::Apply) => "run the version of the program that wrote the entry, then restart this node",
            Some(FaultKind::BaseNotHeld) => {
                "follow the legacy log below it too (oplog.legacy), or start this node from a snapshot at or above the log's beginning"
            }
            Some(FaultKind::ForeignState) => "give the cluster an id and a log root of its own",
            Some(FaultKind::LegacyGap) => {
                "restore the entry, or accept its loss in words (accept_lost_entries), then restart this node"
            }
            Some(FaultKind::LegacyStartGone) => {
                "restore the first entries from a backup, or use another cluster id, then restart this node"
            }
            Some(FaultKind::LegacyAboveBase) => {
                "stop the old primary that still writes: what it writes is not in the log"
            }
            Some(FaultKind::Machine) => "the state machine is at fault: report it, then restart this node",
            Some(
                FaultKind::PrefixUndecodable
                | FaultKind::BatchMissing
                | FaultKind::BatchUndecodable
                | FaultKind::StrayKey
                | FaultKind::WrongBatchId
                | FaultKind::SequenceGap
                | FaultKind::WrongEpoch
                | FaultKind::BrokenChain
                | FaultKind::LegacyUndecodable
                | FaultKind::LegacyKeySequence
                | FaultKind::LegacyLatest,
            )
            | None => "restore the store from a good copy, then restart this node",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(fault) => {
                write!(f, "{}: {fault}", self.name())?;
                if let Some(seq) = fault.seq {
                    write!(f, " (entry {seq})")?;
                }
            }
            Self::Store { key, message } => write!(f, "the store is damaged or another one at {key}: {message}")?,
        }
        write!(f, "; {}", self.remedy())
    }
}

impl std::error::Error for Fault {}

impl From<ReplayFault> for Fault {
    fn from(fault: ReplayFault) -> Self {
        Self::Log(fault)
    }
}
