//! Owns the one error of all decoders and encoders here: what is wrong, where, and what should have been there.

use std::borrow::Cow;

/// Some bytes are not what they should be. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A version, layout or flag that this program does not know. Never damage by itself: a newer program may have written it, so
    /// a directory that holds one is left alone as it is.
    #[error(
        "{what}: {field} at byte {offset} is {found}, which this program does not know (it knows {known}); open it with the \
         program that wrote it"
    )]
    UnknownVersion {
        /// The kind of file or record.
        what: &'static str,
        /// The field that names it.
        field: &'static str,
        /// Where the field begins, from the begin of the file or record.
        offset: u64,
        /// What this program knows.
        known: &'static str,
        /// What is there.
        found: u64,
    },
    /// It ends too early, or is longer than anything this program writes.
    #[error("{what}: {field} at byte {offset} asks for {expected} bytes, but there are {found}")]
    Length {
        /// The kind of file or record.
        what: &'static str,
        /// The field that does not fit.
        field: &'static str,
        /// Where the field begins.
        offset: u64,
        /// The bytes it needs, or the most allowed.
        expected: u64,
        /// The bytes there are.
        found: u64,
    },
    /// The bytes do not have their checksum.
    #[error("{what}: the checksum {field} at byte {offset} is {expected:08x}, but the bytes have {found:08x}")]
    Checksum {
        /// The kind of file or record.
        what: &'static str,
        /// The checksum.
        field: &'static str,
        /// Where it is stored.
        offset: u64,
        /// What is stored.
        expected: u32,
        /// What the bytes have.
        found: u32,
    },
    /// A field has a value that is not allowed there.
    #[error("{what}: {field} at byte {offset}: expected {expected}, found {found}")]
    Field {
        /// The kind of file or record.
        what: &'static str,
        /// The field, with its index where there are several.
        field: Cow<'static, str>,
        /// Where it begins.
        offset: u64,
        /// What is allowed.
        expected: Cow<'static, str>,
        /// What is there.
        found: Cow<'static, str>,
    },
}

impl FormatError {
    /// Whether a newer program may have written it, so that the whole directory is to be left alone.
    #[must_use]
    pub fn is_unknown_version(&self) -> bool {
        matches!(self, Self::UnknownVersion { .. })
    }

    /// The kind of file or record.
    #[must_use]
    pub fn what(&self) -> &'static str {
        match self {
            Self::UnknownVersion { what, .. }
            | Self::Length { what, .. }
            | Self::Checksum { what, .. }
            | Self::Field { what, .. } => what,
        }
    }

    /// The field.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::UnknownVersion { field, .. } | Self::Length { field, .. } | Self::Checksum { field, .. } => field,
            Self::Field { field, .. } => field,
        }
    }

    /// Where, in bytes from the begin of the file or record.
    #[must_use]
    pub fn offset(&self) -> u64 {
        match self {
            Self::UnknownVersion { offset, .. }
            | Self::Length { offset, .. }
            | Self::Checksum { offset, .. }
            | Self::Field { offset, .. } => *offset,
        }
    }

    /// What should be there, as text.
    #[must_use]
    pub fn expected(&self) -> String {
        match self {
            Self::UnknownVersion { known, .. } => (*known).into(),
            Self::Length { expected, .. } => format!("{expected} bytes"),
            Self::Checksum { expected, .. } => format!("{expected:08x}"),
            Self::Field { expected, .. } => expected.clone().into_owned(),
        }
    }

    /// What is there, as text.
    #[must_use]
    pub fn found(&self) -> String {
        match self {
            Self::UnknownVersion { found, .. } => found.to_string(),
            Self::Length { found, .. } => format!("{found} bytes"),
            Self::Checksum { found, .. } => format!("{found:08x}"),
            Self::Field { found, .. } => found.clone().into_owned(),
        }
    }

    pub(crate) fn in_field(
        what: &'static str,
        field: impl Into<Cow<'static, str>>,
        offset: u64,
        expected: impl Into<Cow<'static, str>>,
        found: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::Field { what, field: field.into(), offset, expected: expected.into(), found: found.into() }
    }
}

/// A key as an error shows it: escaped, and cut where a hostile one would fill the log.
pub(crate) fn shown(key: &[u8]) -> String {
    match key.get(..200) {
        Some(head) if key.len() > 200 => format!("\"{}\"... of {} bytes", head.escape_ascii(), key.len()),
        _ => format!("\"{}\"", key.escape_ascii()),
    }
}
