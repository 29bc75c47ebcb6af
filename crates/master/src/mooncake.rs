//! The payloads that Mooncake writes: `struct_pack` bytes of objects and segments. Owns their reading, byte by byte
//! (`docs/formats/mooncake.md`); knows neither the state nor the log, and writes none of them.
//!
//! Each decoder is a plain function from bytes to a value or a [`StructPackError`]. None recurses, and none allocates from a length
//! that it has not checked.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

#[cfg(any(test, feature = "test-kit"))]
#[allow(clippy::indexing_slicing, reason = "it is given widths of 1 to 8 bytes by tests alone")]
pub mod encode;
mod error;
mod header;
mod metadata;
mod reader;
mod segment;
#[cfg(test)]
mod tests;

pub use error::StructPackError;
pub use metadata::{Buffer, Location, MetadataPayload, ReplicaDescriptor, ReplicaState};
pub use segment::{SegmentMountPayload, SegmentUnmountPayload};
