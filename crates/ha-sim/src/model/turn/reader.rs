//! Owns how a node follows: the prefix first, then the batches up to it, and the catalogue after a miss.

use ha_types::BatchId;
use oplog_core::{DurablePrefix, FaultKind};

use super::Turn;
use crate::model::fold::{Miss, crc};
use crate::model::invariant::Invariant;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::world::Role;

impl Turn<'_> {
    /// A round of a follower that does not want to lead.
    pub(super) fn follow(&mut self, at: usize) {
        let Some(prefix) = self.world.store.prefix() else { return self.alarm(at) };
        self.become_role(at, Role::Following);
        self.catch_up(at, &prefix, self.world.catalogue.len());
    }

    /// Reads the batches up to `through`. Whether the node stands there now; else it has become what comes of it.
    pub(super) fn catch_up(&mut self, at: usize, through: &DurablePrefix, known: usize) -> bool {
        let rules = self.model.rules();
        let world = &mut self.world;
        match world.nodes[at].fold.catch_up(&world.store, through, rules) {
            Ok(()) => self.check_last_batch(at, through, known),
            Err(Miss::Batch(batch)) => {
                self.become_role(at, Role::Missed { batch, known });
                false
            }
            Err(miss) => {
                self.note(match miss.kind() {
                    Some(FaultKind::BrokenChain) => Situation::ChainMeetsLoss,
                    _ => Situation::ReaderMeetsLoss,
                });
                self.alarm(at);
                false
            }
        }
    }

    /// The record that the prefix names must be there, and be the one that this node applied.
    fn check_last_batch(&mut self, at: usize, through: &DurablePrefix, known: usize) -> bool {
        if through.batch_id != BatchId::ZERO && self.keep(Rule::ReaderChecksChain) {
            let Some(record) = self.world.store.batch(through.batch_id) else {
                self.become_role(at, Role::Missed { batch: through.batch_id, known });
                return false;
            };
            let stored = crc(record);
            if stored != self.world.nodes[at].fold.position.crc {
                self.note(Situation::ChainMeetsLoss);
                self.alarm(at);
                return false;
            }
        }
        if !self.world.truth.log.starts_with(&self.world.nodes[at].fold.entries) {
            self.broken(Invariant::S1);
        }
        true
    }

    /// After a miss: at or below the newest verified snapshot it is a truncation, else a gap.
    pub(super) fn read_catalogue(&mut self, at: usize, batch: BatchId, known: usize) {
        let known = if self.keep(Rule::CatalogueAfterMiss) { self.world.catalogue.len() } else { known };
        let covering = self.world.newest_verified(known).filter(|s| s.fold.position.batch_id >= batch);
        match covering.filter(|s| s.sound).map(|s| s.fold.clone()) {
            Some(fold) => {
                self.note(Situation::MissedTruncated);
                let node = &mut self.world.nodes[at];
                (node.fold, node.role, node.restored) = (fold, Role::Following, true);
            }
            None => self.alarm(at),
        }
    }
}
