//! Owns one entry of the legacy log: what it holds, and what of an entry that format can carry. Reads no store.

mod decode;
mod encode;
mod error;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use ha_types::{Epoch, ObjectKey, OpType, Seq, TenantId};
use twox_hash::XxHash32;

use crate::{EntryRef, NewEntry};

pub(super) use error::excerpt;
pub use error::{LegacyEntryError, LegacyProblem};

/// One entry of the legacy per-entry log (RFC hot standby §4, `docs/formats/legacy-entry.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyEntry {
    /// Its place in the log.
    pub seq: Seq,
    /// Milliseconds of its writer's steady clock: never a date.
    pub timestamp_ms: u64,
    /// What it does, 1 to 7.
    pub op_type: u8,
    /// The tenant.
    pub tenant: String,
    /// The key. That format holds text only; a writer of it turned other bytes into U+FFFD, and they are lost.
    pub key: String,
    /// The payload; may be empty.
    pub payload: Bytes,
    /// Which operation on its key this is; only newer writers say so.
    pub key_sequence_id: Option<u64>,
}

/// Why an entry cannot be written into the legacy log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} of the entry: expected {expected}, found {found}; the legacy per-entry log cannot hold it")]
pub struct LegacyRefusal {
    /// The field.
    pub field: &'static str,
    /// What that format can carry.
    pub expected: String,
    /// What was given.
    pub found: String,
}

impl LegacyEntry {
    /// The largest op type of that format.
    pub const MAX_OP_TYPE: u8 = OpType::SegmentUpdate.number();

    /// `entry` at `seq`, as far as that format can carry it.
    ///
    /// # Errors
    /// [`LegacyRefusal`] for an op type that the format does not have, a tenant that is none, an empty or overlong key, and a key
    /// that is not UTF-8: the format holds text, and would lose the key without a word.
    pub fn new(seq: Seq, timestamp_ms: u64, entry: &NewEntry<'_>) -> Result<Self, LegacyRefusal> {
        let refuse = |field, expected: &dyn ToString, found: &dyn ToString| {
            Err(LegacyRefusal { field, expected: expected.to_string(), found: found.to_string() })
        };
        if !(1..=Self::MAX_OP_TYPE).contains(&entry.op_type) {
            return refuse("op_type", &OP_TYPES, &entry.op_type);
        }
        if let Err(error) = TenantId::check(entry.tenant) {
            return refuse("tenant_id", &"a tenant id", &error);
        }
        if let Err(error) = ObjectKey::check(entry.key) {
            return refuse("object_key", &"an object key", &error);
        }
        let Ok(key) = std::str::from_utf8(entry.key) else {
            return refuse("object_key", &"UTF-8", &entry.key.escape_ascii());
        };
        Ok(Self {
            seq,
            timestamp_ms,
            op_type: entry.op_type,
            tenant: entry.tenant.to_owned(),
            key: key.to_owned(),
            payload: Bytes::copy_from_slice(entry.payload),
            key_sequence_id: None,
        })
    }

    /// The entry as a state machine is given it: under epoch 0, as nobody claims a legacy log, and at no time of day.
    #[must_use]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef {
            seq: self.seq,
            epoch: Epoch::ZERO,
            timestamp_ms: 0,
            op_type: self.op_type,
            tenant: &self.tenant,
            key: self.key.as_bytes(),
            payload: &self.payload,
        }
    }
}

const OP_TYPES: &str = "1 to 7";

/// The checksum of a payload.
fn checksum(payload: &[u8]) -> u32 {
    XxHash32::oneshot(0, payload)
}

/// The hash of a whole key; the format has 0 for an empty one.
fn prefix_hash(key: &str) -> u32 {
    if key.is_empty() { 0 } else { XxHash32::oneshot(0, key.as_bytes()) }
}
