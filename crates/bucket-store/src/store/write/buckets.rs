//! Owns the life of a new bucket from an empty file to the index, and what becomes of it when a step fails.

use std::sync::Arc;

use super::super::Store;
use super::super::bucket::{Bucket, BucketFile};
use super::WriteObject;
use super::plan::Planned;
use super::records::RecordWriter;
use super::room::Taken;
use crate::crashsafe::{self, PublishError};
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::names::BucketId;
use crate::format::record::RecordHeader;
use crate::format::table::{RecordLayout, Slot, Table};
use crate::observer::Event;

/// A bucket whose data is in its file, and which nobody else knows.
#[derive(Debug)]
pub(super) struct NewBucket {
    id: BucketId,
    file: Arc<BucketFile>,
    slots: Vec<Slot>,
    planned: Planned,
    synced: bool,
}

impl NewBucket {
    fn table(&self) -> Table {
        let layout = RecordLayout::Checksummed;
        Table { bucket: self.id, layout, age: self.id.0, data_len: self.planned.data_len, slots: self.slots.clone() }
    }
}

impl Store {
    /// Writes the data of all buckets, or of none.
    pub(super) fn write_data(
        &self,
        objects: &[WriteObject<'_>],
        plan: &[Planned],
        (first_bucket, first_write): (BucketId, u64),
        room: &mut Taken<'_>,
    ) -> Result<Vec<NewBucket>, StoreError> {
        let mut written = Vec::with_capacity(plan.len());
        let mut write_number = first_write;
        for (id, planned) in (first_bucket.0..).map(BucketId).zip(plan) {
            match self.write_bucket((id, write_number), objects, planned.clone(), room) {
                Ok(new) => written.push(new),
                Err(error) => {
                    written.into_iter().for_each(|new| self.discard(new));
                    return Err(error);
                }
            }
            write_number += planned.objects.len() as u64;
        }
        Ok(written)
    }

    fn write_bucket(
        &self,
        (id, first_write): (BucketId, u64),
        objects: &[WriteObject<'_>],
        planned: Planned,
        room: &mut Taken<'_>,
    ) -> Result<NewBucket, StoreError> {
        let name = id.data_name();
        let file = self.vfs.create(&name).map_err(|error| StoreError::io(DiskOp::Create, &*name, error))?;
        // All its blocks at once: a full disk is met before a byte is written, and the disk writes faster what it need not look for a place for.
        let (file, taken) = room.takes(planned.data_len, || {
            let allocated = file.allocate(planned.data_len).map_err(|error| (DiskOp::Allocate, error));
            let bytes = file.allocated_bytes().map_err(|error| (DiskOp::Stat, error));
            let counted = BucketFile::new(file, *bytes.as_ref().unwrap_or(&0), &self.physical);
            (counted, allocated.and(bytes))
        });
        let mut slots = Vec::with_capacity(planned.objects.len());
        let written = taken.and_then(|_| {
            let mut writer = RecordWriter::new(file.file());
            for (write_number, at) in (first_write..).zip(&planned.objects) {
                let WriteObject { key, incarnation, value, .. } = objects[*at];
                let value_len = value.len() as u32;
                let header = RecordHeader { key, incarnation, write_number, value_len };
                let offset = writer.add(header, value).map_err(|error| (DiskOp::Write, error))?;
                slots.push(Slot { key: key.into(), incarnation, write_number, offset, value_len, tombstone: None });
            }
            writer.finish().map_err(|error| (DiskOp::Write, error))
        });
        match written {
            Ok(data_len) => {
                debug_assert_eq!(data_len, planned.data_len, "bucket {id} has not the length that was planned");
                Ok(NewBucket { id, file, slots, planned, synced: false })
            }
            Err((op, error)) => {
                self.remove_data(id, file);
                Err(StoreError::io(op, name, error))
            }
        }
    }

    /// Makes the data of all of them durable, then their tables, one after the other, and takes them up. When one fails, those before it
    /// are stored and those after it are not.
    pub(super) fn publish_new(
        &self,
        objects: &[WriteObject<'_>],
        written: Vec<NewBucket>,
        room: &mut Taken<'_>,
    ) -> Result<(), StoreError> {
        let mut durable = Vec::with_capacity(written.len());
        let mut left = written.into_iter();
        while let Some(new) = left.next() {
            match self.sync_new(objects, new, room) {
                Ok(new) => durable.push(new),
                Err(error) => {
                    durable.into_iter().chain(left).for_each(|new| self.discard(new));
                    return Err(error);
                }
            }
        }
        let names: Vec<_> = durable.iter().map(|new| new.id.data_name()).collect();
        if let Err(error) = self.make_names_durable(&names) {
            durable.into_iter().for_each(|new| self.discard(new));
            return Err(error);
        }
        let mut any = false;
        let mut left = durable.into_iter();
        while let Some(new) = left.next() {
            let Err(error) = self.publish_new_table(&new) else {
                room.table_taken(new.planned.table_len);
                self.take_up_new(new, true, room);
                any = true;
                continue;
            };
            left.for_each(|new| self.discard(new));
            if error.may_be_in_place() {
                // After a restart its objects may be there. So they must be here too, or a delete could call them absent (D4).
                let id = new.id;
                self.take_up_new(new, false, room);
                self.state.write().publish_failed(id);
                self.observer.event(&Event::BucketSuspect { bucket: id, reason: error.to_string() });
                any = true;
            } else {
                self.discard(new);
            }
            let PublishError { name, step, source } = error;
            let op = step.into();
            return Err(if any {
                Problem::Io { op, file: name, source }.into()
            } else {
                StoreError::io(op, name, source)
            });
        }
        Ok(())
    }

    /// One sync. If it fails the file is given up: the system may have forgotten its pages. It is written anew once, under a new name.
    fn sync_new(
        &self,
        objects: &[WriteObject<'_>],
        mut new: NewBucket,
        room: &mut Taken<'_>,
    ) -> Result<NewBucket, StoreError> {
        let first = self.sync_once(&mut new);
        let Err(error) = first else { return Ok(new) };
        self.observer.event(&Event::DiskFailed { error });
        let first_write = new.slots.first().map_or(0, |slot| slot.write_number);
        let NewBucket { id, file, planned, .. } = new;
        room.again(planned.data_len, || self.remove_data(id, file));
        let mut again = self.write_bucket((self.next_bucket_id()?, first_write), objects, planned, room)?;
        match self.sync_once(&mut again) {
            Ok(()) => Ok(again),
            Err(error) => {
                self.discard(again);
                Err(error)
            }
        }
    }

    fn sync_once(&self, new: &mut NewBucket) -> Result<(), StoreError> {
        let name = new.id.data_name();
        match new.file.file().sync_data() {
            Ok(()) => {
                self.health.succeeded();
                new.synced = true;
                Ok(())
            }
            Err(error) => {
                self.health.failed(DiskOp::Sync, &name, &error, &*self.observer);
                Err(StoreError::io(DiskOp::Sync, name, error))
            }
        }
    }

    /// Publishes the first table of a bucket; what failed is repeated once from the start, unless the disk is full.
    fn publish_new_table(&self, new: &NewBucket) -> Result<(), PublishError> {
        let name = new.id.table_name();
        let bytes = new.table().encode().map_err(|error| {
            let (name, step, source) = (name.clone(), crashsafe::Step::Write, std::io::Error::other(error));
            PublishError { name, step, source }
        })?;
        let first = match self.try_table(new.id, &bytes) {
            Err(error) if !error.is_no_space() => error,
            other => return self.told_health(other),
        };
        // If the first may be in place, so it stays, whatever the second says.
        let second = self.try_table(new.id, &bytes);
        self.told_health(second.map_err(|second| if first.may_be_in_place() { first } else { second }))
    }

    fn told_health(&self, published: Result<(), PublishError>) -> Result<(), PublishError> {
        match &published {
            Ok(()) => self.health.succeeded(),
            Err(error) => self.health.failed(error.step.into(), &error.name, &error.source, &*self.observer),
        }
        published
    }

    /// Takes a new bucket into the index: from now on its objects are served.
    pub(super) fn take_up_new(&self, new: NewBucket, published: bool, room: &mut Taken<'_>) {
        let NewBucket { id, file, slots, planned: Planned { data_len, table_len, .. }, synced } = new;
        if let Ok(bytes) = file.file().allocated_bytes() {
            file.set_allocated_bytes(bytes);
        }
        let bucket = Bucket::new((id, RecordLayout::Checksummed, id.0, data_len), file, synced);
        self.state.write().insert(bucket, slots, published);
        if !published {
            room.table_waits(id, table_len);
        }
    }

    fn discard(&self, new: NewBucket) {
        self.remove_data(new.id, new.file);
    }

    /// Takes away a data file that no table names. If that fails, the next open does it, and until then its blocks are counted (row B13).
    pub(in crate::store) fn remove_data(&self, id: BucketId, file: Arc<BucketFile>) {
        let name = id.data_name();
        if let Err(error) = self.vfs.unlink(&name) {
            self.physical.add_out_of_reach(file.allocated_bytes());
            self.observer.event(&Event::DiskFailed { error: StoreError::io(DiskOp::Unlink, name, error) });
        }
    }
}
