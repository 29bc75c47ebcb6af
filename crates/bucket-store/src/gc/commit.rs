//! Owns the commit section: from the last tombstones of a round to the moment when memory and disk agree that its sources are gone.
//!
//! The sources' `publish` locks are held throughout, in id order, so no tombstone can go to a source that is being replaced. Reads do
//! not wait: they need the index lock only, which is taken for the swap. From the first attempt to publish COMMITTED there is no way
//! back: it may be in place after a crash, whatever the system answered.

use std::io;
use std::sync::Arc;

use ha_types::MonoTime;

use super::engine::{Paused, Stage, Worker};
use super::round::Merge;
use crate::crashsafe;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::intent::Round;
use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Slot, Table};
use crate::observer::Event;
use crate::store::bucket::{Bucket, TableGuard};
use crate::store::state::{Engagement, Moved, Replacement, SlotState};

/// A round whose COMMITTED is being published, for the first time or again.
#[derive(Debug)]
pub(super) struct Uncertain {
    /// The buckets that go, in id order.
    pub(super) sources: Vec<Arc<Bucket>>,
    /// What replaces them.
    pub(super) replacement: Option<Replacement>,
    pub(super) copied_bytes: u64,
}

impl Uncertain {
    fn source_ids(&self) -> Vec<BucketId> {
        self.sources.iter().map(|bucket| bucket.id).collect()
    }
}

/// The publish locks of buckets that are in id order, taken in that order.
pub(super) fn lock_tables(buckets: &[Arc<Bucket>]) -> Vec<TableGuard<'_>> {
    debug_assert!(buckets.is_sorted_by_key(|bucket| bucket.id), "publish locks are taken in id order");
    buckets.iter().map(|bucket| bucket.publish.lock()).collect()
}

