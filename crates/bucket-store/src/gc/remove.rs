//! Owns rounds without a copy: fully dead buckets, and live ones that are evicted. Both are committed as *sources only*.

use std::collections::BTreeSet;
use std::collections::HashSet;
use std::sync::Arc;

use ha_types::MonoTime;

use super::commit::{Uncertain, lock_tables};
use super::engine::Worker;
use super::evict::{self, EvictedObject};
use crate::error::{Problem, StoreError};
use crate::format::names::BucketId;
use crate::observer::Event;
use crate::store::bucket::Bucket;
use crate::store::state::{Engagement, SlotState, State};

/// How often the tables that must come first are asked for before a bucket is set aside.
const MOST_PUBLISHES: usize = 4;

impl Worker<'_> {
    /// Buckets in which nothing is alive go as they are.
    pub(super) fn remove_dead(&mut self, ids: &[BucketId], now: MonoTime) {
        let buckets = self.buckets(ids);
        let tables = lock_tables(&buckets);
        let still_dead: Vec<_> = {
            let state = self.store.state.read();
            let dead = |bucket: &&Arc<Bucket>| {
                state.bucket(bucket.id).is_some_and(|it| it.engagement() == Engagement::Free && it.is_published())
                    && state.is_fully_dead(bucket.id)
            };
            buckets.iter().filter(dead).cloned().collect()
        };
        if still_dead.is_empty() {
            return;
        }
        let sources: Vec<_> = still_dead.iter().map(|bucket| bucket.id).collect();
        if let Err(error) = self.store.dig_graves(&sources, &HashSet::new()) {
            drop(tables);
            self.let_go(&sources);
            return sources.into_iter().for_each(|id| self.set_aside(id, error.clone(), now));
        }
        self.store.observer.event(&Event::GcBegun { sources, target: None });
        self.commit(Uncertain { sources: still_dead, replacement: None, copied_bytes: 0 }, &tables, now);
    }

    /// A live bucket goes, if whoever embeds the store agrees.
    pub(super) fn evict(&mut self, id: BucketId, now: MonoTime) {
        let Some(evictor) = self.store.gc.evictor() else { return };
        if let Err(error) = self.bury_before(id) {
            return self.set_aside(id, error, now);
        }
        let Some(objects) = self.engage_for_eviction(id) else { return };
        // No lock is held but the worker's own: reads, writes and deletes go on, also those of the callback.
        let agreed = if objects.is_empty() || self.engine.agreed.contains(&id) {
            Ok(())
        } else {
            evict::ask(&*evictor, id, &objects)
        };
        if let Err(reason) = agreed {
            self.let_go(&[id]);
            self.store.gc.set_aside(id, self.store.clock.now());
            return self.store.observer.event(&Event::EvictionRefused { bucket: id, reason });
        }
        let sources = self.buckets(&[id]);
        let mut tables = lock_tables(&sources);
        // A write that had begun before may have come in between. What was agreed to is not dropped for that.
        for _ in 0..MOST_PUBLISHES {
            if self.store.state.read().publish_before_leaving(&[id]).is_empty() {
                break;
            }
            drop(tables);
            if let Err(error) = self.bury_before(id) {
                self.engine.agreed.insert(id);
                return self.set_aside(id, error, now);
            }
            tables = lock_tables(&sources);
        }
        if !self.store.state.read().publish_before_leaving(&[id]).is_empty() {
            drop(tables);
            self.engine.agreed.insert(id);
            return self.set_aside(id, not_buried(id), now);
        }
        if let Err(error) = self.store.dig_graves(&[id], &HashSet::new()) {
            drop(tables);
            // It goes all the same, once there is room for that.
            self.store.state.write().engage(id, Engagement::Evicting);
            self.engine.agreed.insert(id);
            return self.set_aside(id, error, now);
        }
        self.engine.agreed.remove(&id);
        self.store.observer.event(&Event::Evicted { bucket: id, objects: objects.len() });
        self.commit(Uncertain { sources: sources.clone(), replacement: None, copied_bytes: 0 }, &tables, now);
    }

    /// Older records of keys whose newest is about to leave are tombstoned first, or they would be back after a restart.
    fn bury_before(&self, id: BucketId) -> Result<(), StoreError> {
        self.publish_first(id, |state| state.publish_before_leaving(&[id]))
    }

    /// What the tombstones of a bucket cover is tombstoned itself, so that they may leave.
    pub(super) fn bury_covered(&self, id: BucketId) -> Result<(), StoreError> {
        self.publish_first(id, |state| state.publish_before_cover_leaves(id))
    }

    /// Publishes the tables that must come first, until there are none.
    fn publish_first(&self, id: BucketId, first: impl Fn(&State) -> BTreeSet<BucketId>) -> Result<(), StoreError> {
        for _ in 0..MOST_PUBLISHES {
            let tables = first(&self.store.state.read());
            if tables.is_empty() {
                return Ok(());
            }
            tables.into_iter().try_for_each(|table| self.store.publish_table(table))?;
        }
        Err(not_buried(id))
    }

    /// The live objects of the bucket, which is being evicted from now on; `None` if it cannot be.
    fn engage_for_eviction(&self, id: BucketId) -> Option<Vec<EvictedObject>> {
        let mut state = self.store.state.write();
        let bucket =
            state.bucket(id).filter(|it| it.engagement() == Engagement::Free || self.engine.agreed.contains(&id))?;
        let bucket = Some(bucket).filter(|it| it.is_published())?;
        // One that is damaged goes for good too, and whoever counts on it must learn that.
        let goes = |state| matches!(state, SlotState::Live | SlotState::Damaged);
        let live = bucket.slots().iter().filter(|slot| goes(slot.state()));
        let object = |slot: &crate::store::state::SlotEntry| EvictedObject {
            key: Arc::clone(&slot.key),
            incarnation: slot.incarnation,
            value_len: slot.value_len,
        };
        let objects = live.map(object).collect();
        state.engage(id, Engagement::Evicting);
        Some(objects)
    }

    fn buckets(&self, ids: &[BucketId]) -> Vec<Arc<Bucket>> {
        let state = self.store.state.read();
        ids.iter().filter_map(|id| state.bucket(*id)).map(|it| Arc::clone(it.bucket())).collect()
    }
}

fn not_buried(id: BucketId) -> StoreError {
    let reason = "older records of its keys are not tombstoned yet, and would come back without it";
    Problem::BucketStays { bucket: id, reason }.into()
}
