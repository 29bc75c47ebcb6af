//! Owns the table of a bucket, the file `<id>.meta`: which record lies where and which one is tombstoned.

use std::collections::HashSet;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::key::StorageKey;

use super::error::{FormatError, shown};
use super::names::BucketId;
use super::reader::{Frame, Reader};
use super::record::{MAX_WRITE_NUMBER, RecordHeader};
use super::{MAX_FILE_BYTES, mooncake};

/// What a bucket holds. The whole file is one of these; it is only ever replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The bucket whose table this is.
    pub bucket: BucketId,
    /// How the records of the data file are laid out.
    pub layout: RecordLayout,
    /// The order of age among buckets: the bucket's own id when it was written, the smallest of its sources' when GC made it.
    pub age: u64,
    /// Bytes of the data file.
    pub data_len: u64,
    /// In the order of their offsets, without overlap.
    pub slots: Vec<Slot>,
}

/// How records lie in a data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLayout {
    /// Checksummed records of ours.
    Checksummed,
    /// Mooncake's: key bytes, then value bytes, nothing else.
    MooncakeRaw,
}

/// One record of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// `tenant 0x00 user-key`.
    pub key: Arc<[u8]>,
    /// The object's name for all time; [`ObjectIncarnation::LEGACY`] for what Mooncake wrote.
    pub incarnation: ObjectIncarnation,
    /// Rises with every record ever written to the directory; 0 for what Mooncake wrote. GC keeps it.
    pub write_number: u64,
    /// Where the record begins in the data file.
    pub offset: u64,
    /// Bytes of the value, at least 1.
    pub value_len: u32,
    /// Gone for ever, and why; `None`: it is not.
    pub tombstone: Option<Tombstone>,
}

/// Why a record is gone for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tombstone {
    /// A newer record of its key was durable; also what version 1 wrote, which does not say why. Every older record of the key is gone too.
    Replaced,
    /// Its incarnation was deleted. So is every other record of that incarnation, newer ones included, and every older one of the key.
    Deleted,
}

/// What errors call a table of ours.
pub(crate) const WHAT: &str = "bucket table";

const FRAME: Frame = Frame { what: WHAT, magic: *b"PLBT", version: 2, known: "versions 1 and 2" };
/// Read, and never written: its tombstones do not say why.
const OLDEST_VERSION: u16 = 1;
/// The body's bytes before the first slot.
const BODY_HEAD_BYTES: usize = 30;
/// A slot's bytes before its key.
const SLOT_BYTES: usize = 41;
const TOMBSTONED: u8 = 1;
/// Beside [`TOMBSTONED`], and never alone.
const BY_A_DELETE: u8 = 2;

impl RecordLayout {
    /// Bytes of a record before its value.
    #[must_use]
    pub fn header_len(self, key_len: usize, value_len: u32) -> u64 {
        match self {
            Self::Checksummed => RecordHeader::encoded_len(key_len, value_len),
            Self::MooncakeRaw => key_len as u64,
        }
    }
}

impl Slot {
    /// Bytes of the whole record.
    #[must_use]
    pub fn record_len(&self, layout: RecordLayout) -> u64 {
        layout.header_len(self.key.len(), self.value_len) + u64::from(self.value_len)
    }

    /// Where the value begins in the data file.
    #[must_use]
    pub fn value_offset(&self, layout: RecordLayout) -> u64 {
        self.offset + layout.header_len(self.key.len(), self.value_len)
    }

    /// Bytes of the slot in a table.
    #[must_use]
    pub fn encoded_len(key_len: usize) -> u64 {
        (SLOT_BYTES + key_len) as u64
    }
}

impl Table {
    /// Bytes of a table without slots; with [`Slot::encoded_len`] the length of any.
    pub const EMPTY_BYTES: u64 = (Frame::BYTES + BODY_HEAD_BYTES) as u64;

