//! Owns a text that is never shown.

use std::fmt;

/// A token or a password. `Debug` hides it; there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `offered` is this secret; the time taken tells nothing but the lengths.
    pub(crate) fn matches(&self, offered: &[u8]) -> bool {
        let own = self.0.as_bytes();
        own.len() == offered.len() && own.iter().zip(offered).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_compares_and_hides() {
        let secret = Secret::new("abc");
        assert!(secret.matches(b"abc") && !secret.matches(b"abd") && !secret.matches(b"ab") && !secret.matches(b""));
        assert_eq!(format!("{secret:?}"), "(hidden)");
    }
}
