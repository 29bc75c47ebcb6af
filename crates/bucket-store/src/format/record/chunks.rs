//! Owns the checksums of a value's chunks: which of them a range touches, and whether its bytes are the right ones.

use super::{CHUNK_BYTES, FormatError, WHAT, crc32c, crc32c_append, u32_at};

/// The chunks that cover a range of a value: what has to be read to verify the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    first: u32,
    offset: u64,
    len: u64,
}

impl ChunkRange {
    /// The chunks that `len` bytes from `offset` of a value of `value_len` bytes touch. `None` if `len` is 0 or the range is not
    /// within the value.
    #[must_use]
    pub fn covering(value_len: u32, offset: u64, len: u64) -> Option<Self> {
        let end = offset.checked_add(len).filter(|end| len > 0 && *end <= u64::from(value_len))?;
        let chunk = u64::from(CHUNK_BYTES);
        let first = offset / chunk;
        let end = (end.div_ceil(chunk) * chunk).min(u64::from(value_len));
        Some(Self { first: first as u32, offset: first * chunk, len: end - first * chunk })
    }

    /// The whole value. `None` if it is empty.
    #[must_use]
    pub fn whole(value_len: u32) -> Option<Self> {
        Self::covering(value_len, 0, value_len.into())
    }

    /// Where the chunks begin in the value.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The chunks' bytes together.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }
}

/// The checksums of one value, out of a header that was verified.
#[derive(Clone, Copy, Debug)]
pub struct ChunkSums<'a> {
    sums: &'a [u8],
    value_len: u32,
    /// Where the first checksum is in the record.
    at: u64,
}

impl<'a> ChunkSums<'a> {
    pub(super) fn new(sums: &'a [u8], value_len: u32, at: u64) -> Self {
        Self { sums, value_len, at }
    }

    /// Bytes of the value.
    #[must_use]
    pub fn value_len(&self) -> u32 {
        self.value_len
    }

    /// Verifies `bytes`, the content of the chunks of `range`.
    ///
    /// # Errors
    /// [`FormatError`] if there are more or fewer bytes than the range has, or a chunk has another checksum.
    pub fn verify(&self, range: ChunkRange, bytes: &[u8]) -> Result<(), FormatError> {
        if bytes.len() as u64 != range.len {
            return Err(self.wrong_len(range.len, bytes.len() as u64));
        }
        for (index, chunk) in (range.first..).zip(bytes.chunks(CHUNK_BYTES as usize)) {
            self.verify_chunk(index, crc32c(chunk))?;
        }
        Ok(())
    }

    /// Verifies the whole value piece by piece, as a copy through a small buffer needs it.
    #[must_use]
    pub fn stream(self) -> ValueCheck<'a> {
        ValueCheck { sums: self, seen: 0, crc: 0 }
    }

    fn verify_chunk(&self, index: u32, found: u32) -> Result<(), FormatError> {
        let Some(sum) = self.sums.chunks_exact(4).nth(index as usize) else {
            return Err(self.wrong_len(self.value_len.into(), u64::from(index) * u64::from(CHUNK_BYTES) + 1));
        };
        let (expected, offset) = (u32_at(sum, 0), self.at + 4 * u64::from(index));
        if expected == found {
            return Ok(());
        }
        Err(FormatError::Checksum { what: WHAT, field: "of a chunk of the value", offset, expected, found })
    }

    fn wrong_len(&self, expected: u64, found: u64) -> FormatError {
        let offset = self.at + self.sums.len() as u64;
        FormatError::Length { what: WHAT, field: "the value", offset, expected, found }
    }
}

/// A value that is verified while it passes by.
#[derive(Clone, Copy, Debug)]
pub struct ValueCheck<'a> {
    sums: ChunkSums<'a>,
    seen: u64,
    /// Of the chunk that has begun.
    crc: u32,
}

impl ValueCheck<'_> {
    /// Bytes of the value that are still to come.
    #[must_use]
    pub fn left(&self) -> u64 {
        u64::from(self.sums.value_len) - self.seen
    }

    /// Takes the next bytes of the value.
    ///
    /// # Errors
    /// [`FormatError`] if a chunk that they complete has another checksum, or they go past the value's end. Nothing of this value may
    /// be used then.
    pub fn update(&mut self, mut piece: &[u8]) -> Result<(), FormatError> {
        if piece.len() as u64 > self.left() {
            return Err(self.sums.wrong_len(self.sums.value_len.into(), self.seen + piece.len() as u64));
        }
        while !piece.is_empty() {
            let chunk = u64::from(CHUNK_BYTES);
            let room = chunk - self.seen % chunk;
            let (now, later) = piece.split_at(piece.len().min(room as usize));
            self.crc = crc32c_append(self.crc, now);
            self.seen += now.len() as u64;
            if self.seen.is_multiple_of(chunk) || self.left() == 0 {
                self.sums.verify_chunk(((self.seen - 1) / chunk) as u32, self.crc)?;
                self.crc = 0;
            }
            piece = later;
        }
        Ok(())
    }

    /// Ends it: only now is the whole value verified.
    ///
    /// # Errors
    /// [`FormatError`] if bytes are missing.
    pub fn finish(self) -> Result<(), FormatError> {
        match self.left() {
            0 => Ok(()),
            _ => Err(self.sums.wrong_len(self.sums.value_len.into(), self.seen)),
        }
    }
}
