//! Owns the index: every record that the store knows, what it is, and the counters over them. Pure: no I/O, no lock, no clock. The
//! only place where the state of a record changes, so that counters and rules hold by construction; `audit` proves it.
//!
//! Of the records of a key that are not tombstoned, the highest (write number, bucket id) is the *newest*; only it can be live. The
//! rule that makes restarts agree with memory is *bury first* (`burial`): no record is tombstoned or removed on disk while an older
//! one of its key could come back for it.

mod audit;
mod bucket_state;
mod burial;
mod cover;
mod figures;
mod graves;
mod keys;
mod slots;
mod swap;
mod views;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub(crate) use self::bucket_state::{BucketState, Engagement, Suspicion};
pub(crate) use self::burial::Fate;
pub(crate) use self::figures::Figures;
use self::keys::KeyRecords;
pub(crate) use self::slots::{Location, SlotEntry, SlotState};
pub(crate) use self::swap::{Moved, Replacement};
pub(crate) use self::views::{Record, Standing};
use ha_types::ObjectIncarnation;

use super::bucket::Bucket;
use crate::format::graves::Graves;
use crate::format::names::BucketId;
use crate::format::table::{Slot, Tombstone};

/// The index of one store.
#[derive(Debug, Default)]
pub(crate) struct State {
    keys: HashMap<Arc<[u8]>, KeyRecords>,
    buckets: BTreeMap<BucketId, BucketState>,
    /// Replaced or removed by a committed round, and not yet unlinked: held so that their blocks stay counted.
    retired: BTreeMap<BucketId, Arc<Bucket>>,
    /// Keys that a write call has in its hands. One call at a time.
    in_flight: HashSet<Arc<[u8]>>,
    totals: Figures,
    with_superseded: BTreeSet<BucketId>,
    unpublished: BTreeSet<BucketId>,
    unpublished_bytes: u64,
    /// Hidden because something covers them, and not tombstoned yet. Nobody asked for that, so GC does it.
    covered: BTreeSet<Location>,
    /// Of records that left while a bucket could not be read.
    graves: Graves,
}

impl State {
    /// Takes up a bucket: loaded from its table, or just written. Its newest records are live from now on, and the older ones of their
    /// keys superseded. Gives pairs of records, older first, that are neither tombstoned nor told apart by their incarnation: outside of
    /// an intent there should be none (row B12), but for a damaged record that was written again.
    ///
    /// # Panics
    /// If the bucket is known already: ids are never used twice.
    pub(crate) fn insert(
        &mut self,
        bucket: Arc<Bucket>,
        slots: Vec<Slot>,
        published: bool,
    ) -> Vec<(Location, Location)> {
        let id = bucket.id;
        assert!(!self.buckets.contains_key(&id) && !self.retired.contains_key(&id), "bucket {id} is known already");
        let first = |slot: &Slot| if slot.tombstone.is_some() { SlotState::Tombstoned } else { SlotState::Superseded };
        let slots: Vec<_> =
            slots.into_iter().map(|slot| (first(&slot), slot.tombstone.unwrap_or(Tombstone::Replaced), slot)).collect();
        self.add_bucket(bucket, slots, published);
        let mut twice = Vec::new();
        for slot in 0..self.buckets[&id].slots.len() {
            let at = Location { bucket: id, slot: slot as u32 };
            if self.state_of(at) == Some(SlotState::Tombstoned) {
                self.cover_others(at);
            } else if let Some(tombstone) = self.cover_of(at) {
                self.cover(at, tombstone);
                self.supersede_older(at);
            } else {
                self.take_its_rank(at, &mut twice);
            }
        }
        twice
    }

    /// Makes `at` live if it is the newest of its key, and what was live before superseded.
    fn take_its_rank(&mut self, at: Location, twice: &mut Vec<(Location, Location)>) {
        let entry = &self.buckets[&at.bucket].slots[at.slot as usize];
        let (key, incarnation) = (Arc::clone(&entry.key), entry.incarnation);
        let undead: Vec<Location> = self.undead(&key).collect();
        let mine = undead.iter().position(|other| *other == at);
        for (rank, other) in undead.iter().enumerate().filter(|(_, other)| **other != at) {
            let same = incarnation != ObjectIncarnation::LEGACY
                && self.slot(*other).is_some_and(|entry| entry.incarnation == incarnation);
            if same {
                twice.push(if Some(rank) < mine { (*other, at) } else { (at, *other) });
            }
        }
        if undead.last() == Some(&at) {
            self.set(at, SlotState::Live);
            self.supersede_older(at);
        }
    }

