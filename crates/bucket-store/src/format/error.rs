//! Owns the one error of all decoders and encoders here: what is wrong, where, and what should have been there.

use std::borrow::Cow;
use std::fmt;

/// Some bytes are not what they should be. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; {}", self.without_remedy(), self.remedy())]
pub enum FormatError {
    /// A version, layout or flag that this program does not know. Never damage by itself: a newer program may have written it, so
    /// a directory that holds one is left alone as it is.
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
    Length {
        /// The kind of file or record.
        what: &'static str,
        /// The field that does not fit.
        field: &'static str,
        /// Where the field begins.
        offset: u64,
        /// The bytes it needs or, where there are more than that, the most that it may have.
        expected: u64,
        /// The bytes there are.
        found: u64,
    },
    /// The bytes do not have their checksum.
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
            Self::Length { expected, found, .. } if found > expected => format!("at most {expected} bytes"),
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

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::UnknownVersion { .. } => "open it with the program that wrote it",
            Self::Length { .. } | Self::Checksum { .. } | Self::Field { .. } => "restore it as it was written",
        }
    }

    /// What is wrong and where, for a sentence that ends with a remedy of its own.
    pub(crate) fn without_remedy(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(move |f| match self {
            Self::UnknownVersion { what, field, offset, known, found } => write!(
                f,
                "{what}: {field} at byte {offset} is {found}, which this program does not know (it knows {known})"
            ),
            Self::Length { what, field, offset, expected, found } if found > expected => {
                write!(f, "{what}: {field} at byte {offset} may have at most {expected} bytes, and has {found}")
            }
            Self::Length { what, field, offset, expected, found } => {
                write!(f, "{what}: {field} at byte {offset} needs {expected} bytes, and there are {found}")
            }
            Self::Checksum { what, field, offset, expected, found } => write!(
                f,
                "{what}: the checksum {field} at byte {offset} is {expected:08x}, but the bytes have {found:08x}"
            ),
            Self::Field { what, field, offset, expected, found } => {
                write!(f, "{what}: {field} at byte {offset}: expected {expected}, found {found}")
            }
        })
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

#[cfg(test)]
mod tests {
    use super::FormatError;
    use crate::error::tests::is_an_order;

    #[test]
    fn every_fault_says_what_where_and_what_to_do() {
        let what = "bucket table";
        let too_long = FormatError::Length { what, field: "the file", offset: 0, expected: 64, found: 65 };
        let too_short = FormatError::Length { what, field: "the file", offset: 9, expected: 64, found: 63 };
        assert!(too_long.to_string().contains("may have at most 64 bytes, and has 65"), "{too_long}");
        assert!(too_short.to_string().contains("needs 64 bytes, and there are 63"), "{too_short}");
        assert_eq!((too_long.expected(), too_long.found()), ("at most 64 bytes".into(), "65 bytes".into()));
        assert_eq!(too_short.expected(), "64 bytes");
        let all = [
            FormatError::UnknownVersion { what, field: "version", offset: 4, known: "version 1", found: 2 },
            too_long,
            FormatError::Checksum { what, field: "crc", offset: 40, expected: 1, found: 2 },
            FormatError::in_field(what, "count", 32, "1 or more", "0"),
        ];
        for (at, error) in all.iter().enumerate() {
            let number = match error {
                FormatError::UnknownVersion { .. } => 0,
                FormatError::Length { .. } => 1,
                FormatError::Checksum { .. } => 2,
                FormatError::Field { .. } => 3,
            };
            assert_eq!(number, at, "a new variant is to be added here: {error}");
            let text = error.to_string();
            assert!(text.starts_with(&format!("{what}: ")) && text.contains(error.field()), "{text}");
            assert!(text.contains(&format!("at byte {}", error.offset())), "{text}");
            assert!(text.ends_with(error.remedy()) && is_an_order(error.remedy()), "{text}");
        }
    }
}
