//! Owns the take-over's transaction, as a model checker sends it.

use bytes::Bytes;
use ha_kv::Txn;

use crate::storage::take_over::{OldLog, next_view, take_over_txn};
use crate::{DurablePrefix, LogError, LogKeys};

/// A log of Mooncake's, as it was read: three values, byte for byte.
#[derive(Clone, Debug)]
pub struct OldLogRead {
    /// The durable prefix.
    pub prefix: Bytes,
    /// The producer view.
    pub view: Option<Bytes>,
    /// The election of the old kind.
    pub election: Option<Bytes>,
}

/// The transaction by which a candidate takes the log over as `new`.
///
/// # Errors
/// If `new` is no take-over of what was read, or what was read is no view.
pub fn take_over(keys: &LogKeys, read: OldLogRead, new: &DurablePrefix) -> Result<Txn, LogError> {
    let old = OldLog { prefix: read.prefix, view: read.view, election: read.election };
    let view = next_view(keys, &old)?;
    Ok(take_over_txn(keys, &old, new, view)?)
}
