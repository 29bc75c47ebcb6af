//! Owns what may be asked of the index. It changes nothing.

use ha_types::ObjectIncarnation;

use super::State;
use super::bucket_state::BucketState;
use super::figures::Figures;
use super::slots::{Location, SlotEntry, SlotState};
use crate::format::names::BucketId;

/// One record with its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    /// Where it is.
    pub(crate) at: Location,
    /// The record.
    pub(crate) slot: &'a SlotEntry,
    /// Its bucket.
    pub(crate) bucket: &'a BucketState,
}

impl Record<'_> {
    /// What it is.
    pub(crate) const fn state(&self) -> SlotState {
        self.slot.state
    }
}

/// What is known of an object that someone wants to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing, or only a record that is damaged.
    Unknown,
    /// It is live.
    Stored,
    /// A newer incarnation of its key is here.
    Superseded,
    /// It was deleted, durably or not yet.
    Deleted,
}

impl State {
    /// All records of the key, oldest first, tombstoned ones included.
    pub(crate) fn records(&self, key: &[u8]) -> impl DoubleEndedIterator<Item = Record<'_>> {
        let places = self.keys.get(key).map_or(&[][..], |records| records.as_slice());
        places.iter().filter_map(|at| self.record(*at))
    }

    /// The record at a place.
    pub(crate) fn record(&self, at: Location) -> Option<Record<'_>> {
        let bucket = self.buckets.get(&at.bucket)?;
        let slot = bucket.slots.get(at.slot as usize)?;
        Some(Record { at, slot, bucket })
    }

    /// The live record of the key.
    pub(crate) fn live(&self, key: &[u8]) -> Option<Record<'_>> {
        self.records(key).rfind(|record| record.state() == SlotState::Live)
    }

    /// What is known of that object. Where it was written more than once, the last time decides.
    pub(crate) fn standing(&self, key: &[u8], incarnation: ObjectIncarnation) -> Standing {
        if self.is_buried(key, incarnation) {
            return Standing::Deleted;
        }
        let last = self.records(key).rfind(|record| record.slot.incarnation == incarnation);
        match last.map(|record| record.state()) {
            None | Some(SlotState::Damaged) => Standing::Unknown,
            Some(SlotState::Live) => Standing::Stored,
            Some(SlotState::Superseded) => Standing::Superseded,
            Some(SlotState::Hidden | SlotState::Tombstoned) => Standing::Deleted,
        }
    }

    /// Whether a write call has the key in its hands.
    pub(crate) fn is_in_flight(&self, key: &[u8]) -> bool {
        self.in_flight.contains(key)
    }

    /// The bucket, if it is in the index.
    pub(crate) fn bucket(&self, id: BucketId) -> Option<&BucketState> {
        self.buckets.get(&id)
    }

    /// All buckets of the index from `first` on, in id order.
    pub(crate) fn buckets_from(&self, first: BucketId) -> impl Iterator<Item = &BucketState> {
        self.buckets.range(first..).map(|(_, state)| state)
    }

    /// All buckets of the index, in id order.
    pub(crate) fn buckets(&self) -> impl ExactSizeIterator<Item = &BucketState> {
        self.buckets.values()
    }

    /// Buckets that wait to be unlinked, in id order.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> impl ExactSizeIterator<Item = &std::sync::Arc<crate::store::bucket::Bucket>> {
        self.retired.values()
    }

    /// The counters over all buckets of the index.
    pub(crate) const fn totals(&self) -> &Figures {
        &self.totals
    }

    /// Live objects.
    pub(crate) fn live_objects(&self) -> usize {
        usize::try_from(self.totals.of(SlotState::Live).records).unwrap_or(usize::MAX)
    }

    /// Buckets whose table is not durable yet, in id order.
    pub(crate) fn unpublished(&self) -> impl ExactSizeIterator<Item = BucketId> {
        self.unpublished.iter().copied()
    }

    /// Bytes of the data of those.
    pub(crate) const fn unpublished_bytes(&self) -> u64 {
        self.unpublished_bytes
    }

    /// Buckets with a superseded record that is not tombstoned yet, in id order.
    pub(crate) fn with_superseded(&self) -> impl ExactSizeIterator<Item = BucketId> {
        self.with_superseded.iter().copied()
    }

    /// Places of the key's records that are not tombstoned, oldest first.
    pub(super) fn undead(&self, key: &[u8]) -> impl DoubleEndedIterator<Item = Location> {
        self.records(key).filter(|record| record.state() != SlotState::Tombstoned).map(|record| record.at)
    }

    pub(super) fn slot(&self, at: Location) -> Option<&SlotEntry> {
        self.buckets.get(&at.bucket)?.slots.get(at.slot as usize)
    }

    pub(super) fn state_of(&self, at: Location) -> Option<SlotState> {
        self.slot(at).map(|slot| slot.state)
    }
}
