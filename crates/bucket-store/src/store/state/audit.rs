//! Owns the audit: everything that the index keeps by differences, counted again from the records alone. Row B10.

use std::collections::BTreeSet;

use super::slots::{Location, SlotState};
use super::{Figures, State};

/// What does not agree with a recount, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discrepancy(pub(crate) String);

impl State {
    /// The counters, counted anew.
    pub(crate) fn recount(&self) -> Figures {
        let mut figures = Figures::default();
        for state in self.buckets.values() {
            state.slots.iter().for_each(|entry| figures.add(entry.state, entry.record_bytes(state.bucket.layout)));
        }
        figures
    }

    /// Checks counters, sets and the rules of what may be live, in time proportional to everything.
    ///
    /// # Errors
    /// The first discrepancy.
    pub(crate) fn audit(&self) -> Result<(), Discrepancy> {
        let ensure = |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(Discrepancy(what())) };
        let recounted = self.recount();
        ensure(recounted == self.totals, &|| format!("totals are {:?}, recounted {recounted:?}", self.totals))?;
        let (mut superseded, mut unpublished, mut unpublished_bytes) = (BTreeSet::new(), BTreeSet::new(), 0);
        let mut places = 0_usize;
        for (id, state) in &self.buckets {
            let mut figures = Figures::default();
            for (slot, entry) in (0u32..).zip(&state.slots) {
                figures.add(entry.state, entry.record_bytes(state.bucket.layout));
                let at = Location { bucket: *id, slot };
                let known = self.keys.get(&entry.key).is_some_and(|records| records.as_slice().contains(&at));
                ensure(known, &|| format!("{at:?} is not among the records of its key"))?;
                places += 1;
            }
            ensure(figures == state.figures, &|| {
                format!("bucket {id} has {:?}, recounted {figures:?}", state.figures)
            })?;
            if figures.of(SlotState::Superseded).records > 0 {
                superseded.insert(*id);
            }
            let covered = self.covered.iter().any(|at| at.bucket == *id);
            ensure(covered == state.suspicion.covered, &|| format!("bucket {id} has covered records: {covered}"))?;
            if !state.published {
                unpublished.insert(*id);
                unpublished_bytes += state.bucket.data_len;
            }
        }
        let hidden = |at: &Location| self.state_of(*at) == Some(SlotState::Hidden);
        ensure(self.covered.iter().all(hidden), &|| format!("covered: {:?}, and not hidden", self.covered))?;
        ensure(superseded == self.with_superseded, &|| {
            format!("with superseded: {:?}, not {superseded:?}", self.with_superseded)
        })?;
        ensure(unpublished == self.unpublished, &|| {
            format!("unpublished: {:?}, not {unpublished:?}", self.unpublished)
        })?;
        ensure(unpublished_bytes == self.unpublished_bytes, &|| format!("{unpublished_bytes} unpublished bytes"))?;
        let listed: usize = self.keys.values().map(|records| records.as_slice().len()).sum();
        ensure(places == listed, &|| format!("{places} records, and {listed} places of keys"))?;
        for key in self.keys.keys() {
            let ranks: Vec<_> = self.records(key).map(|record| (record.slot.write_number, record.at)).collect();
            ensure(!ranks.is_empty(), &|| format!("{} has no record", key.escape_ascii()))?;
            ensure(ranks.is_sorted(), &|| format!("{} has its records out of order: {ranks:?}", key.escape_ascii()))?;
            let undead: Vec<_> = self.undead(key).filter_map(|at| self.state_of(at)).collect();
            let Some((newest, older)) = undead.split_last() else { continue };
            let fine = *newest != SlotState::Superseded
                && older.iter().all(|state| matches!(state, SlotState::Superseded | SlotState::Hidden));
            ensure(fine, &|| format!("{} has records {undead:?}, oldest first", key.escape_ascii()))?;
        }
        Ok(())
    }
}
