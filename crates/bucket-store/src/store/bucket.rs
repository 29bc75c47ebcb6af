//! Owns a bucket as the running store knows it: its open file with the pin that readers hold, and the lock of its table. What its
//! slots are is `state`'s.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::format::names::BucketId;
use crate::format::table::RecordLayout;
use crate::sync::{AtomicU64, Mutex, MutexGuard, thread_local};
use crate::vfs::VfsFile;

/// A bucket that is served. Its slots and counters are in [`super::state::BucketState`], under the index lock.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Its number.
    pub(crate) id: BucketId,
    /// How its records are laid out.
    pub(crate) layout: RecordLayout,
    /// Its place in the order of age.
    pub(crate) age: u64,
    /// Bytes of the data file.
    pub(crate) data_len: u64,
    /// The open data file; a clone of this `Arc`, taken under the index lock, is a reader's pin.
    pub(crate) file: Arc<BucketFile>,
    /// Held while the table is published. Taken before the index lock, several in id order.
    pub(crate) publish: TableLock,
}

/// What whoever publishes a table must know, under the bucket's `publish` lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublishState {
    /// The data file's bytes are durable: a table may name them.
    pub(crate) data_synced: bool,
    /// A sync of the data file failed: never called again on that descriptor, and no table may ever name these bytes. Whoever found it so
    /// is writing them anew.
    pub(crate) data_lost: bool,
}

/// The lock of a bucket's table.
///
/// It may be held over the sync and the publish of one bucket, which whoever wants the table would have to wait for anyway, and never over a
/// copy of data: debug builds count the locks of each thread, and check.
#[derive(Debug)]
pub(crate) struct TableLock(Mutex<PublishState>);

/// A table that is locked, until it is dropped.
#[derive(Debug)]
pub(crate) struct TableGuard<'b>(MutexGuard<'b, PublishState>);

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

impl TableLock {
    /// Waits for it.
    pub(crate) fn lock(&self) -> TableGuard<'_> {
        TableGuard::of(self.0.lock())
    }

    /// Takes it if nobody has it.
    #[cfg(test)]
    pub(crate) fn try_lock(&self) -> Option<TableGuard<'_>> {
        self.0.try_lock().map(TableGuard::of)
    }

    /// To be called where data is copied.
    pub(crate) fn debug_assert_none_is_held() {
        debug_assert_eq!(HELD.with(Cell::get), 0, "a table is locked while data is copied");
    }
}

impl<'b> TableGuard<'b> {
    fn of(guard: MutexGuard<'b, PublishState>) -> Self {
        HELD.with(|held| held.set(held.get() + 1));
        Self(guard)
    }
}

impl Deref for TableGuard<'_> {
    type Target = PublishState;

    fn deref(&self) -> &PublishState {
        &self.0
    }
}

impl DerefMut for TableGuard<'_> {
    fn deref_mut(&mut self) -> &mut PublishState {
        &mut self.0
    }
}

impl Drop for TableGuard<'_> {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

impl Bucket {
    /// A bucket over an open file.
    pub(crate) fn new(
        (id, layout, age, data_len): (BucketId, RecordLayout, u64, u64),
        file: Arc<BucketFile>,
        data_synced: bool,
    ) -> Arc<Self> {
        let publish = TableLock(Mutex::new(PublishState { data_synced, data_lost: false }));
        Arc::new(Self { id, layout, age, data_len, file, publish })
    }
}

/// Bytes of blocks that bucket files occupy, unlinked ones that a reader still pins included.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhysicalBytes {
    all: Arc<AtomicU64>,
    out_of_reach: Arc<AtomicU64>,
}

impl PhysicalBytes {
    /// The bytes now.
    pub(crate) fn get(&self) -> u64 {
        self.all.load(Relaxed)
    }

    /// Those among them that stay as long as the store is open, whatever GC does.
    pub(crate) fn out_of_reach(&self) -> u64 {
        self.out_of_reach.load(Relaxed)
    }

    /// Takes up bytes that no [`BucketFile`] stands for: files that are kept but not served, and such as cannot be taken away.
    pub(crate) fn add_out_of_reach(&self, bytes: u64) {
        self.add(bytes);
        self.out_of_reach.fetch_add(bytes, Relaxed);
    }

    fn add(&self, bytes: u64) {
        self.all.fetch_add(bytes, Relaxed);
    }

    fn sub(&self, bytes: u64) {
        let before = self.all.fetch_sub(bytes, Relaxed);
        debug_assert!(before >= bytes, "physical bytes fell below zero: {before} - {bytes}");
    }
}

/// An open data file. While anything holds it, its blocks are occupied, whether it still has a name or not; dropping the last
/// handle closes it and then takes its bytes off.
#[derive(Debug)]
pub(crate) struct BucketFile {
    /// `None` only inside `drop`.
    file: Option<Arc<dyn VfsFile>>,
    allocated: AtomicU64,
    physical: PhysicalBytes,
}

impl BucketFile {
    /// Stands for `file`, whose blocks have `allocated_bytes`, from now on.
    pub(crate) fn new(file: Arc<dyn VfsFile>, allocated_bytes: u64, physical: &PhysicalBytes) -> Arc<Self> {
        physical.add(allocated_bytes);
        Arc::new(Self { file: Some(file), allocated: AtomicU64::new(allocated_bytes), physical: physical.clone() })
    }

    /// The file. Never keep a clone of it: only `BucketFile`s are counted.
    pub(crate) fn file(&self) -> &dyn VfsFile {
        match &self.file {
            Some(file) => &**file,
            None => unreachable!("only drop takes the file"),
        }
    }

    /// The bytes that it is counted with.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        self.allocated.load(Relaxed)
    }

    /// Counts it with `bytes` from now on: it has grown, or its blocks were measured anew.
    pub(crate) fn set_allocated_bytes(&self, bytes: u64) {
        let before = self.allocated.swap(bytes, Relaxed);
        self.physical.add(bytes);
        self.physical.sub(before);
    }
}

impl Drop for BucketFile {
    fn drop(&mut self) {
        self.file = None;
        self.physical.sub(self.allocated_bytes());
    }
}
