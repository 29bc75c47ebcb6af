//! Owns the reading of one batch record of Mooncake's: a compact JSON array with a checksum as its last element.

use std::borrow::Cow;
use std::hash::Hasher as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ha_types::{BatchId, Seq, TenantId};
use twox_hash::XxHash32;

use super::json::{Part, Wrong};
use crate::record::{MAX_BODY_BYTES, MAX_PAYLOAD_BYTES, RecordError, RecordErrorKind};

/// The most entries of one record.
pub const MAX_BATCH_ENTRIES: usize = 1024;

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4096;

const SCHEMA_VERSION: u64 = 1;

/// The largest number that leaves room for the next one.
const MOST: u64 = u64::MAX - 1;

/// A checked batch record of Mooncake's.
///
/// Whoever has one knows that shape, schema version, checksum, limits and sequences are right. What it does not have, and ours
/// has: an epoch (it reads as 0), the CRC of the batch before, a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MooncakeBatch {
    /// Its id; 1 is the first.
    pub batch_id: BatchId,
    /// The sequence of its first entry; the others follow by one.
    pub first_seq: Seq,
    /// The sequence of its last entry.
    pub last_seq: Seq,
    /// At least one.
    pub entries: Vec<MooncakeEntry>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MooncakeEntry {
    /// What it does; opaque to the log.
    pub op_type: u8,
    /// The tenant.
    pub tenant: TenantId,
    /// The key, at most [`MAX_KEY_BYTES`]; may be empty.
    pub key: Vec<u8>,
    /// The payload; may be empty.
    pub payload: Vec<u8>,
}

/// `[1,batch_id,first_seq,last_seq,[entries],checksum]`, cut into its parts.
struct Parts<'a> {
    version: Part<'a>,
    batch_id: Part<'a>,
    first_seq: Part<'a>,
    last_seq: Part<'a>,
    entries: Part<'a>,
    checksum: Part<'a>,
}

impl MooncakeBatch {
    /// Checks the whole record.
    ///
    /// # Errors
    /// [`RecordError`] names the field, its offset, what had to be there and what is.
    pub fn decode(record: &[u8]) -> Result<Self, RecordError> {
        if record.len() > MAX_BODY_BYTES {
            let expected = format_args!("at most {MAX_BODY_BYTES} bytes");
            return Err(RecordError::new(RecordErrorKind::TooLarge, "batch", 0, expected, record.len()));
        }
        let parts = Parts::cut(record)?;
        let version = number(parts.version, "schema version", MOST)?;
        if version != SCHEMA_VERSION {
            let expected = format_args!("{SCHEMA_VERSION}, the only one that this build reads");
            let at = parts.version.at;
            return Err(RecordError::new(RecordErrorKind::Version, "schema version", at, expected, version));
        }
        // Whatever the bytes may say: if they are not the ones that were written, that is what is wrong with them.
        parts.check_sum(record)?;
        let batch_id = positive(parts.batch_id, "batch_id")?;
        let first_seq = positive(parts.first_seq, "first_seq")?;
        let last_seq = positive(parts.last_seq, "last_seq")?;
        if first_seq < batch_id {
            let expected = format_args!("at least {batch_id}, as every batch has an entry");
            return Err(constraint("first_seq", parts.first_seq.at, expected, first_seq));
        }
        let entries = read_entries(parts.entries)?;
        let steps = u64::try_from(entries.len()).unwrap_or(u64::MAX).saturating_sub(1);
        if first_seq.checked_add(steps) != Some(last_seq) {
            let expected = format_args!("{} entries from {first_seq} on, so {first_seq} + {steps}", entries.len());
            return Err(constraint("last_seq", parts.last_seq.at, expected, last_seq));
        }
        Ok(Self {
            batch_id: BatchId::new(batch_id),
            first_seq: Seq::new(first_seq),
            last_seq: Seq::new(last_seq),
            entries,
        })
    }
}

impl<'a> Parts<'a> {
    fn cut(record: &'a [u8]) -> Result<Self, RecordError> {
        let whole = Part::whole(record).map_err(|w| malformed("batch", w))?;
        let parts = whole.elements(6, "an array of six elements").map_err(|w| malformed("batch", w))?;
        match parts.as_slice() {
            &[version, batch_id, first_seq, last_seq, entries, checksum] => {
                Ok(Self { version, batch_id, first_seq, last_seq, entries, checksum })
            }
            other => Err(malformed("batch", Wrong::new(whole.at, "an array of six elements", other.len()))),
        }
    }

