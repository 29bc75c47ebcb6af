//! Owns why bytes are no durable prefix.

use std::fmt::Display;

/// Why bytes are no durable prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("durable prefix, {field} at byte {offset}: expected {expected}, found {found}")]
pub struct PrefixError {
    /// The field that is wrong, or `line` for the whole.
    pub field: &'static str,
    /// Where it begins, in bytes from the start of the value.
    pub offset: usize,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl PrefixError {
    #[cold]
    pub(crate) fn new(field: &'static str, offset: usize, expected: impl Display, found: impl Display) -> Self {
        Self { field, offset, expected: expected.to_string(), found: found.to_string() }
    }
}
