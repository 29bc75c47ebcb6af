//! Owns the rule *bury first*: which record may be tombstoned in its table, or left behind by GC, without an older one of its key
//! coming back at the next start. It decides; whoever publishes acts.

use std::collections::BTreeSet;

use super::State;
use super::slots::{Location, SlotState};
use crate::format::names::BucketId;
use crate::format::table::{Table, Tombstone};

/// A table to publish, and the slots that its success makes tombstoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Publication {
    /// The table.
    pub(crate) table: Table,
    /// Slots with a tombstone that is new in it, and what it says, for [`State::published`].
    pub(crate) tombstoned: Vec<(u32, Tombstone)>,
}

/// What GC does with a record of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Copies it: live, or not yet dead for certain.
    Copy,
    /// Leaves it behind: its tombstone is durable, or a newer record of its key is. Never becomes another fate again.
    Drop,
    /// Cannot say: it is damaged, and its bucket is no source.
    Keep,
}

impl State {
    /// The bucket's table as it should be on disk: with a tombstone in every slot that has a durable one, and in every hidden or
    /// superseded slot that may have one by now.
    pub(crate) fn publication(&self, id: BucketId) -> Option<Publication> {
        let state = self.buckets.get(&id)?;
        let mut tombstoned = Vec::new();
        let slots = (0u32..).zip(&state.slots).map(|(slot, entry)| {
            let durable = entry.state == SlotState::Tombstoned;
            let new = !durable && self.may_tombstone(Location { bucket: id, slot });
            if new {
                tombstoned.push((slot, entry.tombstone));
            }
            entry.to_slot(durable || new)
        });
        let slots = slots.collect();
        let bucket = &state.bucket;
        let table = Table { bucket: id, layout: bucket.layout, age: bucket.age, data_len: bucket.data_len, slots };
        Some(Publication { table, tombstoned })
    }

    /// Whether the record may be tombstoned in the next table of its bucket.
    ///
    /// A hidden one may, once every older record of its key is tombstoned or is so by that same table. A superseded one may, once a newer
    /// record of its key is in a durable table.
    pub(crate) fn may_tombstone(&self, at: Location) -> bool {
        let Some(entry) = self.slot(at) else { return false };
        match entry.state {
            SlotState::Live | SlotState::Damaged | SlotState::Tombstoned => false,
            SlotState::Superseded => self.newer_is_durable(at),
            SlotState::Hidden => self
                .undead(&entry.key)
                .take_while(|older| *older != at)
                .all(|older| older.bucket == at.bucket && self.may_tombstone(older)),
        }
    }

    /// The bucket whose table must be published next on the way to the tombstone of a record that is hidden or superseded; `None` if it
    /// is durable or the place is gone. To be asked again after each publish.
    pub(crate) fn next_publish(&self, at: Location) -> Option<BucketId> {
        let entry = self.slot(at)?;
        if entry.state == SlotState::Tombstoned {
            return None;
        }
        if self.may_tombstone(at) {
            return Some(at.bucket);
        }
        let mut undead = self.undead(&entry.key);
        let oldest = undead.next()?;
        if self.may_tombstone(oldest) { Some(oldest.bucket) } else { undead.next_back().map(|newest| newest.bucket) }
    }

    /// Buckets whose tables must be published before these may leave with their records, as an eviction does: those with older records of
    /// keys whose newest would go, which would come back, and those with newer records, not durable yet, of keys whose last durable one
    /// would go. Empty: nothing is in the way. To be asked again after the publishes.
    pub(crate) fn publish_before_leaving(&self, leaving: &[BucketId]) -> BTreeSet<BucketId> {
        let mut first = BTreeSet::new();
        let buckets = leaving.iter().filter_map(|id| self.buckets.get(id));
        let records =
            buckets.flat_map(|state| (0u32..).zip(&state.slots).map(|(slot, entry)| (state.id(), slot, entry)));
        for (bucket, slot, entry) in records {
            let undead: Vec<_> = self.undead(&entry.key).collect();
            if entry.state == SlotState::Tombstoned {
                let covered = self.covered_by(Location { bucket, slot }, entry).map(|(at, _)| at);
                let staying = covered.filter(|at| !leaving.contains(&at.bucket));
                first.extend(staying.filter_map(|at| self.next_publish(at)));
            }
            let Some(newest) = undead.last() else { continue };
            if !leaving.contains(&newest.bucket) {
                let replaced = entry.state == SlotState::Superseded;
                if replaced && !self.newer_is_durable(Location { bucket, slot }) {
                    first.insert(newest.bucket);
                }
                continue;
            }
            let staying = undead.iter().filter(|older| !leaving.contains(&older.bucket));
            first.extend(staying.filter_map(|older| self.next_publish(*older)));
        }
        first
    }

    /// What GC does with the record of a source.
    pub(crate) fn fate(&self, at: Location) -> Fate {
        match self.state_of(at) {
            None | Some(SlotState::Tombstoned) => Fate::Drop,
            Some(SlotState::Superseded | SlotState::Hidden) if self.newer_is_durable(at) => Fate::Drop,
            Some(SlotState::Live | SlotState::Superseded | SlotState::Hidden) => Fate::Copy,
            Some(SlotState::Damaged) => Fate::Keep,
        }
    }

    /// Whether no record of the bucket needs to be copied: it can be removed as it is.
    pub(crate) fn is_fully_dead(&self, id: BucketId) -> bool {
        let Some(state) = self.buckets.get(&id) else { return false };
        let gone = |at| self.fate(at) == Fate::Drop && !self.still_covers(at);
        (0u32..).zip(&state.slots).all(|(slot, _)| gone(Location { bucket: id, slot }))
    }

    /// Whether a newer record of the key, not tombstoned, is in a durable table.
    fn newer_is_durable(&self, at: Location) -> bool {
        let Some(entry) = self.slot(at) else { return false };
        let mut newer = self.undead(&entry.key).rev().take_while(|newer| *newer != at);
        newer.any(|newer| self.buckets.get(&newer.bucket).is_some_and(|state| state.published))
    }

    /// No superseded record may have become the newest of a key: it would be live after a restart, and is not now.
    pub(super) fn debug_assert_buried(&self, at: Location) {
        if cfg!(debug_assertions)
            && let Some(entry) = self.slot(at)
        {
            self.debug_assert_key_buried(&entry.key);
        }
    }

    pub(super) fn debug_assert_key_buried(&self, key: &[u8]) {
        let newest = self.undead(key).next_back();
        debug_assert!(
            newest.is_none_or(|newest| self.state_of(newest) != Some(SlotState::Superseded)),
            "an older record of {} would come back: {newest:?}",
            key.escape_ascii()
        );
    }
}
