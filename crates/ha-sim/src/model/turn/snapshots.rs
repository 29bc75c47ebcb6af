//! Owns snapshots and truncation (design §6). Nothing of the product does this yet; the rules are the design's.

use ha_types::BatchId;

use super::Turn;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::store::keys;
use crate::model::world::Snapshot;

impl Turn<'_> {
    pub(in crate::model) fn take_snapshot(&mut self, at: usize, sound: bool) {
        if !sound {
            self.note(Situation::UnsoundSnapshot);
        }
        let fold = self.world.nodes[at].fold.clone();
        self.world.catalogue.push(Snapshot { fold, sound, verified: false });
    }

    pub(in crate::model) fn verify(&mut self, snapshot: usize) {
        self.world.catalogue[snapshot].verified = true;
    }

    /// Up to the newest verified snapshot, never the batch that the prefix names.
    pub(in crate::model) fn plan_truncation(&mut self) {
        let Some(prefix) = self.world.store.prefix() else { return };
        let counts = |s: &&Snapshot| s.verified || !self.keep(Rule::TruncationVerified);
        let newest = self.world.catalogue.iter().filter(counts).map(|s| s.fold.position.batch_id).max();
        let last = match self.keep(Rule::TruncationKeepsLast) {
            true => BatchId::new(prefix.batch_id.get().saturating_sub(1)),
            false => prefix.batch_id,
        };
        self.world.truncating = newest.map(|newest| newest.min(last)).filter(|through| *through > BatchId::ZERO);
    }

    pub(in crate::model) fn truncate_next(&mut self) {
        let Some(through) = self.world.truncating else { return };
        let oldest_first = self.keep(Rule::TruncationOldestFirst);
        let reach = self.world.store.batches().map(|(id, _)| id).filter(|id| *id <= through);
        let next = if oldest_first { reach.min() } else { reach.max() };
        match next {
            Some(id) => {
                self.note(Situation::Truncated);
                self.world.store.delete(&keys().batch(id));
            }
            None => self.world.truncating = None,
        }
    }
}
