//! Owns which rules `oplog inspect` holds a log to: those of the audit that need no more than the prefix and the batches.

use ha_types::BatchId;
use oplog_core::audit::{BatchChain, BatchSummary};
use oplog_core::record::BatchRecord;
use oplog_core::{DurablePrefix, LogKeys, ReplayFault};

/// Walks the records in order, the prefix being known.
#[derive(Debug)]
pub(super) struct Checker {
    keys: LogKeys,
    prefix: Option<DurablePrefix>,
    chain: BatchChain,
}

impl Checker {
    pub(super) fn new(keys: LogKeys, prefix: Option<DurablePrefix>) -> Self {
        Self { chain: BatchChain::new(keys.clone()), keys, prefix }
    }

    /// The next record; gives what is wrong with its place.
    pub(super) fn batch(&mut self, id: BatchId, record: &BatchRecord) -> Vec<ReplayFault> {
        let mut faults = self.chain.record(id, record);
        if let Some(prefix) = &self.prefix {
            faults.extend(BatchChain::above_prefix(&self.keys, id, prefix));
            faults.extend(BatchChain::above_epoch(&self.keys, id, record.header().epoch, prefix));
        }
        faults
    }

    /// The record of `id` could not be read; gives what is missing before it.
    pub(super) fn unreadable(&mut self, id: BatchId) -> Option<ReplayFault> {
        self.chain.unreadable(id)
    }

    /// The end; gives what is missing there, and at the start.
    pub(super) fn end(&self) -> Vec<ReplayFault> {
        self.chain.start_fault().into_iter().chain(self.chain.end_faults(self.prefix.as_ref())).collect()
    }

    pub(super) fn summary(&self) -> &BatchSummary {
        self.chain.summary()
    }
}
