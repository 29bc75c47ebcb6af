//! Owns the pair of a key and its value.

use bytes::Bytes;

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvPair {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

impl KvPair {
    /// The pair of `key` and `value`.
    #[must_use]
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}
