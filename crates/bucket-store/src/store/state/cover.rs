//! Owns the rule of what a tombstone says of other records: which of them must not be served for it, and whether it may leave. On disk
//! *bury first* leaves nothing for it to do, but for what a bucket holds that could not be read meanwhile.

use std::collections::BTreeSet;

use ha_types::ObjectIncarnation;

use super::State;
use super::slots::{Location, SlotEntry, SlotState};
use crate::format::graves::Rank;
use crate::format::names::BucketId;
use crate::format::table::Tombstone;

/// What a tombstone says of a record of the same key, if it says anything.
fn says(tombstone: Tombstone, of: (Rank, ObjectIncarnation), record: (Rank, ObjectIncarnation)) -> Option<Tombstone> {
    if tombstone == Tombstone::Deleted && of.1 == record.1 {
        // Every other record of the incarnation is a copy of the same object.
        return Some(Tombstone::Deleted);
    }
    (record.0 < of.0).then_some(Tombstone::Replaced)
}

fn name(at: Location, entry: &SlotEntry) -> (Rank, ObjectIncarnation) {
    (Rank { write_number: entry.write_number, bucket: at.bucket }, entry.incarnation)
}

impl State {
    /// What covers the record, if anything does.
    pub(super) fn cover_of(&self, at: Location) -> Option<Tombstone> {
        let entry = self.slot(at)?;
        let tombstoned = self.records(&entry.key).filter(|it| it.at != at && it.state() == SlotState::Tombstoned);
        let told = tombstoned.filter_map(|it| says(it.slot.tombstone, name(it.at, it.slot), name(at, entry))).max();
        let (rank, incarnation) = name(at, entry);
        told.max(self.graves.of(&entry.key, rank, incarnation))
    }

    /// A tombstone came to be known: what it covers is not served.
    pub(super) fn cover_others(&mut self, at: Location) {
        let Some(entry) = self.slot(at) else { return };
        for (at, says) in self.covered_by(at, entry).collect::<Vec<_>>() {
            self.cover(at, says);
        }
    }

    /// A record that must not come back is hidden, as by a delete, and its table is one to be published again.
    pub(super) fn cover(&mut self, at: Location, tombstone: Tombstone) {
        self.set(at, SlotState::Hidden);
        self.will_say(at, tombstone);
        self.covered.insert(at);
        if let Some(state) = self.buckets.get_mut(&at.bucket) {
            state.suspicion.covered = true;
        }
    }

    /// Tables that must be published next on the way to the tombstones of what is covered. To be asked again after each publish; none when
    /// nothing is left.
    pub(crate) fn owed_tables(&self) -> BTreeSet<BucketId> {
        self.covered.iter().filter_map(|at| self.next_publish(*at)).collect()
    }

    /// Whether a tombstone of the bucket is all that keeps a record from coming back: the bucket may not leave yet.
    pub(crate) fn covers_any(&self, id: BucketId) -> bool {
        let Some(state) = self.buckets.get(&id) else { return false };
        (0u32..).zip(&state.slots).any(|(slot, _)| self.still_covers(Location { bucket: id, slot }))
    }

    /// Tables that must be published next before the tombstones of this bucket may leave: those of the records that they cover. To be asked
    /// again after each publish; none when nothing is in the way.
    pub(crate) fn publish_before_cover_leaves(&self, id: BucketId) -> BTreeSet<BucketId> {
        let Some(state) = self.buckets.get(&id) else { return BTreeSet::new() };
        let tombstoned = (0u32..).zip(&state.slots).filter(|(_, entry)| entry.state == SlotState::Tombstoned);
        let covered = tombstoned.flat_map(|(slot, entry)| self.covered_by(Location { bucket: id, slot }, entry));
        covered.filter_map(|(at, _)| self.next_publish(at)).collect()
    }

    pub(super) fn still_covers(&self, at: Location) -> bool {
        self.slot(at)
            .is_some_and(|entry| entry.state == SlotState::Tombstoned && self.covered_by(at, entry).next().is_some())
    }

    /// Records that the tombstone at `at` covers and that have none themselves, and what it says of them.
    pub(super) fn covered_by(&self, at: Location, entry: &SlotEntry) -> impl Iterator<Item = (Location, Tombstone)> {
        let (tombstone, of) = (entry.tombstone, name(at, entry));
        let undead = self.records(&entry.key).filter(|it| it.state() != SlotState::Tombstoned);
        undead.filter_map(move |it| Some((it.at, says(tombstone, of, name(it.at, it.slot))?)))
    }
}
