//! Owns why an entry cannot be in any batch record.

use ha_types::{ObjectKeyError, TenantIdError};

use super::layout::{MAX_BATCH_ENTRIES, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES};

/// Why an entry was refused. The batch is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The tenant is none.
    #[error(transparent)]
    Tenant(#[from] TenantIdError),
    /// The key is empty or overlong.
    #[error(transparent)]
    Key(#[from] ObjectKeyError),
    /// The payload is empty.
    #[error("the payload is empty; a log entry has 1 to {MAX_PAYLOAD_BYTES} bytes of payload")]
    PayloadEmpty,
    /// The payload is overlong.
    #[error("the payload has {len} bytes; at most {MAX_PAYLOAD_BYTES} are allowed")]
    PayloadTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The batch has as many entries as the format allows.
    #[error("the batch has {MAX_BATCH_ENTRIES} entries, the most of one record; seal it first")]
    BatchFull,
    /// The batch would be larger than the format allows.
    #[error("the batch would have {bytes} bytes; a record's body has at most {MAX_BODY_BYTES}; seal it first")]
    BatchTooLarge {
        /// Its size with the entry.
        bytes: usize,
    },
}
