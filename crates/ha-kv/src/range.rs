//! Owns how a range read is bounded: by pairs and by bytes.

use bytes::Bytes;

use crate::{Capabilities, KvPair};

/// How much one page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimit {
    /// At most so many pairs; at least 1.
    pub pairs: usize,
    /// No further pair once keys and values together reach so many bytes.
    pub bytes: usize,
}

impl RangeLimit {
    /// One pair.
    pub const ONE: Self = Self { pairs: 1, bytes: usize::MAX };

    /// `pairs` pairs of any size.
    #[must_use]
    pub const fn pairs(pairs: usize) -> Self {
        Self { pairs, bytes: usize::MAX }
    }

    /// The same limit, but no page above what a store with these capabilities answers.
    #[must_use]
    pub fn within(self, capabilities: &Capabilities) -> Self {
        Self { pairs: self.pairs, bytes: self.bytes.min(capabilities.max_reply_bytes) }
    }

    /// Whether a page of `pairs` pairs and `bytes` bytes takes no further one. An empty page takes one, however large.
    #[must_use]
    pub const fn reached(self, pairs: usize, bytes: usize) -> bool {
        pairs > 0 && (pairs >= self.pairs || bytes >= self.bytes)
    }
}

/// One page of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangePage {
    /// The pairs, in key order.
    pub pairs: Vec<KvPair>,
    /// Whether the range goes on after the last pair.
    pub more: bool,
}

/// The end of the range of all keys that start with `prefix`; `None` if there is no such key (`prefix` is empty or all 0xff).
#[must_use]
pub fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let keep = prefix.iter().rposition(|b| *b != 0xff)?;
    let mut end = prefix.get(..=keep)?.to_vec();
    *end.last_mut()? += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_first_key_after_all_with_the_prefix() {
        assert_eq!(prefix_end(b"a/").as_deref(), Some(&b"a0"[..]));
        assert_eq!(prefix_end(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(prefix_end(b"\0").as_deref(), Some(&b"\x01"[..]));
        assert_eq!(prefix_end(b"\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn an_empty_page_takes_one_pair_however_large() {
        let limit = RangeLimit { pairs: 0, bytes: 0 };
        assert!(!limit.reached(0, 0));
        assert!(limit.reached(1, 1));
        assert!(!RangeLimit::pairs(2).reached(1, usize::MAX - 1));
    }
}
