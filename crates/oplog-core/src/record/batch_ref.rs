//! Owns a record that was checked as a whole and is read in place.

use ha_types::Seq;

use super::body_sum::BodySum;
use super::compression::BatchCompression;
use super::entries::{Entries, RawEntry};
use super::error::{RecordError, RecordErrorKind};
use super::header::BatchHeader;
use super::inflated::{Inflated, not_in_place};
use super::layout::{
    FLAG_ZSTD, FLAGS_AT, HEADER_BYTES, MAGIC, MAX_BATCH_ENTRIES, MAX_BODY_BYTES, MIN_ENTRY_BYTES, SCHEMA_VERSION,
};
use super::reader::Reader;
use super::tenants::Tenants;
use crate::crc::crc32c_after;

/// A checked batch record, borrowed from its bytes.
///
/// Whoever has one knows that magic, version, flags and checksum are right and that every constraint of RFC batch record §2
/// holds; walking [`Self::entries`] cannot fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRef<'a> {
    header: BatchHeader,
    compression: BatchCompression,
    raw_bytes: usize,
    crc: u32,
    last_seq: Seq,
    count: usize,
    tenants: Tenants<'a>,
    entries: &'a [u8],
}

impl<'a> BatchRef<'a> {
    /// Checks the whole record, whose body must be raw. Allocates only where it has several tenants, and then within the size of
    /// the record. What may be compressed is for [`Self::decode_in`].
    ///
    /// # Errors
    /// [`RecordError`] names the field, its offset, what had to be there and what is; of kind
    /// [`Compressed`](RecordErrorKind::Compressed) for a compressed body.
    pub fn decode(record: &'a [u8]) -> Result<Self, RecordError> {
        let stored = Opened::of(record)?;
        match stored.compression {
            BatchCompression::Off => Self::raw(stored),
            BatchCompression::Zstd => Err(not_in_place()),
        }
    }

    /// Checks the whole record; a compressed body is inflated into `room` and read there.
    ///
    /// # Errors
    /// As [`Self::decode`], but that a build with the feature `zstd` reads compressed bodies. One that inflates to more than 64 MiB
    /// is refused before memory is allocated for it.
    pub fn decode_in(record: &'a [u8], room: &'a mut Inflated) -> Result<Self, RecordError> {
        let stored = Opened::of(record)?;
        match stored.compression {
            BatchCompression::Off => Self::raw(stored),
            BatchCompression::Zstd => {
                // Only bytes that were written are inflated.
                BodySum::compare(crc32c_after::<SCHEMA_VERSION, FLAG_ZSTD>(stored.body), stored.crc)?;
                Self::parse(&stored, room.inflate(stored.body)?, &mut BodySum::new(&[]))
            }
        }
    }

    fn raw(stored: Opened<'a>) -> Result<Self, RecordError> {
        let mut sum = BodySum::new(stored.body);
        let batch = Self::parse(&stored, stored.body, &mut sum);
        // Whatever the bytes may say: if they are not the ones that were written, that is what is wrong with them.
        sum.check(stored.crc)?;
        batch
    }

    fn parse(stored: &Opened<'_>, body: &'a [u8], sum: &mut BodySum<'a>) -> Result<Self, RecordError> {
        let mut reader = Reader::new(body, HEADER_BYTES);
        let header = read_header(&mut reader)?;
        let tenants = Tenants::read(&mut reader)?;
        let count_at = reader.offset();
        let count = reader.number("entry count", u64::MAX)?;
        let most = (reader.left() / MIN_ENTRY_BYTES).min(MAX_BATCH_ENTRIES);
        let count = usize::try_from(count).ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| {
            let expected = format_args!("1 to {most} entries, as many as the bytes left can hold");
            RecordError::new(RecordErrorKind::Malformed, "entry count", count_at, expected, count)
        })?;
        let last_seq = header.last_seq(count).ok_or_else(|| {
            let expected = "a last sequence that leaves room for the next one";
            let found = format_args!("{count} entries from sequence {}", header.first_seq);
            RecordError::new(RecordErrorKind::Constraint, "entry count", count_at, expected, found)
        })?;
        let (compression, raw_bytes) = (stored.compression, HEADER_BYTES + body.len());
        let entries = reader.rest();
        let batch = Self { header, compression, raw_bytes, crc: stored.crc, last_seq, count, tenants, entries };
        batch.check_entries(reader.offset(), sum)?;
        Ok(batch)
    }

    /// `offset` is where the entries begin in the record.
    fn check_entries(&self, offset: usize, sum: &mut BodySum<'a>) -> Result<(), RecordError> {
        let mut tenants_seen = 0_u64;
        let tenants = self.tenants.as_slice().len() as u64;
        let mut rest = self.entries;
        let at = |rest: &[u8]| offset + self.entries.len() - rest.len();
        for index in 0..self.count {
            sum.keep_ahead_of(rest.len());
            match RawEntry::read(rest) {
                Some((raw, after)) if raw.is_within_limits() && raw.tenant <= tenants_seen && raw.tenant < tenants => {
                    tenants_seen += u64::from(raw.tenant == tenants_seen);
                    rest = after;
                }
                _ => {
                    let most = tenants_seen.min(tenants.saturating_sub(1));
                    return Err(RawEntry::fault(Reader::new(rest, at(rest)), index, most));
                }
            }
        }
        if tenants_seen != tenants {
            let expected = format_args!("{tenants_seen} tenants, as many as the entries use");
            return Err(RecordError::new(RecordErrorKind::Constraint, "tenants", HEADER_BYTES, expected, tenants));
        }
        if !rest.is_empty() {
            let found = format_args!("{} more bytes", rest.len());
            return Err(RecordError::new(RecordErrorKind::Malformed, "end", at(rest), "the end of the record", found));
        }
        Ok(())
    }

    /// Its numbers.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// How its body is stored.
    #[must_use]
    pub fn compression(&self) -> BatchCompression {
        self.compression
    }

    /// How many bytes it would have with its body stored raw.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// The CRC in its header: what the next record names as `prev_crc`.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// The sequence of its last entry.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    /// How many entries it has; at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Its tenants, each once, in order of first use.
    #[must_use]
    pub fn tenants(&self) -> &[&'a str] {
        self.tenants.as_slice()
    }

    #[inline]
    pub(super) fn tenant(&self, index: u64) -> Option<&'a str> {
        self.tenants.get(index)
    }

    /// The bytes of its entries, which are the last ones of the record.
    pub(super) fn entry_bytes(&self) -> &'a [u8] {
        self.entries
    }

    /// Its entries in order.
    #[must_use]
    pub fn entries(&self) -> Entries<'_, 'a> {
        Entries { batch: self, rest: self.entries, seq: self.header.first_seq, left: self.count }
    }
}

