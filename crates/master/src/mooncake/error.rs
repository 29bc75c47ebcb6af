//! Owns why bytes are no payload of Mooncake's.

use std::fmt::Display;

/// Why bytes are no payload of Mooncake's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Mooncake's {payload}, {field} at byte {offset}: expected {expected}, found {found}")]
pub struct StructPackError {
    /// Which payload it was to be.
    pub payload: &'static str,
    /// The field that is wrong.
    pub field: &'static str,
    /// Where it begins, in bytes from the start of the payload.
    pub offset: usize,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl StructPackError {
    #[cold]
    pub(super) fn new(
        payload: &'static str,
        field: &'static str,
        offset: usize,
        expected: impl Display,
        found: impl Display,
    ) -> Self {
        Self { payload, field, offset, expected: expected.to_string(), found: found.to_string() }
    }
}
