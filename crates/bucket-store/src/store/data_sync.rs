//! Owns how the data of a bucket becomes durable before a table names it, and what becomes of it when its sync fails. It publishes no
//! table: `publish_table` does.
//!
//! ```text
//! lock of the table ─► sync ─► durable ─► table
//!                       └► lost: unlock ─► the records into a new file ─► sync ─► lock, and swap with what happened meanwhile
//!                                               deletes hide, reads read, nobody waits for it
//! ```

use std::io::IoSlice;
use std::sync::Arc;

use super::Store;
use super::bucket::{Bucket, BucketFile, PublishState, TableLock};
use super::read::Piece;
use super::state::{Location, Moved, Replacement};
use super::write::in_blocks;
use crate::crashsafe;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::names::BucketId;
use crate::format::record::RecordHeader;
use crate::format::table::Slot;
use crate::observer::Event;

/// What became of a bucket's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataSync {
    /// It is durable: a table may name it.
    Durable,
    /// Its sync failed. The caller, and nobody else, lets go of the table and calls [`Store::write_anew`].
    Lost,
}

impl Store {
    /// Makes the data of a bucket durable before its table names it. Called with its `publish` lock held, and with the bucket in the index.
    ///
    /// # Errors
    /// `DATA_BUSY` if its sync has failed and another call is writing it anew; as the disk says.
    pub(super) fn sync_data_of(
        &self,
        bucket: &Arc<Bucket>,
        publishing: &mut PublishState,
    ) -> Result<DataSync, StoreError> {
        if publishing.data_synced {
            return Ok(DataSync::Durable);
        }
        if publishing.data_lost {
            return Err(Problem::DataBusy { bucket: bucket.id }.into());
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
        Ok(DataSync::Lost)
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

    /// Replaces a bucket whose data was lost to a failed sync by another one with the same records, durable but for its table: that is
    /// published like any other. What is deleted, replaced or found damaged while the records are copied is so in the new one.
    ///
    /// Called without any lock, by the one whose [`Store::sync_data_of`] said so: until this ends the bucket is in the index, unpublished, and
    /// whoever wants its table is told that it is busy. GC never takes such a bucket, so nothing else can make it leave.
    ///
    /// # Errors
    /// As the disk says. The bucket is lost then, and no longer in the index.
    pub(super) fn write_anew(&self, bucket: &Arc<Bucket>) -> Result<(), StoreError> {
        let copied = self.copy_anew(bucket);
        // The table is locked for the swap only: nobody decides about the bucket in between.
        let publishing = bucket.publish.lock();
        let (result, left_over) = {
            let mut state = self.state.write();
            let is_here = state.bucket(bucket.id).is_some_and(|it| Arc::ptr_eq(it.bucket(), bucket));
            debug_assert!(is_here, "bucket {} left the index while it was written anew", bucket.id);
            match copied {
                Ok(new) if is_here => {
                    let id = new.bucket.id;
                    state.replace_unpublished(bucket.id, new);
                    (Ok(Some(id)), None)
                }
                Ok(new) => (Ok(None), Some(new)),
                Err(error) => {
                    let lost = if is_here { state.lose_unpublished(bucket.id) } else { None };
                    drop(state);
                    drop(lost);
                    (Err(error), None)
                }
            }
        };
        drop(publishing);
        if let Ok(Some(id)) = result {
            self.room.moved(bucket.id, id);
        }
        if let Some(Replacement { bucket: new, .. }) = left_over {
            self.remove_data(new.id, Arc::clone(&new.file));
        }
        self.remove_data(bucket.id, Arc::clone(&bucket.file));
        let retired = self.state.write().forget_retired(bucket.id);
        drop(retired);
        result.map(drop)
    }

    /// Copies the records into a new file, from what can still be read of the old one, and makes that durable: as long as it takes, so with
    /// no lock held.
    fn copy_anew(&self, bucket: &Arc<Bucket>) -> Result<Replacement, StoreError> {
        TableLock::debug_assert_none_is_held();
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
        // Counted from the begin: what it will occupy nobody else shall.
        let file = BucketFile::new(file, in_blocks(bucket.data_len), &self.physical);
        let allocated = file.file().allocate(bucket.data_len).map_err(failed(DiskOp::Allocate));
        let copy = |slot: &Slot| {
            let value =
                Piece::whole(bucket.layout, slot).read(bucket.file.file()).map_err(|fault| fault.of(bucket.id))?;
            let mut header = Vec::new();
            RecordHeader::of(slot).encode_into(&value, &mut header);
            let both = [IoSlice::new(&header), IoSlice::new(&value)];
            file.file().write_all_vectored_at(&both, slot.offset).map_err(failed(DiskOp::Write))
        };
        let copied = allocated.and_then(|()| slots.iter().try_for_each(copy));
        let synced = copied.and_then(|()| self.sync_copy(id, &file));
        if let Err(error) = synced {
            self.remove_data(id, file);
            return Err(error);
        }
        if let Ok(bytes) = file.file().allocated_bytes() {
            file.set_allocated_bytes(bytes);
        }
        let moved = (0u32..).zip(slots).map(|(slot, to)| Moved { from: Location { bucket: bucket.id, slot }, to });
        let slots = moved.collect();
        Ok(Replacement { bucket: Bucket::new((id, bucket.layout, id.0, bucket.data_len), file, true), slots })
    }

    fn sync_copy(&self, id: BucketId, file: &BucketFile) -> Result<(), StoreError> {
        let name = id.data_name();
        if let Err(error) = file.file().sync_data() {
            self.health.failed(DiskOp::Sync, &name, &error, &*self.observer);
            return Err(StoreError::io(DiskOp::Sync, name, error));
        }
        self.make_names_durable(&[name])
    }
}
