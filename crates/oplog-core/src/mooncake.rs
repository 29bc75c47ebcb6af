//! What Mooncake writes in the place of our log: its durable prefix, its producer view and its batch records. Owns their bytes
//! (`docs/formats/mooncake.md`); reads and writes no store, and writes none of them but the producer view of a take-over.
//!
//! Each decoder is a plain function from bytes to a value or an error that names field and offset. None recurses, none allocates
//! from a length that it has not checked, and JSON is read with the recursion limit of its reader left on.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod batch;
#[cfg(any(test, feature = "test-kit"))]
pub mod encode;
mod json;
mod prefix;
mod producer_view;
#[cfg(test)]
mod tests;

pub use batch::{MAX_BATCH_ENTRIES, MAX_KEY_BYTES, MooncakeBatch, MooncakeEntry};
pub use prefix::MooncakePrefix;
pub use producer_view::{ProducerView, ProducerViewError};

/// The first byte of a durable prefix of Mooncake's. Ours begins with `s`.
pub(crate) const PREFIX_START: u8 = b'{';
