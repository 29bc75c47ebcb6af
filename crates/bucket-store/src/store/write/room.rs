//! Owns the question whether there is room for a write, asked before anything is created. What other calls are about to write counts as
//! written, and what they have written counts once.

use std::collections::BTreeMap;

use super::super::Store;
use super::super::open::INTENT_BYTES;
use super::plan::Planned;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::names::BucketId;
use crate::sync::Mutex;

/// Blocks are counted in this many bytes.
const BLOCK_BYTES: u64 = 4096;

/// The bytes of the blocks that hold so many bytes.
pub(in crate::store) const fn in_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES)
}

/// What is promised to calls that have been let in. The file system and the counter of physical bytes are asked under its lock, and bytes go from
/// here to there under it, so that no byte is counted twice or not at all.
#[derive(Debug, Default)]
pub(in crate::store) struct Room(Mutex<Promised>);

#[derive(Debug, Default)]
struct Promised {
    /// Data of running writes whose file has no blocks yet.
    data: u64,
    /// Tables of running writes that are not in place yet. While one is being published it is counted on both sides.
    tables: u64,
    /// Tables of buckets that are in the index and wait to be published.
    waiting: BTreeMap<BucketId, u64>,
}

/// Room that one call has taken; what is left of it when it is dropped is free again.
#[derive(Debug)]
pub(super) struct Taken<'s> {
    room: &'s Room,
    data: u64,
    tables: u64,
}

impl Store {
    /// Takes room for these buckets and their tables, beside the reserve, which is whole from now on.
    ///
    /// # Errors
    /// `NO_SPACE`, `RESERVE_MISSING`; as the disk says. Nothing was taken.
    pub(super) fn take_room(&self, plan: &[Planned]) -> Result<Taken<'_>, StoreError> {
        let largest_table = plan.iter().map(|planned| planned.table_len).max().unwrap_or(0);
        self.reserve.cover(&*self.vfs, largest_table, INTENT_BYTES, &*self.observer)?;
        let data: u64 = plan.iter().map(|planned| in_blocks(planned.data_len)).sum();
        let tables: u64 = plan.iter().map(|planned| in_blocks(planned.table_len)).sum();
        // The first numbers of a directory need a file for what they leave.
        let numbers = if self.numbers.are_unwritten() { BLOCK_BYTES } else { 0 };
        let mut promised = self.room.0.lock();
        {
            let state = self.state.read();
            promised.waiting.retain(|id, _| state.bucket(*id).is_some_and(|bucket| !bucket.is_published()));
        }
        let space = self.vfs.space().map_err(|error| StoreError::io(DiskOp::Stat, "the file system", error))?;
        let needed = data + tables + numbers;
        let free = space.free_bytes.saturating_sub(promised.on_disk());
        if needed > free {
            return Err(Problem::NoSpace { what: "the buckets of this write", needed, free }.into());
        }
        let left = self.config.capacity_bytes.saturating_sub(self.physical.get()).saturating_sub(promised.data);
        if data > left {
            let what = "the buckets of this write, within capacity_bytes";
            return Err(Problem::NoSpace { what, needed: data, free: left }.into());
        }
        promised.data += data;
        promised.tables += tables;
        Ok(Taken { room: &self.room, data, tables })
    }

    /// Bytes that the file system will be asked for by writes that have been let in.
    pub(crate) fn promised_bytes(&self) -> u64 {
        self.room.0.lock().on_disk()
    }
}

impl Room {
    /// What waits to be published is in another bucket now.
    pub(in crate::store) fn moved(&self, from: BucketId, to: BucketId) {
        let mut promised = self.0.lock();
        if let Some(bytes) = promised.waiting.remove(&from) {
            promised.waiting.insert(to, bytes);
        }
    }
}

impl Promised {
    fn on_disk(&self) -> u64 {
        self.data + self.tables + self.waiting.values().sum::<u64>()
    }
}

impl Taken<'_> {
    /// A data file of that length takes its blocks, and is counted among the physical bytes: in `take`, and from then on no longer here.
    pub(super) fn takes<T>(&mut self, data_len: u64, take: impl FnOnce() -> T) -> T {
        let mut promised = self.room.0.lock();
        let blocks = in_blocks(data_len).min(self.data);
        self.data -= blocks;
        promised.data -= blocks;
        take()
    }

    /// A data file that had its blocks goes, in `remove`, and its data will be written once more: nobody else is let in between.
    pub(super) fn again(&mut self, data_len: u64, remove: impl FnOnce()) {
        let mut promised = self.room.0.lock();
        let blocks = in_blocks(data_len);
        self.data += blocks;
        promised.data += blocks;
        remove();
    }

    /// A table of that length is in place.
    pub(super) fn table_taken(&mut self, table_len: u64) {
        self.give_table(&mut self.room.0.lock(), table_len);
    }

    /// A table of that length will be published later, by whomever. Its bucket is in the index.
    pub(super) fn table_waits(&mut self, bucket: BucketId, table_len: u64) {
        let mut promised = self.room.0.lock();
        let blocks = self.give_table(&mut promised, table_len);
        promised.waiting.insert(bucket, blocks);
    }

    fn give_table(&mut self, promised: &mut Promised, table_len: u64) -> u64 {
        let blocks = in_blocks(table_len).min(self.tables);
        self.tables -= blocks;
        promised.tables -= blocks;
        blocks
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut promised = self.room.0.lock();
        promised.data -= self.data;
        promised.tables -= self.tables;
    }
}
