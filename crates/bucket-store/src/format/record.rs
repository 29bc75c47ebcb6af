//! Owns the bytes of one record in a `.bucket` file: a header that says whose they are, a checksum of each 64 KiB of the value, the
//! value. Readers and GC's copy verify with what is here; nothing here reads a file or allocates, but the encoder.

use ha_types::ObjectIncarnation;

use crate::crc::{crc32c, crc32c_append};
use crate::key::StorageKey;

use super::error::{FormatError, shown};
use super::table::Slot;

mod chunks;

pub use chunks::{ChunkRange, ChunkSums, ValueCheck};

/// The value bytes that one checksum covers; the last chunk may be shorter.
pub const CHUNK_BYTES: u32 = 64 << 10;
/// The header's bytes before the key.
pub const FIXED_BYTES: usize = 40;
/// The highest write number that a record can have; the highest bucket id is [`BucketId::MAX`](super::names::BucketId::MAX), the same. Bounds
/// above all of them and whole blocks of them are still numbers of 64 bits.
pub const MAX_WRITE_NUMBER: u64 = i64::MAX as u64;
/// The longest header, with a key and a value of the greatest length.
pub const MAX_HEADER_BYTES: usize = FIXED_BYTES + StorageKey::MAX_BYTES + 4 * (u32::MAX.div_ceil(CHUNK_BYTES) as usize);

const MAGIC: [u8; 4] = *b"PLBR";
const WHAT: &str = "record";
const HIGHEST: &str = "at most 9223372036854775807";
const SIGNED_FROM: usize = 8;

/// What a record's header says, but for the checksums of the value: the same that its slot in the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// The storage key.
    pub key: &'a [u8],
    /// The object's name for all time.
    pub incarnation: ObjectIncarnation,
    /// Rises with every record written to the directory.
    pub write_number: u64,
    /// Bytes of the value, at least 1.
    pub value_len: u32,
}

impl<'a> RecordHeader<'a> {
    /// Bytes of a record before its value.
    #[must_use]
    pub const fn encoded_len(key_len: usize, value_len: u32) -> u64 {
        (FIXED_BYTES + key_len) as u64 + 4 * value_len.div_ceil(CHUNK_BYTES) as u64
    }

    /// Bytes of a whole record.
    #[must_use]
    pub const fn record_len(key_len: usize, value_len: u32) -> u64 {
        Self::encoded_len(key_len, value_len) + value_len as u64
    }

    /// What the record of this slot must say.
    #[must_use]
    pub fn of(slot: &'a Slot) -> Self {
        let Slot { key, incarnation, write_number, value_len, .. } = slot;
        Self { key, incarnation: *incarnation, write_number: *write_number, value_len: *value_len }
    }

    /// Appends the header of this record; `value` has to follow it in the file.
    ///
    /// # Panics
    /// If `value` has not `value_len` bytes, or the key is longer than a storage key can be.
    pub fn encode_into(&self, value: &[u8], out: &mut Vec<u8>) {
        assert_eq!(value.len(), self.value_len as usize, "the header is of another value");
        let sums = value.chunks(CHUNK_BYTES as usize).map(crc32c);
        self.encode_with(sums, out);
    }

    /// Appends the header of this record, with the CRC-32C of each chunk of its value in order.
    ///
    /// # Panics
    /// If there are more or fewer sums than chunks, or the key is longer than a storage key can be.
    pub fn encode_with(&self, sums: impl IntoIterator<Item = u32>, out: &mut Vec<u8>) {
        assert!(self.key.len() <= StorageKey::MAX_BYTES, "a key of {} bytes", self.key.len());
        let begin = out.len();
        out.reserve(Self::encoded_len(self.key.len(), self.value_len) as usize);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.value_len.to_le_bytes());
        out.extend_from_slice(&self.write_number.to_le_bytes());
        out.extend_from_slice(&self.incarnation.to_bytes());
        out.extend_from_slice(self.key);
        sums.into_iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
        let len = Self::encoded_len(self.key.len(), self.value_len);
        assert_eq!((out.len() - begin) as u64, len, "the sums are of another value");
        let crc = crc32c(&out[begin + SIGNED_FROM..]);
        out[begin + 4..begin + 8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the header at the begin of `bytes`, which may go on behind it. Gives the checksums of the value with it.
    ///
    /// # Errors
    /// [`FormatError`], offsets from the record's begin, for anything but what [`Self::encode_into`] makes of a storage key and a
    /// value that is not empty.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, ChunkSums<'a>), FormatError> {
        let fixed = Fixed::of(bytes)?;
        let read = fixed.signed(bytes)?;
        let bad =
            |field, offset, expected: &'static str, found| FormatError::in_field(WHAT, field, offset, expected, found);
        if read.0.value_len == 0 {
            return Err(bad("value_len", 12, "1 or more", "0".into()));
        }
        let write_number = read.0.write_number;
        if write_number > MAX_WRITE_NUMBER {
            return Err(bad("write_number", 16, HIGHEST, write_number.to_string()));
        }
        StorageKey::check(read.0.key).map_err(|e| bad("key", FIXED_BYTES as u64, "a storage key", e.to_string()))?;
        Ok(read)
    }

