//! The batch record: one value that carries a continuous range of entries (RFC batch record §2, design §3.2). Owns its bytes;
//! reads and writes no store.
//!
//! ```text
//! offset  bytes  field
//!      0      4  "PLB1"
//!      4      1  schema version, 1
//!      5      1  flags; bit 0 = the body is a zstd frame; others 0
//!      6      4  CRC-32C, little endian, over bytes 4, 5 and the body as stored
//!     10      -  body, postcard, raw or compressed: batch id, first_seq, epoch, prev_crc, timestamp_ms, tenants, entries
//! ```
//!
//! The layout byte by byte is in `docs/formats/batch-record.md`. Which CRC chains: the four bytes at offset 6 of the previous
//! record. A writer encodes into an [`OpenBatch`] entry by entry and seals it; a reader checks a whole record at once with
//! [`BatchRef::decode_in`] and then walks it without allocating. [`BatchRecord`] is the form that keeps the bytes alive.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod batch_record;
mod batch_ref;
mod body_sum;
mod compression;
mod encoding;
mod entries;
mod entry_buffer;
mod entry_error;
mod error;
mod header;
mod inflated;
mod layout;
mod open_batch;
mod reader;
mod split;
mod tenant_table;
mod tenants;
#[cfg(test)]
mod tests;
mod varint;
#[cfg(feature = "zstd")]
mod zstd_frame;

pub use batch_record::BatchRecord;
pub use batch_ref::BatchRef;
pub use compression::{BatchCompression, BatchCompressor, NoZstd, UnknownCompression};
pub use encoding::Encoding;
pub use entries::Entries;
pub use entry_error::EntryError;
pub use error::{RecordError, RecordErrorKind};
pub use header::{BatchHeader, SealError, SealedRecord};
pub use inflated::Inflated;
pub use layout::{MAX_BATCH_ENTRIES, MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, SCHEMA_VERSION};
pub use open_batch::OpenBatch;
pub use split::split;
