//! Owns what a record says of itself beside its entries, and a record that is ready to be stored.

use bytes::Bytes;
use ha_types::{BatchId, Epoch, Seq};

use super::layout::{MAX_BATCH_ENTRIES, MAX_BODY_BYTES};

/// The numbers of one batch record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Its id; 1 is the first.
    pub batch_id: BatchId,
    /// The sequence of its first entry; the others follow by one.
    pub first_seq: Seq,
    /// The epoch under which it is written; never 0.
    pub epoch: Epoch,
    /// The CRC of the batch record before it; 0 for batch 1.
    pub prev_crc: u32,
    /// When it was sealed, in milliseconds since the Unix epoch by the writer's wall clock; for people.
    pub timestamp_ms: u64,
}

impl BatchHeader {
    /// The sequence of the last of `count` entries.
    pub(super) fn last_seq(&self, count: usize) -> Option<Seq> {
        let steps = u64::try_from(count).ok()?.checked_sub(1)?;
        self.first_seq.checked_add(steps).filter(|last| last.get() != u64::MAX)
    }

    /// The first field that cannot be, with what it must be.
    pub(super) fn fault(&self) -> Option<(&'static str, &'static str, u64)> {
        let room = "a number above 0 that leaves room for the next one";
        let fields =
            [("batch_id", self.batch_id.get()), ("first_seq", self.first_seq.get()), ("epoch", self.epoch.get())];
        let bad = fields.into_iter().find(|(_, value)| matches!(*value, 0 | u64::MAX));
        if let Some((field, value)) = bad {
            return Some((field, room, value));
        }
        if self.first_seq.get() < self.batch_id.get() {
            return Some(("first_seq", "at least the batch id, as every batch has an entry", self.first_seq.get()));
        }
        if self.batch_id.get() == 1 && self.prev_crc != 0 {
            return Some(("prev_crc", "0 in batch 1", u64::from(self.prev_crc)));
        }
        None
    }
}

/// A batch record ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedRecord {
    /// The record, as it is stored.
    pub bytes: Bytes,
    /// Its length in bytes with a raw body.
    pub raw_bytes: usize,
    /// Its CRC: what the next record names as `prev_crc`.
    pub crc: u32,
    /// The sequence of its last entry.
    pub last_seq: Seq,
    /// How many entries it has.
    pub count: usize,
}

/// Why a batch could not be sealed. It is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It has no entry.
    #[error("a batch without an entry cannot be sealed; push one first")]
    Empty,
    /// A number of the header cannot be.
    #[error("{field} of a batch must be {expected}; it is {found}")]
    Header {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: u64,
    },
    /// The last sequence would be at the end of the numbers.
    #[error("{count} entries from sequence {first_seq} leave no room for the next one")]
    OutOfSequences {
        /// The first sequence.
        first_seq: Seq,
        /// How many entries.
        count: usize,
    },
    /// The body is above the format's limit.
    #[error(
        "a body of {bytes} bytes is above {MAX_BODY_BYTES}; seal earlier (a batch has at most {MAX_BATCH_ENTRIES} entries)"
    )]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
    },
}
