//! Owns what a directory holds: the records of each bucket, and what each of them is by the store's own index.

use std::io;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use super::look::{Look, Standing};
use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Slot, Table};
use crate::store::bucket::{Bucket, BucketFile, PhysicalBytes};
use crate::store::state::{SlotState, State};
use crate::vfs::VfsFile;

/// Every bucket in id order.
#[derive(Debug, Default)]
pub struct Contents {
    /// The buckets.
    pub buckets: Vec<BucketContents>,
    /// Pairs of buckets in which one object is live at once (row B12), the one that is served last.
    pub twice: Vec<(RecordLook, RecordLook)>,
    pub(super) index: State,
}

/// One bucket.
#[derive(Clone, Debug)]
pub struct BucketContents {
    /// Its number.
    pub id: BucketId,
    /// What a store makes of it.
    pub standing: Standing,
    /// How its records are laid out; `None` where the table says nothing.
    pub layout: Option<RecordLayout>,
    /// Its place in the order of eviction.
    pub age: Option<u64>,
    /// Bytes of the data file by the table, or of the file where there is no table.
    pub data_len: u64,
    /// Bytes of the blocks of the data file.
    pub allocated_bytes: u64,
    /// Its records in the order of their offsets.
    pub records: Vec<RecordLook>,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordLook {
    /// `tenant 0x00 user-key`.
    pub key: Arc<[u8]>,
    /// The object's name for all time.
    pub incarnation: ObjectIncarnation,
    /// The order among the records of a key.
    pub write_number: u64,
    /// Its bucket.
    pub bucket: BucketId,
    /// Where it begins in the data file.
    pub offset: u64,
    /// Bytes of the whole record.
    pub record_len: u64,
    /// Bytes of the value.
    pub value_len: u32,
    /// What it is.
    pub state: RecordState,
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordState {
    /// The newest of its key: it is served.
    Live,
    /// A newer record of the key is served.
    Superseded,
    /// Deleted for ever.
    Tombstoned,
    /// Its bucket is not served.
    Unserved,
}

impl RecordState {
    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Superseded => "superseded",
            Self::Tombstoned => "tombstoned",
            Self::Unserved => "unserved",
        }
    }
}

/// A number of records and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Records.
    pub records: u64,
    /// Their bytes, headers and checksums included.
    pub bytes: u64,
}

impl BucketContents {
    /// Its records of that state.
    #[must_use]
    pub fn amount(&self, state: RecordState) -> Amount {
        let mut sum = Amount::default();
        for record in self.records.iter().filter(|record| record.state == state) {
            sum.records += 1;
            sum.bytes += record.record_len;
        }
        sum
    }

    /// Bytes of the data file that belong to no live record.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        self.data_len.saturating_sub(self.amount(RecordState::Live).bytes)
    }
}

impl Contents {
    /// All that is served.
    #[must_use]
    pub fn live(&self) -> Amount {
        self.amount(RecordState::Live)
    }

    /// Bytes of all data files by their tables. A table whose data file is missing may claim anything, so sums stop at the greatest number.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.sum(|bucket| bucket.data_len)
    }

    /// Bytes that belong to no live record.
    #[must_use]
    pub fn dead_bytes(&self) -> u64 {
        self.sum(BucketContents::dead_bytes)
    }

    /// Bytes of the blocks of all data files.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.sum(|bucket| bucket.allocated_bytes)
    }

    fn sum(&self, bytes: impl Fn(&BucketContents) -> u64) -> u64 {
        self.buckets.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// All records of that state.
    #[must_use]
    pub fn amount(&self, state: RecordState) -> Amount {
        self.buckets.iter().map(|bucket| bucket.amount(state)).fold(Amount::default(), |sum, one| Amount {
            records: sum.records + one.records,
            bytes: sum.bytes + one.bytes,
        })
    }
}

pub(super) fn contents(look: &Look) -> Contents {
    let physical = PhysicalBytes::default();
    let graves = look.graves.as_ref().and_then(|graves| graves.as_ref().ok()).cloned().unwrap_or_default();
    let (mut index, mut twice) = (State::with_graves(graves), Vec::new());
    for (id, bucket) in &look.buckets {
        let (Some(Ok(table)), Standing::Served) = (&bucket.table, bucket.standing(*id)) else { continue };
        let file = BucketFile::new(Arc::new(Unread), bucket.allocated_bytes(), &physical);
        let place = (*id, table.layout, table.age, table.data_len);
        twice.extend(index.insert(Bucket::new(place, file, true), table.slots.clone(), true));
    }
    let mut buckets = Vec::with_capacity(look.buckets.len());
    for (id, bucket) in &look.buckets {
        let table = bucket.table.as_ref().and_then(|table| table.as_ref().ok());
        let file_len = bucket.data.as_ref().and_then(|data| data.as_ref().ok()).map_or(0, |data| data.len);
        buckets.push(BucketContents {
            id: *id,
            standing: bucket.standing(*id),
            layout: table.map(|table| table.layout),
            age: table.map(|table| table.age),
            data_len: table.map_or(file_len, |table| table.data_len),
            allocated_bytes: bucket.allocated_bytes(),
            records: table.map(|table| records(table, &index)).unwrap_or_default(),
        });
    }
    let at = |bucket: BucketId, slot: u32| {
        let at = buckets.binary_search_by_key(&bucket, |bucket| bucket.id).ok()?;
        buckets[at].records.get(slot as usize).cloned()
    };
    let twice = twice.into_iter().filter_map(|(a, b)| Some((at(a.bucket, a.slot)?, at(b.bucket, b.slot)?))).collect();
    Contents { buckets, twice, index }
}

fn records(table: &Table, index: &State) -> Vec<RecordLook> {
    let served = index.bucket(table.bucket).map(|bucket| bucket.slots());
    let look = |(at, slot): (usize, &Slot)| RecordLook {
        key: Arc::clone(&slot.key),
        incarnation: slot.incarnation,
        write_number: slot.write_number,
        bucket: table.bucket,
        offset: slot.offset,
        record_len: slot.record_len(table.layout),
        value_len: slot.value_len,
        state: match served.and_then(|slots| slots.get(at)).map(|slot| slot.state()) {
            Some(SlotState::Live | SlotState::Damaged) => RecordState::Live,
            Some(SlotState::Superseded | SlotState::Hidden) => RecordState::Superseded,
            Some(SlotState::Tombstoned) => RecordState::Tombstoned,
            None => RecordState::Unserved,
        },
    };
    table.slots.iter().enumerate().map(look).collect()
}

/// Stands for the data file in an index that nobody reads through.
#[derive(Debug)]
struct Unread;

impl VfsFile for Unread {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