impl Worker<'_> {
    /// All is copied: sync it once, and then commit.
    pub(super) fn finish_merge(&mut self, now: MonoTime) {
        let Stage::Copying(merge) = &mut self.engine.stage else { return };
        if !merge.synced {
            self.book_sync(now, Self::sync_target);
            if let Stage::Copying(merge) = &mut self.engine.stage {
                merge.synced = true;
            }
            return;
        }
        let sources: Vec<_> = merge.sources.values().cloned().collect();
        let tables = lock_tables(&sources);
        let slots = match self.moved() {
            Ok(slots) => slots,
            Err((bucket, error)) => {
                drop(tables);
                return self.give_up(Some(bucket), error, now);
            }
        };
        if let Err(error) = self.publish_target(&slots) {
            drop(tables);
            return self.give_up(None, error, now);
        }
        let ids: Vec<_> = sources.iter().map(|bucket| bucket.id).collect();
        let copied = slots.iter().map(|moved| moved.from).collect();
        if let Err(error) = self.store.dig_graves(&ids, &copied) {
            drop(tables);
            let at_fault = matches!(error.problem(), Problem::BucketStays { .. }).then_some(ids[0]);
            return self.give_up(at_fault, error, now);
        }
        let Stage::Copying(merge) = std::mem::replace(&mut self.engine.stage, Stage::Idle) else { return };
        let Merge { target, age, file, data_len, copied_bytes, .. } = *merge;
        let bucket = Bucket::new((target, RecordLayout::Checksummed, age, data_len), file, true);
        let replacement = Some(Replacement { bucket, slots });
        self.commit(Uncertain { sources: sources.clone(), replacement, copied_bytes }, &tables, now);
    }

    /// Makes durable what was copied so far, so that the last sync has little to do.
    pub(super) fn sync_so_far(&mut self, now: MonoTime) {
        self.book_sync(now, Self::sync_data);
        if let Stage::Copying(merge) = &mut self.engine.stage {
            merge.unsynced_bytes = 0;
        }
    }

    /// A sync takes its time of the budget as a copy does. After a failure the target goes: it is never synced again.
    fn book_sync(&mut self, now: MonoTime, sync: impl FnOnce(&Self) -> Result<(), StoreError>) {
        let begun = self.store.clock.now();
        match sync(self) {
            Ok(()) => self.engine.budget.spend(begun, self.store.clock.now(), 0),
            Err(error) => self.give_up(None, error, now),
        }
    }

    fn sync_data(&self) -> Result<(), StoreError> {
        let Stage::Copying(merge) = &self.engine.stage else { return Ok(()) };
        let synced = merge.file.file().sync_data();
        synced.map_err(|error| self.target_sync_failed(merge.target, DiskOp::Sync, error))
    }

    /// The target's bytes and its name become durable. Its name is not left to the sync that publishes its table: were that to fail once, the
    /// name would be lost, and repeating the publish would not bring it back.
    fn sync_target(&self) -> Result<(), StoreError> {
        self.sync_data()?;
        let Stage::Copying(merge) = &self.engine.stage else { return Ok(()) };
        let vfs = &*self.store.vfs;
        let named = vfs.sync_dir().and_then(|()| crashsafe::vouch(vfs, &merge.target.data_name()));
        named.map_err(|error| self.target_sync_failed(merge.target, DiskOp::SyncDir, error))
    }

    fn target_sync_failed(&self, target: BucketId, op: DiskOp, error: io::Error) -> StoreError {
        let name = target.data_name();
        self.store.health.failed(op, &name, &error, &*self.store.observer);
        StoreError::io(op, name, error)
    }

    /// What the target's table will say: every tombstone that came while its record was being copied is in it. The tables are locked.
    fn moved(&self) -> Result<Vec<Moved>, (BucketId, StoreError)> {
        let Stage::Copying(merge) = &self.engine.stage else { return Ok(Vec::new()) };
        let state = self.store.state.read();
        for id in merge.sources.keys() {
            // What became suspect meanwhile stays as it is: nothing of it is given up because it could not be read.
            let trusted = state.bucket(*id).is_some_and(|bucket| !bucket.suspicion().any());
            if !trusted {
                let reason = "it became suspect while it was being copied";
                return Err((*id, Problem::BucketStays { bucket: *id, reason }.into()));
            }
        }
        let moved = merge.from.iter().zip(merge.copier.target_slots()).map(|(from, slot)| {
            let record =
                state.record(*from).filter(|it| it.state() == SlotState::Tombstoned || state.may_tombstone(*from));
            Moved { from: *from, to: Slot { tombstone: record.map(|record| record.slot.tombstone()), ..slot } }
        });
        Ok(moved.collect())
    }

    fn publish_target(&self, slots: &[Moved]) -> Result<(), StoreError> {
        let Stage::Copying(merge) = &self.engine.stage else { return Ok(()) };
        let table = Table {
            bucket: merge.target,
            layout: RecordLayout::Checksummed,
            age: merge.age,
            data_len: merge.data_len,
            slots: slots.iter().map(|moved| moved.to.clone()).collect(),
        };
        let name = merge.target.table_name();
        let bytes = table.encode().map_err(|error| StoreError::unwritable(&*name, error))?;
        self.store.publish_copy(&name, &bytes)
    }

    /// Publishes COMMITTED and swaps. The sources' tables are locked.
    pub(super) fn commit(&mut self, round: Uncertain, _tables: &[TableGuard<'_>], now: MonoTime) {
        let ids = round.source_ids();
        let target = round.replacement.as_ref().map(|replacement| replacement.bucket.id);
        self.engine.file.release(&ids);
        let committed = Round::Committed { sources: ids.clone(), target };
        self.engine.file.under_way = Some(committed);
        match self.engine.file.publish(self.store) {
            Ok(()) => {
                self.engine.file.under_way = None;
                let allocated_bytes = round.sources.iter().map(|bucket| bucket.file.allocated_bytes()).sum();
                self.store.state.write().swap(&ids, round.replacement);
                self.engine.file.add(ids.clone(), target, allocated_bytes);
                self.forget_failures(&ids);
                self.has_news = true;
                let copied_bytes = round.copied_bytes;
                self.store.observer.event(&Event::GcCommitted { sources: ids, target, copied_bytes });
            }
            Err(error) => {
                let mut state = self.store.state.write();
                ids.iter().for_each(|id| state.engage(*id, Engagement::Uncertain));
                drop(state);
                self.engine.stage = Stage::Uncertain(Box::new(round));
                self.pause(Paused::Commit, now);
                self.store.observer.event(&Event::GcUncertain { sources: ids, error });
            }
        }
    }

    /// Tries again what may be in place already.
    pub(super) fn commit_again(&mut self, now: MonoTime) {
        let Stage::Uncertain(round) = std::mem::replace(&mut self.engine.stage, Stage::Idle) else { return };
        let sources = round.sources.clone();
        let tables = lock_tables(&sources);
        self.commit(*round, &tables, now);
    }

    fn forget_failures(&self, sources: &[BucketId]) {
        self.store.gc.forget_pause(Paused::Commit);
        self.store.gc.forget_pause(Paused::Copies);
        sources.iter().for_each(|id| self.store.gc.forget_aside(*id));
    }
}
