//! Owns a moment's figures of a node, for metrics and pages.

use leadership::ElectionMetrics;
use master::MasterStats;
use oplog_core::{WriterMetrics, WriterStatus};
use standby::StandbyMetrics;

use super::role::RoleState;

/// A moment's figures.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// What the node is.
    pub(crate) role: RoleState,
    /// The election.
    pub(crate) election: ElectionMetrics,
    /// The standby that follows, or that was promoted to the term that serves.
    pub(crate) standby: Option<StandbyMetrics>,
    /// The term that serves.
    pub(crate) term: Option<TermFigures>,
    /// Calls being answered.
    pub(crate) in_flight: usize,
}

/// The figures of a term.
#[derive(Clone, Debug)]
pub(crate) struct TermFigures {
    /// The claimed epoch.
    pub(crate) epoch: u64,
    /// The master.
    pub(crate) master: MasterStats,
    /// The writer's counters.
    pub(crate) writer: WriterMetrics,
    /// The writer's status.
    pub(crate) status: WriterStatus,
}

/// How large the log is. Nothing truncates it yet, so it only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogFigures {
    /// Batch records.
    pub(crate) batches: u64,
    /// Entries.
    pub(crate) entries: u64,
    /// Bytes of the batch records.
    pub(crate) bytes: u64,
}

impl Figures {
    /// The log as this node knows it: what it replayed, and what it wrote since.
    pub(crate) fn log(&self) -> LogFigures {
        let mut log = LogFigures::default();
        if let Some(standby) = &self.standby {
            log = LogFigures { batches: standby.batches, entries: standby.entries, bytes: standby.bytes };
        }
        if let Some(term) = &self.term {
            log.batches += term.writer.batches;
            log.entries += term.writer.durable;
            log.bytes += term.writer.bytes;
        }
        log
    }

    /// The epoch claimed, or seen in the prefix.
    pub(crate) fn epoch(&self) -> u64 {
        let seen = self.standby.as_ref().map_or(0, |s| s.prefix_epoch);
        self.term.as_ref().map_or(seen, |t| t.epoch)
    }

    /// The durable prefix as this node knows it: batch and sequence.
    pub(crate) fn durable(&self) -> (u64, u64) {
        match (&self.term, &self.standby) {
            (Some(term), _) => (term.status.durable.batch_id.get(), term.status.durable.last_seq.get()),
            (None, Some(standby)) => (standby.prefix_batch, standby.prefix_seq),
            (None, None) => (0, 0),
        }
    }

    /// The last sequence in this node's state.
    pub(crate) fn applied(&self) -> u64 {
        match (&self.term, &self.standby) {
            (Some(term), _) => term.status.durable.last_seq.get(),
            (None, standby) => standby.as_ref().map_or(0, |s| s.applied_seq),
        }
    }
}