    /// Bytes of the file.
    #[must_use]
    pub fn encoded_len(&self) -> u64 {
        Self::EMPTY_BYTES + self.slots.iter().map(|slot| Slot::encoded_len(slot.key.len())).sum::<u64>()
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// A table that [`Table::decode`] would refuse, or one longer than [`MAX_FILE_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let len = self.encoded_len();
        if len > MAX_FILE_BYTES {
            let (expected, found) = (MAX_FILE_BYTES, len);
            return Err(FormatError::Length { what: FRAME.what, field: "the file", offset: 0, expected, found });
        }
        self.check()?;
        let mut out = FRAME.begin(len as usize - Frame::BYTES);
        out.extend_from_slice(&[u8::from(self.layout == RecordLayout::Checksummed), 0]);
        out.extend_from_slice(&self.bucket.0.to_le_bytes());
        out.extend_from_slice(&self.age.to_le_bytes());
        out.extend_from_slice(&self.data_len.to_le_bytes());
        out.extend_from_slice(&(self.slots.len() as u32).to_le_bytes());
        for slot in &self.slots {
            out.extend_from_slice(&slot.offset.to_le_bytes());
            out.extend_from_slice(&slot.write_number.to_le_bytes());
            out.extend_from_slice(&slot.incarnation.to_bytes());
            out.extend_from_slice(&(slot.key.len() as u32).to_le_bytes());
            out.extend_from_slice(&slot.value_len.to_le_bytes());
            out.push(match slot.tombstone {
                None => 0,
                Some(Tombstone::Replaced) => TOMBSTONED,
                Some(Tombstone::Deleted) => TOMBSTONED | BY_A_DELETE,
            });
            out.extend_from_slice(&slot.key);
        }
        FRAME.end(out)
    }

    /// Reads the whole file of `bucket`, ours or Mooncake's, beside a data file of `data_file_len` bytes.
    ///
    /// # Errors
    /// [`FormatError`] for a table of another bucket, one that the data file is too short for, or anything that neither
    /// [`Table::encode`] nor Mooncake writes.
    pub fn decode(bytes: &[u8], bucket: BucketId, data_file_len: u64) -> Result<Self, FormatError> {
        let table =
            if Self::is_ours(bytes) { Self::decode_ours(bytes)? } else { mooncake::decode_table(bytes, bucket)? };
        if table.bucket != bucket {
            return Err(FormatError::in_field(FRAME.what, "bucket", 8, bucket.to_string(), table.bucket.to_string()));
        }
        table.fits(data_file_len)?;
        Ok(table)
    }

    /// Checks that a data file of that length has all that the table names.
    pub(crate) fn fits(&self, data_file_len: u64) -> Result<(), FormatError> {
        if self.data_len <= data_file_len {
            return Ok(());
        }
        let expected = format!("at most the data file's {data_file_len} bytes");
        Err(FormatError::in_field(FRAME.what, "data_len", 24, expected, self.data_len.to_string()))
    }

    /// Whether the file is one of ours: no table of Mooncake's begins with these bytes, nor can.
    #[must_use]
    pub fn is_ours(bytes: &[u8]) -> bool {
        bytes.starts_with(&FRAME.magic)
    }

    fn decode_ours(bytes: &[u8]) -> Result<Self, FormatError> {
        let (version, mut body) = FRAME.open_since(OLDEST_VERSION, bytes)?;
        let layout = match body.u8("layout")? {
            1 => RecordLayout::Checksummed,
            0 => RecordLayout::MooncakeRaw,
            found => return Err(unknown("layout", 6, "0 (Mooncake's raw) and 1", found)),
        };
        match body.u8("reserved byte")? {
            0 => {}
            found => return Err(unknown("reserved byte", 7, "0", found)),
        }
        let bucket = BucketId(body.u64("bucket")?);
        let age = body.u64("age")?;
        let data_len = body.u64("data_len")?;
        let count = body.u32("count")? as usize;
        if count > body.left() / (SLOT_BYTES + StorageKey::MIN_BYTES) {
            return Err(body.too_short("slots", count as u64 * (SLOT_BYTES + StorageKey::MIN_BYTES) as u64));
        }
        let mut slots = Vec::with_capacity(count);
        for _ in 0..count {
            slots.push(read_slot(&mut body, version)?);
        }
        body.end()?;
        let table = Self { bucket, layout, age, data_len, slots };
        table.check()?;
        Ok(table)
    }

