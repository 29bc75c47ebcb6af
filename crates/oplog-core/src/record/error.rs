//! Owns why bytes are no batch record.

use std::fmt::Display;

/// The kind of a [`RecordError`]: what a caller or a metric tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordErrorKind {
    /// Another encoding: Mooncake's, or none that is known.
    Foreign,
    /// A schema version that this build does not read.
    Version,
    /// A flag that this build does not know.
    Flags,
    /// A zstd body where none can be read: this build is without the feature `zstd`, or it was asked to read in place.
    Compressed,
    /// The bytes are not the ones that were written.
    Checksum,
    /// A body above 64 MiB, or one that inflates to more.
    TooLarge,
    /// The bytes end too early.
    Truncated,
    /// The bytes are no canonical encoding of anything.
    Malformed,
    /// It decodes, and breaks a constraint of RFC batch record §2.
    Constraint,
}

/// Why bytes are no batch record of this build's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("batch record, {field} at byte {offset}: expected {expected}, found {found}")]
pub struct RecordError {
    /// What kind of fault.
    pub kind: RecordErrorKind,
    /// The field that is wrong.
    pub field: &'static str,
    /// Where it begins, in bytes from the start of the record; of a field inside a compressed body, as if that were stored raw.
    pub offset: usize,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl RecordError {
    #[cold]
    pub(crate) fn new(
        kind: RecordErrorKind,
        field: &'static str,
        offset: usize,
        expected: impl Display,
        found: impl Display,
    ) -> Self {
        Self { kind, field, offset, expected: expected.to_string(), found: found.to_string() }
    }
}
