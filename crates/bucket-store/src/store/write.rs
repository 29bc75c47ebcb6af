//! Owns the writing of objects: what is checked before anything changes, and the order of data, sync, table and index. How records
//! are laid into a file is `records`'; which objects share a bucket is `plan`'s.
//!
//! ```text
//! check all ─► take the keys ─► room ─► numbers ─► data of every bucket ─► sync ─► table ─► index      (sync)
//!                                                                       └► index ─► … sync ─► table    (relaxed)
//! ```

mod buckets;
mod plan;
pub(super) mod records;
mod room;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use self::plan::Planned;
pub(super) use self::room::{Room, in_blocks};
use super::Store;
use super::state::{Engagement, SlotState, Standing, State};
use crate::config::Durability;
use crate::error::{Problem, StoreError, StoreErrorKind};
use crate::format::names::BucketId;
use crate::format::record::RecordHeader;
use crate::key::StorageKey;

/// An object to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteObject<'a> {
    /// Its storage key, `tenant 0x00 user-key`.
    pub key: &'a [u8],
    /// Its name for all time. A new one of a key makes the older one dead.
    pub incarnation: ObjectIncarnation,
    /// Its bytes, at least one.
    pub value: &'a [u8],
    /// Objects that are likely to die together share a bucket if they have the same hint: then their space comes back without a copy.
    /// Objects with different hints, or with and without one, never share a bucket.
    pub placement: Option<u64>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// It was written.
    Stored,
    /// That incarnation is stored already: nothing was written.
    AlreadyStored,
}