    /// What was live before the newest of a key came to be known is superseded by it.
    fn supersede_older(&mut self, newest: Location) {
        let Some(entry) = self.slot(newest) else { return };
        let undead: Vec<_> = self.undead(&entry.key).collect();
        let Some((last, older)) = undead.split_last() else { return };
        for older in older.iter().filter(|_| *last == newest) {
            if matches!(self.state_of(*older), Some(SlotState::Live | SlotState::Damaged)) {
                self.set(*older, SlotState::Superseded);
            }
        }
    }

    /// Adds a bucket whose slots have the states given, and their places among the records of their keys.
    fn add_bucket(&mut self, bucket: Arc<Bucket>, slots: Vec<(SlotState, Tombstone, Slot)>, published: bool) {
        let id = bucket.id;
        let mut entries = Vec::with_capacity(slots.len());
        let mut figures = Figures::default();
        for (at, (state, tombstone, slot)) in slots.into_iter().enumerate() {
            let key = self.keys.get_key_value(&slot.key).map_or(slot.key, |(key, _)| Arc::clone(key));
            let (incarnation, write_number) = (slot.incarnation, slot.write_number);
            let (offset, value_len) = (slot.offset, slot.value_len);
            let entry = SlotEntry { key, incarnation, write_number, offset, value_len, state, tombstone };
            figures.add(state, entry.record_bytes(bucket.layout));
            let place = (write_number, Location { bucket: id, slot: at as u32 });
            let (buckets, before) = (&self.buckets, &entries);
            let number_of = |at: Location| {
                let slots = if at.bucket == id { before } else { buckets.get(&at.bucket).map_or(before, |b| &b.slots) };
                slots.get(at.slot as usize).map_or(write_number, |entry: &SlotEntry| entry.write_number)
            };
            match self.keys.get_mut(&entry.key) {
                Some(records) => records.add(place, number_of),
                None => drop(self.keys.insert(Arc::clone(&entry.key), KeyRecords::One(place.1))),
            }
            entries.push(entry);
        }
        self.totals += figures;
        if figures.of(SlotState::Superseded).records > 0 {
            self.with_superseded.insert(id);
        }
        if !published {
            self.unpublished.insert(id);
            self.unpublished_bytes += bucket.data_len;
        }
        let unreadable = figures.of(SlotState::Damaged).records > 0;
        let suspicion = Suspicion { unreadable, ..Suspicion::default() };
        let engagement = Engagement::default();
        self.buckets.insert(id, BucketState { bucket, slots: entries, figures, published, suspicion, engagement });
    }

    /// Takes a bucket and its records out of the index.
    fn take_bucket(&mut self, id: BucketId) -> Option<BucketState> {
        let taken = self.buckets.remove(&id)?;
        for (slot, entry) in taken.slots.iter().enumerate() {
            let at = Location { bucket: id, slot: slot as u32 };
            if self.keys.get_mut(&entry.key).is_some_and(|records| records.remove(at)) {
                self.keys.remove(&entry.key);
            }
        }
        self.totals -= taken.figures;
        self.with_superseded.remove(&id);
        self.covered.retain(|at| at.bucket != id);
        if self.unpublished.remove(&id) {
            self.unpublished_bytes -= taken.bucket.data_len;
        }
        Some(taken)
    }

    /// Begins a delete: the record is never served again. `false` if there is nothing to do, because its tombstone is durable or the
    /// place is gone.
    pub(crate) fn hide(&mut self, at: Location) -> bool {
        match self.state_of(at) {
            Some(SlotState::Live | SlotState::Superseded | SlotState::Damaged) => self.set(at, SlotState::Hidden),
            Some(SlotState::Hidden) => {}
            Some(SlotState::Tombstoned) | None => return false,
        }
        self.will_say(at, Tombstone::Deleted);
        true
    }

    /// What the record's tombstone is to say. That it was deleted says more than that it was replaced, and is never taken back.
    fn will_say(&mut self, at: Location, tombstone: Tombstone) {
        let slots = self.buckets.get_mut(&at.bucket).map(|state| &mut state.slots);
        if let Some(entry) = slots.and_then(|slots| slots.get_mut(at.slot as usize)) {
            debug_assert!(entry.state == SlotState::Hidden, "{at:?} is not hidden");
            entry.tombstone = entry.tombstone.max(tombstone);
        }
    }

    /// The record did not verify: it is dropped from what is served, and its bucket is suspect. `false` if it was not live, so that
    /// nobody is told twice.
    pub(crate) fn damage(&mut self, at: Location) -> bool {
        let live = self.state_of(at) == Some(SlotState::Live);
        if live {
            self.set(at, SlotState::Damaged);
            self.suspect_data(at.bucket);
        }
        live
    }

