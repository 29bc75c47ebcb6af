//! Owns the error of reading one entry: which key, which field, expected and found.

use crate::{FaultKind, ReplayFault};

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LegacyProblem {
    /// The key names no entry.
    Key,
    /// The value is no JSON object.
    Json,
    /// A field is there twice.
    Duplicate,
    /// A field is not there.
    Missing,
    /// A field that the format does not have.
    Unknown,
    /// A field of another type, or a number that is none of the field's.
    Type,
    /// A payload that is no padded standard base64.
    Base64,
    /// A value that the format does not allow in that field.
    Value,
    /// The sequence of another entry.
    WrongSequence,
    /// Not the checksum of the payload.
    Checksum,
    /// The hash of another key.
    PrefixHash,
}

/// Why a key and its value are no entry of the legacy log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {field}: expected {expected}, found {found}")]
pub struct LegacyEntryError {
    /// The key in the store, escaped.
    pub key: String,
    /// The field.
    pub field: String,
    /// What is wrong.
    pub problem: LegacyProblem,
    /// What had to be there.
    pub expected: String,
    /// What is there, shortened.
    pub found: String,
}

impl From<LegacyEntryError> for ReplayFault {
    fn from(error: LegacyEntryError) -> Self {
        Self {
            kind: FaultKind::LegacyUndecodable,
            key: error.key,
            seq: None,
            expected: format!("{}: {}", error.field, error.expected),
            found: error.found,
        }
    }
}

/// The most of a value that an error shows, in characters.
const SHOWN: usize = 64;

/// `text` escaped and shortened.
pub(in crate::legacy) fn excerpt(text: &[u8]) -> String {
    let mut shown: String = text.escape_ascii().map(char::from).take(SHOWN + 1).collect();
    if shown.len() > SHOWN {
        shown.truncate(SHOWN);
        shown.push_str("...");
    }
    shown
}
