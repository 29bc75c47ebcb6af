//! Owns the question whether there is room for a write, asked before anything is created. What other calls are about to write counts as
//! written.

use super::super::Store;
use super::super::open::INTENT_BYTES;
use super::plan::Planned;
use crate::error::{DiskOp, Problem, StoreError};
use crate::sync::Mutex;

/// Blocks are counted in this many bytes.
const BLOCK_BYTES: u64 = 4096;

/// Bytes that running writes will need. The file system is asked under its lock, so that two calls do not take the same room.
#[derive(Debug, Default)]
pub(in crate::store) struct Room(Mutex<u64>);

/// Room that one call has taken, until it is dropped.
#[derive(Debug)]
pub(super) struct Taken<'s> {
    room: &'s Room,
    bytes: u64,
}

impl Store {
    /// Takes room for these buckets and their tables, beside the reserve, which is whole from now on.
    ///
    /// # Errors
    /// `NO_SPACE`, `RESERVE_MISSING`; as the disk says. Nothing was taken.
    pub(super) fn take_room(&self, plan: &[Planned]) -> Result<Taken<'_>, StoreError> {
        let largest_table = plan.iter().map(|planned| planned.table_len).max().unwrap_or(0);
        self.reserve.cover(&*self.vfs, largest_table, INTENT_BYTES, &*self.observer)?;
        let in_blocks = |bytes: u64| bytes.next_multiple_of(BLOCK_BYTES);
        let data: u64 = plan.iter().map(|planned| in_blocks(planned.data_len)).sum();
        let tables: u64 = plan.iter().map(|planned| in_blocks(planned.table_len)).sum();
        let mut taken = self.room.0.lock();
        let space = self.vfs.space().map_err(|error| StoreError::io(DiskOp::Stat, "the file system", error))?;
        let (bytes, free) = (data + tables, space.free_bytes.saturating_sub(*taken));
        if bytes > free {
            return Err(Problem::NoSpace { what: "the buckets of this write", needed: bytes, free }.into());
        }
        let left = self.config.capacity_bytes.saturating_sub(self.physical.get()).saturating_sub(*taken);
        if data > left {
            let what = "the buckets of this write, within capacity_bytes";
            return Err(Problem::NoSpace { what, needed: data, free: left }.into());
        }
        *taken += bytes;
        Ok(Taken { room: &self.room, bytes })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.room.0.lock() -= self.bytes;
    }
}