    /// Something of the bucket could not be read: it is no source of GC any more.
    pub(crate) fn suspect_data(&mut self, id: BucketId) {
        if let Some(state) = self.buckets.get_mut(&id) {
            state.suspicion.unreadable = true;
        }
    }

    /// The bucket's table is durable, with these tombstones in these slots. To be called with its `publish` lock held, and with what
    /// [`State::publication`] gave under that same hold. One that was deleted since, and whose tombstone says less, waits for another publish.
    pub(crate) fn published(&mut self, id: BucketId, tombstoned: &[(u32, Tombstone)]) {
        let Some(state) = self.buckets.get_mut(&id) else { return };
        state.published = true;
        state.suspicion.publish_failed = false;
        let data_len = state.bucket.data_len;
        if self.unpublished.remove(&id) {
            self.unpublished_bytes -= data_len;
        }
        for (slot, says) in tombstoned {
            let at = Location { bucket: id, slot: *slot };
            if self.slot(at).is_some_and(|entry| entry.tombstone <= *says) {
                self.set(at, SlotState::Tombstoned);
            }
        }
        for (slot, _) in tombstoned {
            self.debug_assert_buried(Location { bucket: id, slot: *slot });
        }
    }

    /// A publish of the bucket's table failed: the new table may or may not be in place.
    pub(crate) fn publish_failed(&mut self, id: BucketId) {
        if let Some(state) = self.buckets.get_mut(&id) {
            state.suspicion.publish_failed = true;
        }
    }

    /// Takes out a bucket that was never published and whose data is lost. Records that it superseded are live again: on disk they
    /// never were anything else.
    ///
    /// # Panics
    /// If it was published: such a bucket leaves by an intent.
    pub(crate) fn lose_unpublished(&mut self, id: BucketId) -> Option<Arc<Bucket>> {
        assert!(self.buckets.get(&id).is_none_or(|state| !state.published), "bucket {id} is published");
        let taken = self.take_bucket(id)?;
        for entry in &taken.slots {
            let newest = self.undead(&entry.key).last();
            if let Some(at) = newest.filter(|at| self.state_of(*at) == Some(SlotState::Superseded)) {
                self.set(at, SlotState::Live);
            }
        }
        Some(taken.bucket)
    }

    /// Says what GC uses the bucket for.
    pub(crate) fn engage(&mut self, id: BucketId, engagement: Engagement) {
        if let Some(state) = self.buckets.get_mut(&id) {
            state.engagement = engagement;
        }
    }

    /// A retired bucket's file has no name any more: when the last reader lets go of it, its blocks are free.
    pub(crate) fn forget_retired(&mut self, id: BucketId) -> Option<Arc<Bucket>> {
        self.retired.remove(&id)
    }

    /// Takes all these keys into a write call's hands, or none of them: then gives the position of one that another call has.
    pub(crate) fn begin_write(&mut self, keys: &[Arc<[u8]>]) -> Result<(), usize> {
        if let Some(at) = keys.iter().position(|key| self.in_flight.contains(key)) {
            return Err(at);
        }
        self.in_flight.extend(keys.iter().cloned());
        Ok(())
    }

    /// Lets them go.
    pub(crate) fn end_write(&mut self, keys: &[Arc<[u8]>]) {
        for key in keys {
            self.in_flight.remove(key);
        }
    }

    /// The one place where a record's state changes.
    fn set(&mut self, at: Location, to: SlotState) {
        let Some(state) = self.buckets.get_mut(&at.bucket) else { return };
        let Some(entry) = state.slots.get_mut(at.slot as usize) else { return };
        let (from, bytes) = (entry.state, entry.record_bytes(state.bucket.layout));
        debug_assert!(from != SlotState::Tombstoned || to == from, "a durable tombstone is for ever: {at:?}");
        entry.state = to;
        if to == SlotState::Tombstoned && self.covered.remove(&at) {
            state.suspicion.covered =
                self.covered.range(Location { slot: 0, ..at }..).next().is_some_and(|it| it.bucket == at.bucket);
        }
        for figures in [&mut state.figures, &mut self.totals] {
            figures.remove(from, bytes);
            figures.add(to, bytes);
        }
        if state.figures.of(SlotState::Superseded).records > 0 {
            self.with_superseded.insert(at.bucket);
        } else {
            self.with_superseded.remove(&at.bucket);
        }
    }
}

#[cfg(test)]
mod tests;
