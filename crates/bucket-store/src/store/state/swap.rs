//! Owns the moment of a committed round in memory: the sources leave, the target takes over, and what happened to a record since it
//! was copied comes along.

use std::sync::Arc;

use super::State;
use super::slots::{Location, SlotState};
use crate::format::names::BucketId;
use crate::format::table::{Slot, Tombstone};
use crate::store::bucket::Bucket;

/// What replaces the sources.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    /// The target.
    pub(crate) bucket: Arc<Bucket>,
    /// Its records, in the order of its table.
    pub(crate) slots: Vec<Moved>,
}

/// A record of the target.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    /// Where it was copied from.
    pub(crate) from: Location,
    /// What the target's durable table says of it.
    pub(crate) to: Slot,
}

impl State {
    /// Replaces the sources by the target, or by nothing. The sources are retired: their files stay counted until
    /// [`State::forget_retired`]. A record that was hidden, superseded or found damaged since it was copied is so in the target.
    ///
    /// To be called with the `publish` locks of all sources held since the target's table was made, in the same hold of the index lock
    /// for good: between them no delete can act.
    ///
    /// # Panics
    /// If the target is known already, or a record was copied from elsewhere than the sources.
    pub(crate) fn swap(&mut self, sources: &[BucketId], target: Option<Replacement>) {
        self.replace(sources, target, true);
    }

    /// Replaces a bucket that was never published by a new writing of the same records, which is not published either.
    ///
    /// # Panics
    /// As [`State::swap`]; or if the bucket was published.
    pub(crate) fn replace_unpublished(&mut self, lost: BucketId, target: Replacement) {
        assert!(self.bucket(lost).is_none_or(|state| !state.published), "bucket {lost} is published");
        self.replace(&[lost], Some(target), false);
    }

    fn replace(&mut self, sources: &[BucketId], target: Option<Replacement>, published: bool) {
        let target = target.map(|Replacement { bucket, slots }| {
            assert!(!self.buckets.contains_key(&bucket.id), "bucket {} is known already", bucket.id);
            let slots = slots.into_iter().map(|Moved { from, to }| {
                assert!(sources.contains(&from.bucket), "{from:?} is in no source");
                let (state, tombstone) = self.carried_over(from, &to);
                (state, tombstone, to)
            });
            let slots = slots.collect();
            (bucket, slots)
        });
        let taken: Vec<_> = sources.iter().filter_map(|id| self.take_bucket(*id)).collect();
        if let Some((bucket, slots)) = target {
            self.add_bucket(bucket, slots, published);
        }
        for state in taken {
            if cfg!(debug_assertions) {
                state.slots.iter().for_each(|entry| self.debug_assert_key_buried(&entry.key));
            }
            self.retired.insert(state.bucket.id, state.bucket);
        }
    }

    /// What became of the record, and what its tombstone says or is to say. One that was deleted after the target's table was made, and whose
    /// tombstone there says less, waits for another publish.
    fn carried_over(&self, from: Location, to: &Slot) -> (SlotState, Tombstone) {
        let source = self.slot(from).map(|entry| (entry.state, entry.tombstone));
        debug_assert!(
            source.is_none_or(|(state, _)| state != SlotState::Tombstoned) || to.tombstone.is_some(),
            "the tombstone of {from:?} is durable in the source and not in the target"
        );
        let (state, says) = source.unwrap_or((SlotState::Tombstoned, Tombstone::Deleted));
        match (to.tombstone, state) {
            (Some(durable), _) if durable >= says => (SlotState::Tombstoned, durable),
            (Some(_), _) | (None, SlotState::Tombstoned) => (SlotState::Hidden, says),
            (None, state) => (state, says),
        }
    }
}
