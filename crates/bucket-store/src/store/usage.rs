//! Owns the figures: how much there is of what. Those of the store come from memory alone, those of the disk from the disk.

use super::Store;
use super::state::SlotState;
use crate::error::{DiskOp, StoreError};
use crate::gc::plan::Verdict;
use crate::observer::Figures;
use crate::vfs::Space;

/// The room there is, as the disk says at the moment of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The configured capacity.
    pub capacity_bytes: u64,
    /// Blocks that bucket files occupy, as in [`Figures::physical_bytes`].
    pub physical_bytes: u64,
    /// Blocks that are set aside so that deletes work on a full disk.
    pub reserve_bytes: u64,
    /// Bytes that writes under way, and tables that wait to be published, will still take of the disk.
    pub promised_bytes: u64,
    /// What the file system has left, for anybody.
    pub disk_free_bytes: u64,
    /// What the file system has in all.
    pub disk_total_bytes: u64,
}

impl Store {
    /// Counts everything anew that is kept by differences, and checks what may be live (row B10). For tests and tools: it takes time in
    /// proportion to all records, and others wait meanwhile.
    ///
    /// # Errors
    /// What does not agree, in words: a defect of this crate.
    pub fn audit(&self) -> Result<(), String> {
        self.state.read().audit().map_err(|discrepancy| discrepancy.0)
    }

    /// How things stand now, from memory: the disk is not asked, so it may be called from where nothing may block. Bytes and objects are
    /// counters that are kept anyway; candidates and suspects are counted in a walk over the buckets.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let reserve_missing = self.reserve.is_missing();
        let read_only = self.health.read_only().is_some();
        let physical_bytes = self.physical.get();
        // Whether the disk has room for their copies is not asked.
        let free_bytes = if reserve_missing { 0 } else { u64::MAX };
        let is_candidate = |verdict| matches!(verdict, Verdict::Dead | Verdict::Candidate);
        let verdicts = self.gc_verdicts(free_bytes);
        let gc_candidates = verdicts.iter().filter(|explained| is_candidate(explained.verdict)).count() as u64;
        let state = self.state.read();
        let totals = state.totals();
        Figures {
            capacity_bytes: self.config.capacity_bytes,
            physical_bytes,
            live_bytes: totals.of(SlotState::Live).bytes,
            dead_bytes: totals.all().bytes - totals.of(SlotState::Live).bytes,
            live_objects: totals.of(SlotState::Live).records,
            buckets: state.buckets().len() as u64,
            gc_candidates,
            suspect_buckets: state.buckets().filter(|bucket| bucket.suspicion().any()).count() as u64,
            quarantined_buckets: self.quarantined.len() as u64,
            out_of_reach_bytes: self.physical.out_of_reach(),
            pending_bytes: state.unpublished_bytes(),
            gc_rounds_open: self.gc.open_rounds(),
            reserve_missing,
            read_only,
        }
    }

    /// How much room there is. It asks the disk, once.
    ///
    /// # Errors
    /// As the disk says.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        let space = self.vfs.space().map_err(|error| StoreError::io(DiskOp::Stat, "the file system", error))?;
        let Space { free_bytes, total_bytes } = space;
        Ok(Usage {
            capacity_bytes: self.config.capacity_bytes,
            physical_bytes: self.physical.get(),
            reserve_bytes: self.reserve.held_and_needed().0,
            promised_bytes: self.promised_bytes(),
            disk_free_bytes: free_bytes,
            disk_total_bytes: total_bytes,
        })
    }
}
