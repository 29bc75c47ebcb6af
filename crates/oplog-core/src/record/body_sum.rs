//! Owns the checksum of a body while it is read: piece by piece, so that the entries of a piece are looked at while it is in the
//! nearest cache.

use super::error::{RecordError, RecordErrorKind};
use super::layout::{CRC_AT, SCHEMA_VERSION};
use crate::crc::RunningCrc;

/// Half of a small first-level cache.
const PIECE_BYTES: usize = 16 << 10;

pub(super) struct BodySum<'a> {
    crc: RunningCrc<SCHEMA_VERSION, 0>,
    left: &'a [u8],
}

impl<'a> BodySum<'a> {
    pub(super) fn new(body: &'a [u8]) -> Self {
        Self { crc: RunningCrc::new(), left: body }
    }

    /// Takes the next piece once a reader that has `left` bytes before it has come to the end of the last one.
    #[inline]
    pub(super) fn keep_ahead_of(&mut self, left: usize) {
        if left <= self.left.len() {
            self.take(PIECE_BYTES);
        }
    }

    fn take(&mut self, bytes: usize) {
        let (piece, left) = self.left.split_at_checked(bytes).unwrap_or((self.left, &[]));
        self.crc.update(piece);
        self.left = left;
    }

    /// Takes all that is left, and compares.
    pub(super) fn check(mut self, found: u32) -> Result<(), RecordError> {
        self.take(usize::MAX);
        Self::compare(self.crc.finish(), found)
    }

    /// That the checksum `found` in a header is the one `expected` of what is stored.
    pub(super) fn compare(expected: u32, found: u32) -> Result<(), RecordError> {
        if expected == found {
            return Ok(());
        }
        let (expected, found) =
            (format_args!("{expected:08x}, the CRC-32C of what is stored"), format_args!("{found:08x}"));
        Err(RecordError::new(RecordErrorKind::Checksum, "crc", CRC_AT, expected, found))
    }
}