    /// Verifies that `header`, the record's first [`Self::encoded_len`] bytes, is the header of exactly this record (row B11), and
    /// gives the checksums of its value.
    ///
    /// # Errors
    /// [`FormatError`], offsets from the record's begin, names what differs.
    pub fn verify<'b>(&self, header: &'b [u8]) -> Result<ChunkSums<'b>, FormatError> {
        let fixed = Fixed::of(header)?;
        let equal = |field, offset, expected: u64, found: u64| {
            let text = |number: u64| number.to_string();
            let differs = || FormatError::in_field(WHAT, field, offset, text(expected), text(found));
            (expected == found).then_some(()).ok_or_else(differs)
        };
        equal("key_len", 8, self.key.len() as u64, fixed.key_len.into())?;
        equal("value_len", 12, self.value_len.into(), fixed.value_len.into())?;
        let (found, sums) = fixed.signed(header)?;
        equal("write_number", 16, self.write_number, found.write_number)?;
        if self.incarnation != found.incarnation {
            let (expected, found) = (self.incarnation.to_string(), found.incarnation.to_string());
            return Err(FormatError::in_field(WHAT, "incarnation", 24, expected, found));
        }
        if self.key != found.key {
            return Err(other_key(WHAT, FIXED_BYTES as u64, self.key, found.key));
        }
        Ok(sums)
    }
}

/// Verifies that a raw record of Mooncake's begins with its key: all that can be verified of one.
///
/// # Errors
/// [`FormatError`] if `found` is not `key`.
pub fn verify_raw_key(key: &[u8], found: &[u8]) -> Result<(), FormatError> {
    if key == found {
        return Ok(());
    }
    Err(other_key("record of Mooncake", 0, key, found))
}

fn other_key(what: &'static str, offset: u64, expected: &[u8], found: &[u8]) -> FormatError {
    FormatError::in_field(what, "key", offset, shown(expected), shown(found))
}

/// The lengths, read before anything that depends on them.
struct Fixed {
    key_len: u32,
    value_len: u32,
}

impl Fixed {
    fn of(bytes: &[u8]) -> Result<Self, FormatError> {
        let Some(fixed) = bytes.first_chunk::<FIXED_BYTES>() else {
            return Err(too_short("the fixed part", 0, FIXED_BYTES as u64, bytes.len()));
        };
        if fixed[..4] != MAGIC {
            let show = |m: &[u8]| format!("\"{}\"", m.escape_ascii());
            return Err(FormatError::in_field(WHAT, "magic", 0, show(&MAGIC), show(&fixed[..4])));
        }
        let key_len = u32_at(fixed, 8);
        if key_len as usize > StorageKey::MAX_BYTES {
            let expected = format!("at most {}", StorageKey::MAX_BYTES);
            return Err(FormatError::in_field(WHAT, "key_len", 8, expected, key_len.to_string()));
        }
        Ok(Self { key_len, value_len: u32_at(fixed, 12) })
    }

    /// Checks the header's checksum and takes it apart.
    fn signed<'a>(&self, bytes: &'a [u8]) -> Result<(RecordHeader<'a>, ChunkSums<'a>), FormatError> {
        let len = RecordHeader::encoded_len(self.key_len as usize, self.value_len);
        let Some(header) = usize::try_from(len).ok().and_then(|len| bytes.get(..len)) else {
            return Err(too_short("key and checksums", FIXED_BYTES as u64, len, bytes.len()));
        };
        let (expected, found) = (u32_at(header, 4), crc32c(&header[SIGNED_FROM..]));
        if expected != found {
            return Err(FormatError::Checksum { what: WHAT, field: "header_crc", offset: 4, expected, found });
        }
        let (key, sums) = header[FIXED_BYTES..].split_at(self.key_len as usize);
        let incarnation = ObjectIncarnation::from_bytes(array_at(header, 24));
        let write_number = u64::from_le_bytes(array_at(header, 16));
        let sums = ChunkSums::new(sums, self.value_len, len - sums.len() as u64);
        Ok((RecordHeader { key, incarnation, write_number, value_len: self.value_len }, sums))
    }
}

fn too_short(field: &'static str, offset: u64, expected: u64, found: usize) -> FormatError {
    FormatError::Length { what: WHAT, field, offset, expected, found: found as u64 }
}

/// The caller has checked that `bytes` reaches as far.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..].first_chunk().copied().unwrap_or([0; N])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests;