impl Store {
    /// Writes objects into new buckets, each at most `bucket_size_bytes` and `bucket_keys`. Outcomes are in the order of the objects.
    ///
    /// With [`Durability::Sync`] all of them are durable, and served, when it returns. With [`Durability::Relaxed`] they are served when
    /// it returns, and durable after the next [`Store::publish_pending`], which it calls itself when more than `relaxed_limit_bytes` wait.
    ///
    /// # Errors
    /// * `ARGUMENT`, `BAD_KEY`, `KEY_TWICE`, `BAD_VALUE_LENGTH`: an object is not allowed.
    /// * `TOMBSTONED`, `SUPERSEDED`: an object was deleted or replaced already.
    /// * `BUSY`: another call is writing one of the keys, or GC is about to remove what is stored under it.
    /// * `NO_SPACE`, `RESERVE_MISSING`, `DISK_FULL`: there is no room.
    /// * `NUMBERS_EXHAUSTED`: the directory has no bucket ids or write numbers left.
    /// * `READ_ONLY`.
    /// * as the disk says; then any of the objects may be stored, and durable. Write all of them again: those that are stored
    ///   are not written twice.
    ///
    /// With all but the last, no object was written.
    pub fn write(&self, objects: &[WriteObject<'_>]) -> Result<Vec<WriteOutcome>, StoreError> {
        self.health.check()?;
        self.check_objects(objects)?;
        let (hold, outcomes, unpublished) = self.take_keys(objects)?;
        let new = || (0..objects.len()).filter(|at| outcomes[*at] == WriteOutcome::Stored);
        let plan = plan::plan(objects, new(), self.config.bucket_size_bytes, self.config.bucket_keys);
        self.write_planned(objects, &plan)?;
        drop(hold);
        let durable = if self.config.durability == Durability::Sync {
            unpublished.into_iter().try_for_each(|id| self.publish_table(id))
        } else if self.state.read().unpublished_bytes() > self.config.relaxed_limit_bytes {
            match self.publish_pending() {
                // Another call is at it: this one need not wait.
                Err(error) if error.kind() == StoreErrorKind::Busy => Ok(()),
                published => published.map(|_| ()),
            }
        } else {
            Ok(())
        };
        // Whatever the reason is, the objects are there: it must not be taken for a refusal.
        durable.map_err(Problem::NotDurable)?;
        Ok(outcomes)
    }

    /// All that can be said of the objects alone.
    fn check_objects(&self, objects: &[WriteObject<'_>]) -> Result<(), StoreError> {
        if objects.len() > self.config.max_batch {
            let expected = format!("give at most max_batch, which is {}", self.config.max_batch);
            return Err(Problem::Argument { argument: "objects", expected, found: objects.len().to_string() }.into());
        }
        let mut seen = HashMap::with_capacity(objects.len());
        for (at, WriteObject { key, incarnation, value, .. }) in objects.iter().enumerate() {
            let key = *key;
            StorageKey::check(key).map_err(|reason| Problem::BadKey { key: key.into(), reason })?;
            if let Some(first) = seen.insert(key, at) {
                return Err(Problem::KeyTwice { key: key.into(), first, second: at }.into());
            }
            if *incarnation == ObjectIncarnation::LEGACY {
                let expected =
                    "give every object one of its own: 0 names what was written before there were incarnations";
                return Err(Problem::Argument {
                    argument: "incarnation",
                    expected: expected.into(),
                    found: incarnation.to_string(),
                }
                .into());
            }
            let fits = u32::try_from(value.len())
                .is_ok_and(|len| len > 0 && RecordHeader::record_len(key.len(), len) <= self.config.bucket_size_bytes);
            if !fits {
                let most = self.config.bucket_size_bytes;
                let expected =
                    format!("give 1 or more, so that the whole record fits into bucket_size_bytes, which is {most}");
                return Err(Problem::BadValueLength { key: key.into(), found: value.len() as u64, expected }.into());
            }
        }
        Ok(())
    }

    /// Takes the keys of those that are to be written, and says of the others where they are, if that is not durable yet.
    fn take_keys(
        &self,
        objects: &[WriteObject<'_>],
    ) -> Result<(InFlight<'_>, Vec<WriteOutcome>, BTreeSet<BucketId>), StoreError> {
        let (mut outcomes, mut unpublished, mut keys) =
            (Vec::with_capacity(objects.len()), BTreeSet::new(), Vec::new());
        let mut state = self.state.write();
        for object in objects {
            if is_stored(&state, object)? {
                outcomes.push(WriteOutcome::AlreadyStored);
                let bucket = state.live(object.key).map(|record| record.bucket);
                unpublished.extend(bucket.filter(|bucket| !bucket.is_published()).map(|bucket| bucket.id()));
            } else {
                outcomes.push(WriteOutcome::Stored);
                keys.push(Arc::from(object.key));
            }
        }
        if let Err(at) = state.begin_write(&keys) {
            let key = (&*keys[at]).into();
            return Err(Problem::Busy { key, doing: "being written by another call" }.into());
        }
        drop(state);
        Ok((InFlight { store: self, keys }, outcomes, unpublished))
    }

    fn write_planned(&self, objects: &[WriteObject<'_>], plan: &[Planned]) -> Result<(), StoreError> {
        if plan.is_empty() {
            return Ok(());
        }
        let mut room = self.take_room(plan)?;
        let records = plan.iter().map(|planned| planned.objects.len() as u64).sum();
        let (first_bucket, first_write) = self.take_numbers(plan.len() as u64, records)?;
        let written = self.write_data(objects, plan, (first_bucket, first_write), &mut room)?;
        match self.config.durability {
            Durability::Sync => self.publish_new(objects, written, &mut room)?,
            Durability::Relaxed => written.into_iter().for_each(|new| self.take_up_new(new, false, &mut room)),
        }
        Ok(())
    }
}

/// Whether the object is stored already. Refuses what must not be written any more, or not now.
fn is_stored(state: &State, object: &WriteObject<'_>) -> Result<bool, StoreError> {
    let WriteObject { key, incarnation, .. } = *object;
    // What is about to be removed with its whole bucket would be gone right after this call said that it is stored.
    let mut records = state.records(key).filter(|record| record.state() != SlotState::Tombstoned);
    if records.any(|record| matches!(record.bucket.engagement(), Engagement::Evicting | Engagement::Uncertain)) {
        return Err(Problem::Busy { key: key.into(), doing: "being removed by GC" }.into());
    }
    match state.standing(key, incarnation) {
        Standing::Unknown => Ok(false),
        Standing::Stored => Ok(true),
        Standing::Superseded => Err(Problem::Superseded { key: key.into(), incarnation }.into()),
        Standing::Deleted => Err(Problem::Tombstoned { key: key.into(), incarnation }.into()),
    }
}

/// Keys that a write has in its hands, until it is dropped.
struct InFlight<'s> {
    store: &'s Store,
    keys: Vec<Arc<[u8]>>,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.store.state.write().end_write(&self.keys);
    }
}
