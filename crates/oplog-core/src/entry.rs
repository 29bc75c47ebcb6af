//! Owns the two shapes of one entry: as handed to the writer, and as read back.

use ha_types::{Epoch, Seq};

/// An entry on its way into the log. The log assigns the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// What it does; opaque to the log.
    pub op_type: u8,
    /// The tenant, as [`TenantId`](ha_types::TenantId) allows.
    pub tenant: &'a str,
    /// The key, 1 to 4096 bytes.
    pub key: &'a [u8],
    /// The payload; at least one byte.
    pub payload: &'a [u8],
}

/// An entry of the log, borrowed from its batch record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// Its place in the log.
    pub seq: Seq,
    /// The epoch under which its batch was written.
    pub epoch: Epoch,
    /// When its batch was sealed, by the writer's wall clock; for people.
    pub timestamp_ms: u64,
    /// What it does; opaque to the log.
    pub op_type: u8,
    /// The tenant.
    pub tenant: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}
