//! Owns the tables whose publish has failed: they are published again at run time, after a pause that grows, so that their buckets are
//! sources of GC again also if nobody repeats the delete. It knows no tombstone: `publish_table` does.

use ha_types::MonoTime;

use super::engine::{Paused, Worker};
use crate::format::names::BucketId;

impl Worker<'_> {
    /// Publishes one such table again, if there is one whose pause is over. Whether there was.
    pub(super) fn publish_again(&mut self, now: MonoTime) -> bool {
        let due = |id: &BucketId| self.store.gc.paused_until(Paused::Table(*id), now).is_none();
        let Some(id) = self.failed_tables().into_iter().find(due) else { return false };
        // A failure has been told already.
        let _ = self.store.publish_table(id);
        if self.failed_tables().contains(&id) {
            self.store.gc.pause(Paused::Table(id), now);
        } else {
            self.store.gc.forget_pause(Paused::Table(id));
        }
        true
    }

    /// When the next of them may be tried.
    pub(super) fn next_publish_again(&self, now: MonoTime) -> Option<MonoTime> {
        self.failed_tables().into_iter().filter_map(|id| self.store.gc.paused_until(Paused::Table(id), now)).min()
    }

    pub(super) fn failed_tables(&self) -> Vec<BucketId> {
        let state = self.store.state.read();
        state.buckets().filter(|bucket| bucket.suspicion().publish_failed).map(|bucket| bucket.id()).collect()
    }
}
