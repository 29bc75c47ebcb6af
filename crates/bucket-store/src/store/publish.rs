//! Owns how data that was written without a sync becomes durable: sync, then table, per bucket; and what becomes of it when the sync
//! fails. What a table says is `state::burial`'s, how it gets to disk `publish_table`'s.

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::Arc;

use super::Store;
use super::bucket::{Bucket, BucketFile, PublishState};
use super::read::Piece;
use super::state::{Location, Moved, Replacement};
use crate::crashsafe;
use crate::error::{DiskOp, StoreError};
use crate::format::names::BucketId;
use crate::format::record::RecordHeader;
use crate::format::table::Slot;
use crate::observer::Event;

/// Whether a bucket's data is durable now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataSync {
    /// It is: a table may name it.
    Durable,
    /// It was lost to a failed sync and written anew, durably, into another bucket: this one is not in the index any more.
    Replaced,
}

impl Store {
    /// Makes everything durable that was written with [`Durability::Relaxed`](crate::Durability::Relaxed) and is not yet. To be called from the
    /// caller's maintenance now and then. Gives how many buckets became durable.
    ///
    /// # Errors
    /// `READ_ONLY`. As the disk says, for the first bucket that failed; the others were tried all the same. Objects of a bucket whose
    /// data could not be written at all are gone, and an event says so.
    pub fn publish_pending(&self) -> Result<usize, StoreError> {
        self.health.check()?;
        let (mut published, mut failed, mut first_error) = (0, BTreeSet::new(), None);
        // Asked again after each: a bucket whose sync failed is replaced by another one.
        loop {
            let next = self.state.read().unpublished().find(|id| !failed.contains(id));
            let Some(id) = next else { break };
            match self.publish_table(id) {
                Ok(()) => published += usize::from(self.state.read().bucket(id).is_some()),
                Err(error) => {
                    failed.insert(id);
                    first_error.get_or_insert(error);
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
            state.with_superseded().filter(ready).take(most).collect()
        };
        let results: Vec<_> = tables.into_iter().map(|id| self.publish_table(id)).collect();
        let written = results.iter().filter(|result| result.is_ok()).count();
        results.into_iter().collect::<Result<(), _>>().map(|()| written)
    }

    /// Makes the data of a bucket durable before its table names it. Called with its `publish` lock held, and with the bucket in the index.
    ///
    /// # Errors
    /// As the disk says. If the data could neither be synced nor written anew, the bucket is lost, and no longer in the index.
    pub(crate) fn sync_data_of(
        &self,
        bucket: &Arc<Bucket>,
        publishing: &mut PublishState,
    ) -> Result<DataSync, StoreError> {
        if publishing.data_synced {
            return Ok(DataSync::Durable);
        }
        let name = bucket.id.data_name();
        let Err(error) = bucket.file.file().sync_data() else {
            self.make_names_durable(&[name])?;
            publishing.data_synced = true;
            if let Ok(bytes) = bucket.file.file().allocated_bytes() {
                bucket.file.set_allocated_bytes(bytes);
            }
            return Ok(DataSync::Durable);
        };
        publishing.data_lost = true;
        self.health.failed(DiskOp::Sync, &name, &error, &*self.observer);
        self.observer.event(&Event::DiskFailed { error: StoreError::io(DiskOp::Sync, name, error) });
        let rewritten = self.write_anew(bucket);
        if rewritten.is_err() {
            let lost = self.state.write().lose_unpublished(bucket.id);
            drop(lost);
        }
        self.unlink_data(bucket.id);
        let retired = self.state.write().forget_retired(bucket.id);
        drop(retired);
        rewritten.map(|()| DataSync::Replaced)
    }

    /// Makes the names of data files durable before any table names them: no power loss leaves a table alone, which nobody could tell from
    /// one whose data was lost. Repeated once.
    pub(super) fn make_names_durable(&self, names: &[String]) -> Result<(), StoreError> {
        let attempt = || {
            for name in names.iter().filter(|name| !self.vfs.is_vouched(name)) {
                self.vfs.renew(name).map_err(|error| (DiskOp::Rename, name, error))?;
            }
            let Some(last) = names.last() else { return Ok(()) };
            self.vfs.sync_dir().map_err(|error| (DiskOp::SyncDir, last, error))?;
            names
                .iter()
                .try_for_each(|name| crashsafe::vouch(&*self.vfs, name).map_err(|error| (DiskOp::SyncDir, name, error)))
        };
        match attempt().or_else(|_| attempt()) {
            Ok(()) => {
                self.health.succeeded();
                Ok(())
            }
            Err((op, name, error)) => {
                self.health.failed(op, name, &error, &*self.observer);
                Err(StoreError::io(op, &**name, error))
            }
        }
    }

    /// Writes the same records into a new file, from what can still be read of the old one, and syncs that.
    fn write_anew(&self, bucket: &Bucket) -> Result<(), StoreError> {
        let slots: Vec<Slot> = {
            let state = self.state.read();
            state.bucket(bucket.id).map(|state| state.slots().iter().map(|entry| entry.to_slot(false)).collect())
        }
        .unwrap_or_default();
        let id = self.next_bucket_id()?;
        let name = id.data_name();
        let failed = |op| {
            let name = name.clone();
            move |error| StoreError::io(op, name, error)
        };
        let file = self.vfs.create(&name).map_err(failed(DiskOp::Create))?;
        let file = BucketFile::new(file, 0, &self.physical);
        let copied = slots.iter().try_for_each(|slot| {
            let value =
                Piece::whole(bucket.layout, slot).read(bucket.file.file()).map_err(|fault| fault.of(bucket.id))?;
            let mut header = Vec::new();
            RecordHeader::of(slot).encode_into(&value, &mut header);
            let both = [IoSlice::new(&header), IoSlice::new(&value)];
            file.file().write_all_vectored_at(&both, slot.offset).map_err(failed(DiskOp::Write))
        });
        let synced = copied.and_then(|()| file.file().sync_data().map_err(failed(DiskOp::Sync)));
        if let Err(error) = synced.and_then(|()| self.make_names_durable(&[name])) {
            drop(file);
            self.unlink_data(id);
            return Err(error);
        }
        file.set_allocated_bytes(file.file().allocated_bytes().unwrap_or(bucket.data_len));
        let moved = (0u32..).zip(slots).map(|(slot, to)| Moved { from: Location { bucket: bucket.id, slot }, to });
        let slots = moved.collect();
        let new = Bucket::new((id, bucket.layout, id.0, bucket.data_len), file, true);
        self.state.write().replace_unpublished(bucket.id, Replacement { bucket: new, slots });
        Ok(())
    }
}
