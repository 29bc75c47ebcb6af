//! Owns the object key: bytes, never text, so that non-UTF-8 keys survive.

use std::borrow::Borrow;
use std::fmt;

/// The key of one object inside its tenant: 1 to 4096 bytes of any kind.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Box<[u8]>);

/// Why some bytes are no object key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectKeyError {
    /// It has no byte.
    #[error("the object key is empty; give 1 to {max} bytes", max = ObjectKey::MAX_BYTES)]
    Empty,
    /// It is longer than allowed.
    #[error("the object key has {len} bytes; at most {max} are allowed", max = ObjectKey::MAX_BYTES)]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
}

impl ObjectKey {
    /// The longest, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// Checks the bytes.
    ///
    /// # Errors
    /// [`ObjectKeyError`] for an empty or an overlong key.
    pub fn new(key: &[u8]) -> Result<Self, ObjectKeyError> {
        Self::check(key)?;
        Ok(Self(key.into()))
    }

    /// Checks without keeping.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(key: &[u8]) -> Result<(), ObjectKeyError> {
        match key.len() {
            0 => Err(ObjectKeyError::Empty),
            len if len > Self::MAX_BYTES => Err(ObjectKeyError::TooLong { len }),
            _ => Ok(()),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for ObjectKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey(\"{}\")", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::{ObjectKey, ObjectKeyError};

    #[test]
    fn any_byte_is_kept_and_shown_escaped() {
        let key = ObjectKey::new(b"a\0\xff").unwrap();
        assert_eq!(key.as_bytes(), b"a\0\xff");
        assert_eq!(key.to_string(), "a\\x00\\xff");
    }

    #[test]
    fn the_limits_are_exact() {
        assert_eq!(ObjectKey::new(b""), Err(ObjectKeyError::Empty));
        assert!(ObjectKey::new(&[7; 4096]).is_ok());
        assert_eq!(ObjectKey::new(&[7; 4097]), Err(ObjectKeyError::TooLong { len: 4097 }));
    }
}
