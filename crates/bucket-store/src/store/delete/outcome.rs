//! Owns what is asked of a delete and what it answers. RFC *bucket deletion* §4.

use ha_types::ObjectIncarnation;

use crate::error::StoreError;

/// An object to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteRequest<'a> {
    /// Its storage key, `tenant 0x00 user-key`.
    pub key: &'a [u8],
    /// The incarnation meant; no other is touched (invariant D5). [`ObjectIncarnation::LEGACY`] means an object of before incarnations,
    /// and only if the key's one live record is such a one.
    pub incarnation: ObjectIncarnation,
}

/// What became of a delete.
#[derive(Clone, Debug)]
pub enum DeleteOutcome {
    /// Its tombstone is durable (D3). Acknowledge it.
    Removed,
    /// It was already. Acknowledge it.
    AlreadyRemoved,
    /// No live record of that incarnation is here, in any bucket, in flight or at rest (D4). Acknowledge it.
    StaleVersion,
    /// Not now, and the error says why: repeat it. The object may be hidden already; it does not come back.
    Retryable(StoreError),
    /// The request itself is wrong: repeating it does not help. Nothing was changed.
    Invalid(StoreError),
}

impl DeleteOutcome {
    /// Whether the delete is done with and can be acknowledged.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Removed | Self::AlreadyRemoved | Self::StaleVersion)
    }
}
