//! Owns the figures: how much there is of what, from counters that are kept anyway.

use super::Store;
use super::state::SlotState;
use crate::gc::plan::{Explained, Verdict};
use crate::observer::Figures;

impl Store {
    /// Counts everything anew that is kept by differences, and checks what may be live (row B10). For tests and tools: it takes time in
    /// proportion to all records, and others wait meanwhile.
    ///
    /// # Errors
    /// What does not agree, in words: a defect of this crate.
    pub fn audit(&self) -> Result<(), String> {
        self.state.read().audit().map_err(|discrepancy| discrepancy.0)
    }

    /// How things stand now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let reserve_missing = self.reserve.is_missing();
        let read_only = self.health.read_only().is_some();
        let physical_bytes = self.physical.get();
        let is_candidate = |explained: &Explained| matches!(explained.verdict, Verdict::Dead | Verdict::Candidate);
        let gc_candidates = self.gc_explain().iter().filter(|explained| is_candidate(explained)).count() as u64;
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
            pending_bytes: state.unpublished_bytes(),
            gc_rounds_open: self.gc.open_rounds(),
            reserve_missing,
            read_only,
        }
    }
}