    /// All that must hold of a table, whoever made it.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        let bad = |field, at, expected: String, found: u64| {
            Err(FormatError::in_field(FRAME.what, field, at, expected, found.to_string()))
        };
        if !self.bucket.is_valid() {
            return bad("bucket", 8, format!("1 to {}", BucketId::MAX), self.bucket.0);
        }
        if !(1..=self.bucket.0).contains(&self.age) {
            return bad("age", 16, format!("1 to the bucket's {}", self.bucket), self.age);
        }
        let mut seen = HashSet::with_capacity(self.slots.len());
        let (mut at, mut free_from) = (Frame::HEAD_BYTES + BODY_HEAD_BYTES, 0);
        for (index, slot) in self.slots.iter().enumerate() {
            free_from = self.check_slot(slot, free_from).map_err(|fault| fault.of(index, at))?;
            if !seen.insert((&*slot.key, slot.incarnation)) {
                let found = format!("{} with {} again", shown(&slot.key), slot.incarnation);
                return Err(SlotFault("key", SLOT_BYTES, "no key and incarnation twice".into(), found).of(index, at));
            }
            at += SLOT_BYTES + slot.key.len();
        }
        Ok(())
    }

    /// Gives the end of the record.
    fn check_slot(&self, slot: &Slot, free_from: u64) -> Result<u64, SlotFault> {
        let bad = |field, at, expected: String, found: String| Err(SlotFault(field, at, expected, found));
        if let Err(why) = StorageKey::check(&slot.key) {
            return bad("key", SLOT_BYTES, "a storage key".into(), why.to_string());
        }
        if slot.value_len == 0 {
            return bad("value_len", 36, "1 or more".into(), "0".into());
        }
        if slot.write_number > MAX_WRITE_NUMBER {
            return bad("write_number", 8, format!("at most {MAX_WRITE_NUMBER}"), slot.write_number.to_string());
        }
        if self.layout == RecordLayout::MooncakeRaw {
            if slot.write_number != 0 {
                return bad("write_number", 8, "0 in Mooncake's layout".into(), slot.write_number.to_string());
            }
            if slot.incarnation != ObjectIncarnation::LEGACY {
                return bad("incarnation", 16, "0 in Mooncake's layout".into(), slot.incarnation.to_string());
            }
        }
        if slot.offset < free_from {
            let expected = format!("{free_from} or more, the end of the record before");
            return bad("offset", 0, expected, slot.offset.to_string());
        }
        let end = slot.offset.checked_add(slot.record_len(self.layout)).filter(|end| *end <= self.data_len);
        let Some(end) = end else {
            let found = format!("{} and {} bytes", slot.offset, slot.record_len(self.layout));
            return bad("offset", 0, format!("a record within data_len, {}", self.data_len), found);
        };
        Ok(end)
    }
}

/// A field of a slot, where it is in the slot, what was expected and found.
struct SlotFault(&'static str, usize, String, String);

impl SlotFault {
    fn of(self, index: usize, slot_at: usize) -> FormatError {
        let Self(field, at, expected, found) = self;
        FormatError::in_field(FRAME.what, format!("slots[{index}].{field}"), (slot_at + at) as u64, expected, found)
    }
}

fn unknown(field: &'static str, offset: u64, known: &'static str, found: u8) -> FormatError {
    FormatError::UnknownVersion { what: FRAME.what, field, offset, known, found: found.into() }
}

fn read_slot(body: &mut Reader<'_>, version: u16) -> Result<Slot, FormatError> {
    let offset = body.u64("offset")?;
    let write_number = body.u64("write_number")?;
    let incarnation = ObjectIncarnation::from_bytes(body.array("incarnation")?);
    let key_len = body.u32("key_len")? as usize;
    let value_len = body.u32("value_len")?;
    let flags_at = body.at();
    let tombstone = match (body.u8("flags")?, version) {
        (0, _) => None,
        (TOMBSTONED, _) => Some(Tombstone::Replaced),
        (flags, 2..) if flags == TOMBSTONED | BY_A_DELETE => Some(Tombstone::Deleted),
        (flags, OLDEST_VERSION) => return Err(unknown("flags", flags_at, "0 and 1 (tombstoned)", flags)),
        (flags, _) => return Err(unknown("flags", flags_at, "0, 1 (replaced) and 3 (deleted)", flags)),
    };
    let key = body.bytes("key", key_len)?.into();
    Ok(Slot { key, incarnation, write_number, offset, value_len, tombstone })
}

#[cfg(test)]
mod tests;