    /// XXH32 over the text of the array without its last element: up to the comma before it, closed again.
    fn check_sum(&self, record: &[u8]) -> Result<(), RecordError> {
        let written = number(self.checksum, "checksum", u64::from(u32::MAX))?;
        let mut sum = XxHash32::with_seed(0);
        sum.write(record.get(..self.entries.end()).unwrap_or_default());
        sum.write(b"]");
        let found = sum.finish_32();
        if u64::from(found) == written {
            return Ok(());
        }
        let expected = format_args!("{found}, the XXH32 of the array without it");
        Err(RecordError::new(RecordErrorKind::Checksum, "checksum", self.checksum.at, expected, written))
    }
}

fn read_entries(entries: Part<'_>) -> Result<Vec<MooncakeEntry>, RecordError> {
    let what = "an array of entries";
    let parts = entries.elements(MAX_BATCH_ENTRIES, what).map_err(|w| malformed("entries", w))?;
    if parts.is_empty() {
        return Err(constraint("entries", entries.at, "at least one entry", "none"));
    }
    let mut read: Vec<MooncakeEntry> = Vec::with_capacity(parts.len());
    for part in parts {
        let last = read.last().map(|entry| &entry.tenant);
        let entry = read_entry(part, last)?;
        read.push(entry);
    }
    Ok(read)
}

/// `last` is the tenant of the entry before, which mostly is this one's, too.
fn read_entry(entry: Part<'_>, last: Option<&TenantId>) -> Result<MooncakeEntry, RecordError> {
    let what = "an array of op type, tenant, key and payload";
    let parts = entry.elements(4, what).map_err(|w| malformed("entry", w))?;
    let &[op, tenant, key, payload] = parts.as_slice() else {
        return Err(malformed("entry", Wrong::new(entry.at, what, format_args!("{} elements", parts.len()))));
    };
    let op_type = u8::try_from(number(op, "op type", u64::from(u8::MAX))?).unwrap_or_default();
    let name = string(tenant, "tenant")?;
    let tenant = match last {
        Some(last) if last.as_str() == name => last.clone(),
        _ => TenantId::new(&name).map_err(|e| {
            let expected = "a tenant id of 1 to 128 bytes without control characters or leading '_'";
            constraint("tenant", tenant.at, expected, e)
        })?,
    };
    let text = string(key, "key")?;
    if text.len() > MAX_KEY_BYTES {
        return Err(constraint("key", key.at, format_args!("at most {MAX_KEY_BYTES} bytes"), text.len()));
    }
    Ok(MooncakeEntry { op_type, tenant, key: text.into_owned().into_bytes(), payload: read_payload(payload)? })
}

fn read_payload(payload: Part<'_>) -> Result<Vec<u8>, RecordError> {
    let text = string(payload, "payload")?;
    let too_large =
        |found| Err(constraint("payload", payload.at, format_args!("at most {MAX_PAYLOAD_BYTES} bytes"), found));
    // Four characters for three bytes, so that nothing is decoded that is certainly too large.
    let about = text.len() / 4 * 3;
    if about > MAX_PAYLOAD_BYTES + 2 {
        return too_large(about);
    }
    match STANDARD.decode(text.as_bytes()) {
        Ok(bytes) if bytes.len() > MAX_PAYLOAD_BYTES => too_large(bytes.len()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(malformed("payload", Wrong::new(payload.at, "padded standard base64", error))),
    }
}

fn number(part: Part<'_>, field: &'static str, most: u64) -> Result<u64, RecordError> {
    part.number(most).map_err(|w| malformed(field, w))
}

fn positive(part: Part<'_>, field: &'static str) -> Result<u64, RecordError> {
    match number(part, field, MOST)? {
        0 => Err(constraint(field, part.at, "a number above 0 that leaves room for the next one", 0)),
        value => Ok(value),
    }
}

fn string<'a>(part: Part<'a>, field: &'static str) -> Result<Cow<'a, str>, RecordError> {
    part.string().map_err(|w| malformed(field, w))
}

#[cold]
fn malformed(field: &'static str, wrong: Wrong) -> RecordError {
    RecordError::new(RecordErrorKind::Malformed, field, wrong.at, wrong.expected, wrong.found)
}

#[cold]
fn constraint(
    field: &'static str,
    at: usize,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> RecordError {
    RecordError::new(RecordErrorKind::Constraint, field, at, expected, found)
}
