//! Owns the reading of Mooncake's bucket tables, protobuf without version or checksum. It must not write any: adoption is one-way.
//!
//! Mooncake writes fields in order and omits zeros, so a table that is not the very encoding of what was read out of it holds a
//! field of a newer Mooncake, and is refused as such: skipping a field that says *deleted* would bring an object back.

use ha_types::ObjectIncarnation;
use prost::Message;

use crate::key::StorageKey;

use super::MAX_FILE_BYTES;
use super::error::{FormatError, shown};
use super::names::BucketId;
use super::table::{RecordLayout, Slot, Table};

const WHAT: &str = "bucket table of Mooncake";

#[derive(Clone, PartialEq, Message)]
struct BucketMeta {
    #[prost(int64, tag = "1")]
    data_size: i64,
    #[prost(bytes = "vec", repeated, tag = "2")]
    keys: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    metadatas: Vec<ObjectMeta>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ObjectMeta {
    #[prost(int64, tag = "1")]
    offset: i64,
    #[prost(int64, tag = "2")]
    key_size: i64,
    #[prost(int64, tag = "3")]
    data_size: i64,
}

/// Reads the whole file `<bucket>.meta`. Records have incarnation and write number 0, and none is tombstoned.
///
/// # Errors
/// [`FormatError`] for anything but a table of records that fill the data file without gap or overlap.
pub(super) fn decode_table(bytes: &[u8], bucket: BucketId) -> Result<Table, FormatError> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let (expected, found) = (MAX_FILE_BYTES, bytes.len() as u64);
        return Err(FormatError::Length { what: WHAT, field: "the file", offset: 0, expected, found });
    }
    let read = BucketMeta::decode(bytes)
        .map_err(|e| FormatError::in_field(WHAT, "the file", 0, "a protobuf message", e.to_string()))?;
    check_nothing_skipped(&read, bytes)?;
    let data_len = number("data_size", 0, read.data_size)?;
    let (keys, metadatas) = (read.keys.len(), read.metadatas.len());
    if keys != metadatas {
        let (expected, found) = (format!("as many as keys, {keys}"), metadatas.to_string());
        return Err(FormatError::in_field(WHAT, "count of metadatas", bytes.len() as u64, expected, found));
    }
    let places = Places::of(&read, bytes.len());
    let mut slots = Vec::with_capacity(keys);
    for (index, (key, meta)) in read.keys.iter().zip(&read.metadatas).enumerate() {
        slots.push(places.slot(index, key, meta)?);
    }
    slots.sort_by_key(|slot| slot.offset);
    check_tiles(&slots, data_len)?;
    let table = Table { bucket, layout: RecordLayout::MooncakeRaw, age: bucket.0, data_len, slots };
    table.check()?;
    Ok(table)
}

fn check_nothing_skipped(read: &BucketMeta, bytes: &[u8]) -> Result<(), FormatError> {
    let again = read.encode_to_vec();
    if again == bytes {
        return Ok(());
    }
    let offset = again.iter().zip(bytes).take_while(|(a, b)| a == b).count();
    let found = bytes.get(offset).copied().unwrap_or_default().into();
    let known = "data_size, keys and metadatas, in this order and without zeros";
    Err(FormatError::UnknownVersion { what: WHAT, field: "protobuf field", offset: offset as u64, known, found })
}

fn number(field: &str, offset: u64, found: i64) -> Result<u64, FormatError> {
    let negative = |_| FormatError::in_field(WHAT, field.to_owned(), offset, "0 or more", found.to_string());
    u64::try_from(found).map_err(negative)
}

/// Key bytes, value bytes, nothing else: the records fill the file.
fn check_tiles(slots: &[Slot], data_len: u64) -> Result<(), FormatError> {
    let mut end = 0_u64;
    for slot in slots {
        if slot.offset != end {
            let field = format!("offset of {}", shown(&slot.key));
            let expected = format!("{end}, the end of the record before");
            return Err(FormatError::in_field(WHAT, field, 0, expected, slot.offset.to_string()));
        }
        end = end.saturating_add(slot.record_len(RecordLayout::MooncakeRaw));
    }
    if end != data_len || slots.is_empty() {
        let (expected, found) = (format!("{data_len}, the data_size, and not 0"), end.to_string());
        return Err(FormatError::in_field(WHAT, "end of the last record", 0, expected, found));
    }
    Ok(())
}

/// Where the keys and metadatas are in the file: it is the very encoding of them.
struct Places {
    keys: u64,
    metadatas: Vec<u64>,
}

impl Places {
    fn of(read: &BucketMeta, len: usize) -> Self {
        let keys = BucketMeta { data_size: read.data_size, ..BucketMeta::default() }.encoded_len() as u64;
        let field = |meta: &ObjectMeta| 1 + prost::length_delimiter_len(meta.encoded_len()) + meta.encoded_len();
        let mut end = len - read.metadatas.iter().map(field).sum::<usize>();
        let place = |meta: &ObjectMeta| {
            let begin = end as u64;
            end += field(meta);
            begin
        };
        Self { keys, metadatas: read.metadatas.iter().map(place).collect() }
    }

    fn slot(&self, index: usize, key: &[u8], meta: &ObjectMeta) -> Result<Slot, FormatError> {
        let at = self.metadatas.get(index).copied().unwrap_or_default();
        let field = |part: &str| format!("metadatas[{index}].{part}");
        let offset = number(&field("offset"), at, meta.offset)?;
        let key_size = number(&field("key_size"), at, meta.key_size)?;
        let data_size = number(&field("data_size"), at, meta.data_size)?;
        if key_size != key.len() as u64 {
            let (expected, found) = (format!("the key's {}", key.len()), key_size.to_string());
            return Err(FormatError::in_field(WHAT, field("key_size"), at, expected, found));
        }
        let Some(value_len) = u32::try_from(data_size).ok().filter(|len| *len > 0) else {
            let (expected, found) = (format!("1 to {}", u32::MAX), data_size.to_string());
            return Err(FormatError::in_field(WHAT, field("data_size"), at, expected, found));
        };
        StorageKey::check(key).map_err(|e| {
            FormatError::in_field(WHAT, format!("keys[{index}]"), self.keys, "a storage key", e.to_string())
        })?;
        let incarnation = ObjectIncarnation::LEGACY;
        Ok(Slot { key: key.into(), incarnation, write_number: 0, offset, value_len, tombstone: None })
    }
}

/// The table of these records, which follow one another in the data file.
#[cfg(any(test, feature = "test-kit"))]
pub(super) fn encode_table(records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut meta = BucketMeta::default();
    for (key, value) in records {
        let (key_size, data_size) = (key.len() as i64, value.len() as i64);
        meta.keys.push(key.to_vec());
        meta.metadatas.push(ObjectMeta { offset: meta.data_size, key_size, data_size });
        meta.data_size += key_size + data_size;
    }
    meta.encode_to_vec()
}

#[cfg(test)]
mod tests;
