//! Owns the bytes of every file in the directory, and nothing that opens one. Old versions are frozen; golden bytes are added, never
//! edited. Byte by byte: `docs/formats/bucket-files.md`.

mod error;
pub mod graves;
pub mod high_water;
pub mod intent;
pub mod marker;
mod mooncake;
pub mod names;
mod reader;
pub mod record;
pub mod table;
#[cfg(test)]
mod test_bytes;
#[cfg(any(test, feature = "test-kit"))]
pub mod test_kit;

pub use error::FormatError;

/// The longest file of any kind but `.bucket`, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
