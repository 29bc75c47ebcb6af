//! Owns the tables that are owed: those whose publish has failed, and those on the way to the tombstones of what is covered. They are
//! published at run time, after a failure with a pause that grows, so that their buckets are sources of GC again also if nobody repeats
//! the delete. It knows no tombstone: `publish_table` does.

use std::collections::BTreeSet;

use ha_types::MonoTime;

use super::engine::{Paused, Worker};
use crate::format::names::BucketId;
use crate::observer::Event;

impl Worker<'_> {
    /// Publishes one such table, if there is one whose pause is over. Whether there was.
    pub(super) fn publish_again(&mut self, now: MonoTime) -> bool {
        self.publish_one(Self::owed_tables, now) || self.fill_graves(now)
    }

    /// Publishes one table for a bucket that is all dead and stays for what its tombstones cover. Whether there was one. To be asked when
    /// nothing else is to be done: all other dead buckets have gone by then.
    pub(super) fn publish_for_staying(&mut self, now: MonoTime) -> bool {
        self.publish_one(Self::staying_tables, now)
    }

    fn publish_one(&mut self, wanted: fn(&Self) -> BTreeSet<BucketId>, now: MonoTime) -> bool {
        let due = |id: &BucketId| self.store.gc.paused_until(Paused::Table(*id), now).is_none();
        let Some(id) = wanted(self).into_iter().find(due) else { return false };
        // A failure has been told already.
        let _ = self.store.publish_table(id);
        // What a publish leaves to another table is owed by that one, so none is published twice for nothing.
        if wanted(self).contains(&id) {
            self.pause(Paused::Table(id), now);
        } else {
            self.store.gc.forget_pause(Paused::Table(id));
        }
        true
    }

    /// The last of them was what the graves were kept for. Whether there was something to do.
    fn fill_graves(&self, now: MonoTime) -> bool {
        if !self.store.are_graves_done() || self.store.gc.paused_until(Paused::Graves, now).is_some() {
            return false;
        }
        match self.store.fill_graves() {
            Ok(()) => self.store.gc.forget_pause(Paused::Graves),
            Err(error) => {
                self.store.gc.pause(Paused::Graves, now);
                self.store.observer.event(&Event::DiskFailed { error });
            }
        }
        true
    }

    /// When the next of all these may be tried.
    pub(super) fn next_publish_again(&self, now: MonoTime) -> Option<MonoTime> {
        let tables = self.owed_tables().into_iter().chain(self.staying_tables()).map(Paused::Table);
        tables.chain([Paused::Graves]).filter_map(|what| self.store.gc.paused_until(what, now)).min()
    }

    pub(super) fn owed_tables(&self) -> BTreeSet<BucketId> {
        let state = self.store.state.read();
        let failed = state.buckets().filter(|bucket| bucket.suspicion().publish_failed).map(|bucket| bucket.id());
        failed.chain(state.owed_tables()).collect()
    }

    fn staying_tables(&self) -> BTreeSet<BucketId> {
        let state = self.store.state.read();
        let all_dead = state.buckets().filter(|bucket| bucket.figures().kept().records == 0);
        all_dead.flat_map(|bucket| state.publish_before_cover_leaves(bucket.id())).collect()
    }
}
