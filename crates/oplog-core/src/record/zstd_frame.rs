//! Owns the look at a zstd frame (RFC 8878) before anything is allocated for what is in it: where it ends, and the most that it can
//! inflate to. It inflates nothing.

use super::error::{RecordError, RecordErrorKind};
use super::layout::HEADER_BYTES;

/// The first four bytes of a frame.
const MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();

/// The most bytes that one block inflates to.
const MAX_BLOCK_BYTES: usize = 128 << 10;

const CHECKSUM_BYTES: usize = 4;

/// What the headers of one frame say, all of which are there, with nothing behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZstdFrame {
    /// The length that it claims for its content.
    pub(super) claimed: Option<u64>,
    /// The most that its blocks can hold, whatever it claims.
    pub(super) most: usize,
}

/// What is left of the body.
struct Walk<'a> {
    rest: &'a [u8],
    end: usize,
}

impl<'a> Walk<'a> {
    fn take(&mut self, what: &str, count: usize) -> Result<&'a [u8], RecordError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            let expected = format_args!("{count} bytes of its {what}");
            return Err(self.fault(RecordErrorKind::Truncated, expected, format_args!("{}", self.rest.len())));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// A little endian number of up to eight bytes.
    fn number(&mut self, what: &str, bytes: usize) -> Result<u64, RecordError> {
        let taken = self.take(what, bytes)?;
        Ok(taken.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn fault(
        &self,
        kind: RecordErrorKind,
        expected: std::fmt::Arguments<'_>,
        found: std::fmt::Arguments<'_>,
    ) -> RecordError {
        RecordError::new(kind, "zstd frame", self.end - self.rest.len(), expected, found)
    }
}

impl ZstdFrame {
    /// Walks over the one frame that `body` must be.
    pub(super) fn look(body: &[u8]) -> Result<Self, RecordError> {
        use RecordErrorKind::Malformed;
        let mut walk = Walk { rest: body, end: HEADER_BYTES + body.len() };
        if !body.starts_with(&MAGIC) {
            let kind = if MAGIC.starts_with(body) { RecordErrorKind::Truncated } else { Malformed };
            let found = body.get(..MAGIC.len()).unwrap_or(body);
            return Err(walk.fault(
                kind,
                format_args!("one that begins with \"{}\"", MAGIC.escape_ascii()),
                format_args!("\"{}\"", found.escape_ascii()),
            ));
        }
        walk.take("magic", MAGIC.len())?;
        let descriptor = walk.number("header", 1)?;
        let (size_flag, single, checksum) = (descriptor >> 6, descriptor & 0x20 != 0, descriptor & 4 != 0);
        if descriptor & 0b1011 != 0 {
            let expected = format_args!("a descriptor without dictionary and reserved bit");
            return Err(walk.fault(Malformed, expected, format_args!("{descriptor:#010b}")));
        }
        if !single {
            walk.take("window", 1)?;
        }
        let claimed = match (size_flag, single) {
            (0, false) => None,
            (0, true) => Some(walk.number("content size", 1)?),
            (1, _) => Some(walk.number("content size", 2)? + 256),
            (2, _) => Some(walk.number("content size", 4)?),
            _ => Some(walk.number("content size", 8)?),
        };
        let most = Self::blocks(&mut walk)?;
        if checksum {
            walk.take("checksum", CHECKSUM_BYTES)?;
        }
        if !walk.rest.is_empty() {
            let found = format_args!("{} more bytes", walk.rest.len());
            return Err(walk.fault(Malformed, format_args!("the end of the record behind it"), found));
        }
        Ok(Self { claimed, most })
    }

    fn blocks(walk: &mut Walk<'_>) -> Result<usize, RecordError> {
        let mut most = 0_usize;
        loop {
            let header = walk.number("block header", 3)?;
            let size = usize::try_from(header >> 3).unwrap_or(usize::MAX);
            let (stored, inflated) = match (header >> 1) & 3 {
                0 => (size, size),
                1 => (1, size),
                2 => (size, MAX_BLOCK_BYTES),
                _ => {
                    let expected = format_args!("a raw, repeated or compressed block");
                    return Err(walk.fault(RecordErrorKind::Malformed, expected, format_args!("the reserved type 3")));
                }
            };
            if size > MAX_BLOCK_BYTES {
                let expected = format_args!("a block of at most {MAX_BLOCK_BYTES} bytes");
                return Err(walk.fault(RecordErrorKind::Malformed, expected, format_args!("{size}")));
            }
            walk.take("block", stored)?;
            most = most.saturating_add(inflated);
            if header & 1 != 0 {
                return Ok(most);
            }
        }
    }
}