/// A record whose ten bytes in front of the body were checked but for the CRC.
struct Opened<'a> {
    compression: BatchCompression,
    crc: u32,
    body: &'a [u8],
}

impl<'a> Opened<'a> {
    fn of(record: &'a [u8]) -> Result<Self, RecordError> {
        use RecordErrorKind::{Flags, TooLarge, Truncated, Version};
        if let Some((found, kind)) = foreign(record) {
            return Err(RecordError::new(kind, "magic", 0, "PLB1", found));
        }
        let (Some([version, flags, crc @ ..]), Some(body)) =
            (record.get(MAGIC.len()..HEADER_BYTES), record.get(HEADER_BYTES..))
        else {
            let found = format_args!("{} before the end of the record", record.len());
            return Err(RecordError::new(Truncated, "header", 0, format_args!("{HEADER_BYTES} bytes"), found));
        };
        if *version != SCHEMA_VERSION {
            let expected = format_args!("{SCHEMA_VERSION}, the only one that this build reads");
            return Err(RecordError::new(Version, "schema version", MAGIC.len(), expected, version));
        }
        if flags & !FLAG_ZSTD != 0 {
            let expected = format_args!("no flag but {FLAG_ZSTD:#04x}, a zstd body");
            return Err(RecordError::new(Flags, "flags", FLAGS_AT, expected, format_args!("{flags:#04x}")));
        }
        if body.len() > MAX_BODY_BYTES {
            let expected = format_args!("at most {MAX_BODY_BYTES} bytes");
            return Err(RecordError::new(TooLarge, "body", HEADER_BYTES, expected, body.len()));
        }
        let crc = crc.iter().rev().fold(0_u32, |crc, byte| (crc << 8) | u32::from(*byte));
        let compression = if *flags == FLAG_ZSTD { BatchCompression::Zstd } else { BatchCompression::Off };
        Ok(Self { compression, crc, body })
    }
}

/// What bytes without our magic are.
fn foreign(record: &[u8]) -> Option<(String, RecordErrorKind)> {
    match record {
        [] => Some(("an empty value".into(), RecordErrorKind::Truncated)),
        [b'[', ..] => {
            Some(("Mooncake's JSON batch record, which this build does not read".into(), RecordErrorKind::Foreign))
        }
        _ => {
            let start = record.get(..MAGIC.len()).unwrap_or(record);
            match start == MAGIC {
                true => None,
                false if MAGIC.starts_with(start) => {
                    Some((format!("the first {} bytes of it", start.len()), RecordErrorKind::Truncated))
                }
                false => Some((format!("\"{}\"", start.escape_ascii()), RecordErrorKind::Foreign)),
            }
        }
    }
}

fn read_header(reader: &mut Reader<'_>) -> Result<BatchHeader, RecordError> {
    let header = BatchHeader {
        batch_id: ha_types::BatchId::new(reader.number("batch_id", u64::MAX)?),
        first_seq: Seq::new(reader.number("first_seq", u64::MAX)?),
        epoch: ha_types::Epoch::new(reader.number("epoch", u64::MAX)?),
        prev_crc: u32::try_from(reader.number("prev_crc", u64::from(u32::MAX))?).unwrap_or_default(),
        timestamp_ms: reader.number("timestamp_ms", u64::MAX)?,
    };
    match header.fault() {
        None => Ok(header),
        Some((field, expected, found)) => {
            Err(RecordError::new(RecordErrorKind::Constraint, field, HEADER_BYTES, expected, found))
        }
    }
}
