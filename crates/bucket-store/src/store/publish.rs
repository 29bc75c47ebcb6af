//! Owns what the caller's maintenance asks for: that data written without a sync becomes durable, and tombstones of what newer objects
//! have replaced. What a table says is `state::burial`'s, how it gets to disk `publish_table`'s, and its data before it `data_sync`'s.

use std::collections::BTreeSet;

use super::Store;
use crate::error::{StoreError, StoreErrorKind};
use crate::format::names::BucketId;

impl Store {
    /// Makes everything durable that was written with [`Durability::Relaxed`](crate::Durability::Relaxed) and is not yet. To be called from the
    /// caller's maintenance now and then. Gives how many buckets became durable.
    ///
    /// # Errors
    /// `READ_ONLY`. As the disk says, for the first bucket that failed; the others were tried all the same. `DATA_BUSY` for one whose data
    /// another call is writing anew after a failed sync. Objects of a bucket whose data could not be written at all are gone, and an
    /// event says so.
    pub fn publish_pending(&self) -> Result<usize, StoreError> {
        self.health.check()?;
        let (mut published, mut failed, mut first_error) = (0, BTreeSet::new(), None);
        let last = || self.state.read().unpublished().last();
        // What others write from now on is theirs to publish: else this might never end.
        let mut until = last();
        // Asked again after each: a bucket whose sync failed is replaced by another one, of a higher id.
        loop {
            let next = self.state.read().unpublished().find(|id| Some(*id) <= until && !failed.contains(id));
            let Some(id) = next else { break };
            match self.publish_table(id) {
                Ok(()) if self.state.read().bucket(id).is_some() => published += 1,
                Ok(()) => until = last(),
                Err(error) => {
                    failed.insert(id);
                    // That another call is at one of them is the least of what may be wrong.
                    if first_error.as_ref().is_none_or(|first: &StoreError| first.kind() == StoreErrorKind::Busy) {
                        first_error = Some(error);
                    }
                }
            }
        }
        first_error.map_or(Ok(published), Err)
    }

    /// Tombstones, durably, what newer objects have replaced, in at most `most` tables, and gives how many were written. Deletes and evictions
    /// do so where they must; done in the caller's maintenance, they find it done.
    ///
    /// # Errors
    /// `READ_ONLY`. As the disk says, for the first table that failed; the others were tried all the same.
    pub fn bury_superseded(&self, most: usize) -> Result<usize, StoreError> {
        self.health.check()?;
        let tables: Vec<_> = {
            let state = self.state.read();
            let ready = |id: &BucketId| state.publication(*id).is_some_and(|it| !it.tombstoned.is_empty());
            // What a tombstone covers is hidden by now, and waits for the same.
            let tables: BTreeSet<_> = state.with_superseded().chain(state.owed_tables()).collect();
            tables.into_iter().filter(ready).take(most).collect()
        };
        let results: Vec<_> = tables.into_iter().map(|id| self.publish_table(id)).collect();
        let written = results.iter().filter(|result| result.is_ok()).count();
        results.into_iter().collect::<Result<(), _>>().map(|()| written)
    }
}
