//! Owns one record as the index knows it: where it lies, what it is, and how many bytes it takes. No rule of how it may change.

use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Slot, Tombstone};

/// Where a record is. Stays true while its bucket is in the index: slots never move inside a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Location {
    /// The bucket.
    pub(crate) bucket: BucketId,
    /// The slot's position in the table.
    pub(crate) slot: u32,
}

/// What a record is to the store. RFC *bucket deletion* §4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SlotState {
    /// The newest of its key, and served. At most one record of a key is.
    Live,
    /// A delete has begun, or a tombstone was found that covers it: never served again, not yet durable. Never goes back.
    Hidden,
    /// A newer record of the key exists: never served again unless that one is lost before it was durable.
    Superseded,
    /// The table on disk says that it is deleted.
    Tombstoned,
    /// It did not verify when it was read: never served, and never counted as dead for that.
    Damaged,
}

impl SlotState {
    /// All of them, in the order of their counters.
    pub(crate) const ALL: [Self; 5] = [Self::Live, Self::Hidden, Self::Superseded, Self::Tombstoned, Self::Damaged];

    /// Whether its bytes are dead: GC may gain them.
    pub(crate) const fn is_dead(self) -> bool {
        matches!(self, Self::Hidden | Self::Superseded | Self::Tombstoned)
    }
}

/// One record.
#[derive(Clone, Debug)]
pub(crate) struct SlotEntry {
    /// `tenant 0x00 user-key`, shared with the index.
    pub(crate) key: Arc<[u8]>,
    /// The object's name for all time.
    pub(crate) incarnation: ObjectIncarnation,
    /// The order among the records of a key.
    pub(crate) write_number: u64,
    /// Where the record begins in the data file.
    pub(crate) offset: u64,
    /// Bytes of the value.
    pub(crate) value_len: u32,
    /// Changed by [`super::State`] only, which keeps the counters.
    pub(super) state: SlotState,
    /// What its tombstone says, once it has one.
    pub(super) tombstone: Tombstone,
}

impl SlotEntry {
    /// What it is.
    pub(crate) const fn state(&self) -> SlotState {
        self.state
    }

    /// What its tombstone says, once it has one.
    pub(crate) const fn tombstone(&self) -> Tombstone {
        self.tombstone
    }

    /// Bytes of the record in the data file.
    pub(crate) fn record_bytes(&self, layout: RecordLayout) -> u64 {
        layout.header_len(self.key.len(), self.value_len) + u64::from(self.value_len)
    }

    /// The slot of a table.
    pub(crate) fn to_slot(&self, tombstoned: bool) -> Slot {
        Slot {
            key: Arc::clone(&self.key),
            incarnation: self.incarnation,
            write_number: self.write_number,
            offset: self.offset,
            value_len: self.value_len,
            tombstone: tombstoned.then_some(self.tombstone),
        }
    }
}
