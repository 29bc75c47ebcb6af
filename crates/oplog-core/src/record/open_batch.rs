//! Owns the batch that is being filled: entries are encoded as they come, the header lands in front of them at the seal.

use bytes::Bytes;
use ha_types::{ObjectKey, TenantId};

use super::compression::BatchCompressor;
use super::entry_buffer::EntryBuffer;
use super::entry_error::EntryError;
use super::header::{BatchHeader, SealError, SealedRecord};
use super::layout::{
    FLAG_ZSTD, HEADER_BYTES, MAGIC, MAX_BATCH_ENTRIES, MAX_BODY_BYTES, MAX_COUNT_BYTES, MAX_ENTRY_FRAMING,
    MAX_FIXED_BYTES, MAX_PAYLOAD_BYTES, SCHEMA_VERSION,
};
use super::tenant_table::TenantTable;
use super::varint;
use crate::NewEntry;
use crate::crc::crc32c_after;

/// Entries encoded as they are pushed, to be sealed into one record. After a seal it is empty and ready for the next.
///
/// A push copies key and payload once; a seal copies nothing unless the batch is small beside its buffer or has very many
/// tenants. The buffer of a sealed record is used again once every clone of its [`Bytes`](bytes::Bytes) is gone.
#[derive(Debug)]
pub struct OpenBatch {
    entries: EntryBuffer,
    tenants: TenantTable,
    count: usize,
    header: Vec<u8>,
}

impl Default for OpenBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenBatch {
    /// The most bytes of a record beside what [`Self::push`] counts for its entries.
    pub const HEADER_BOUND: usize = MAX_FIXED_BYTES + 2 * MAX_COUNT_BYTES;

    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty batch whose buffer has room for a record of `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let entries = EntryBuffer::with_capacity(bytes);
        Self { entries, tenants: TenantTable::default(), count: 0, header: Vec::with_capacity(Self::HEADER_BOUND) }
    }

    /// The most bytes that `entry` can add to any batch: its own, and its tenant's if it is the first of it.
    ///
    /// An entry can be in some record of at most `limit` bytes exactly if `HEADER_BOUND + entry_len(entry) <= limit` (and
    /// [`Self::check`] allows it).
    #[must_use]
    pub fn entry_len(entry: &NewEntry<'_>) -> usize {
        own_len(entry, MAX_COUNT_BYTES).saturating_add(TenantTable::wire_len(entry.tenant))
    }

    /// Checks everything about `entry` that does not depend on the batch.
    ///
    /// # Errors
    /// [`EntryError`] names the part that is empty, overlong or not allowed.
    pub fn check(entry: &NewEntry<'_>) -> Result<(), EntryError> {
        TenantId::check(entry.tenant)?;
        check_sizes(entry)
    }

    /// Encodes `entry` as the next of this batch and says by how many bytes [`Self::bytes`] grew.
    ///
    /// # Errors
    /// [`EntryError`]; the batch is unchanged.
    // In the writer this runs under its lock.
    #[inline(always)]
    pub fn push(&mut self, entry: &NewEntry<'_>) -> Result<usize, EntryError> {
        check_sizes(entry)?;
        if self.count >= MAX_BATCH_ENTRIES {
            return Err(EntryError::BatchFull);
        }
        let parts = entry.key.len() + entry.payload.len();
        if self.bytes() + MAX_ENTRY_FRAMING + entry.tenant.len() + parts > MAX_BODY_BYTES {
            self.check_room(entry)?;
        }
        let (tenant, tenant_bytes) = self.tenants.index(entry.tenant)?;
        let entry_bytes = self.entries.push(entry, tenant);
        self.count += 1;
        Ok(entry_bytes + tenant_bytes)
    }

    #[cold]
    fn check_room(&self, entry: &NewEntry<'_>) -> Result<(), EntryError> {
        match self.bytes() + Self::entry_len(entry) {
            bytes if bytes > MAX_BODY_BYTES => Err(EntryError::BatchTooLarge { bytes }),
            _ => Ok(()),
        }
    }

    /// How many entries it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The most bytes that the record of this batch will have: exact but for the numbers of the header.
    #[must_use]
    pub fn bytes(&self) -> usize {
        Self::HEADER_BOUND + self.tenants.wire().len() + self.entries.len()
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.tenants.clear();
        self.count = 0;
    }

    /// Makes the record of these entries and leaves the batch empty.
    ///
    /// # Errors
    /// [`SealError`]; the batch is unchanged.
    pub fn seal(&mut self, header: BatchHeader) -> Result<SealedRecord, SealError> {
        self.seal_with(header, &mut BatchCompressor::off())
    }

    /// As [`Self::seal`], with the body compressed if that makes it smaller and `compressor` is for bodies of its length.
    ///
    /// # Errors
    /// [`SealError`]; the batch is unchanged.
    pub fn seal_with(
        &mut self,
        header: BatchHeader,
        compressor: &mut BatchCompressor,
    ) -> Result<SealedRecord, SealError> {
        if self.count == 0 {
            return Err(SealError::Empty);
        }
        if let Some((field, expected, found)) = header.fault() {
            return Err(SealError::Header { field, expected, found });
        }
        let count = self.count;
        let last_seq =
            header.last_seq(count).ok_or(SealError::OutOfSequences { first_seq: header.first_seq, count })?;
        self.encode_header(&header);
        let body = self.header.len() - HEADER_BYTES + self.entries.len();
        if body > MAX_BODY_BYTES {
            return Err(SealError::TooLarge { bytes: body });
        }
        let compressed = if compressor.tries(body) { self.compressed(compressor) } else { None };
        let (bytes, crc) = compressed.unwrap_or_else(|| self.entries.seal(&self.header));
        self.clear();
        Ok(SealedRecord { bytes, raw_bytes: HEADER_BYTES + body, crc, last_seq, count })
    }

    /// The record with its body compressed, and its CRC, if that is smaller. In a buffer of its own length: a store that keeps it
    /// must not keep room for the raw one.
    fn compressed(&mut self, compressor: &mut BatchCompressor) -> Option<(Bytes, u32)> {
        let raw = self.entries.behind(&self.header);
        let frame = compressor.compress(raw.get(HEADER_BYTES..)?)?;
        let crc = crc32c_after::<SCHEMA_VERSION, FLAG_ZSTD>(frame);
        let mut record = Vec::with_capacity(HEADER_BYTES + frame.len());
        record.extend_from_slice(&MAGIC);
        record.extend_from_slice(&[SCHEMA_VERSION, FLAG_ZSTD]);
        record.extend_from_slice(&crc.to_le_bytes());
        record.extend_from_slice(frame);
        Some((record.into(), crc))
    }

    fn encode_header(&mut self, header: &BatchHeader) {
        let out = &mut self.header;
        out.clear();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[SCHEMA_VERSION, 0, 0, 0, 0, 0]);
        varint::push(out, header.batch_id.get());
        varint::push(out, header.first_seq.get());
        varint::push(out, header.epoch.get());
        varint::push(out, u64::from(header.prev_crc));
        varint::push(out, header.timestamp_ms);
        varint::push(out, self.tenants.count() as u64);
        out.extend_from_slice(self.tenants.wire());
        varint::push(out, self.count as u64);
    }
}

fn check_sizes(entry: &NewEntry<'_>) -> Result<(), EntryError> {
    ObjectKey::check(entry.key)?;
    match entry.payload.len() {
        0 => Err(EntryError::PayloadEmpty),
        len if len > MAX_PAYLOAD_BYTES => Err(EntryError::PayloadTooLong { len }),
        _ => Ok(()),
    }
}

/// The bytes of an entry itself, its tenant index taking `index_bytes`.
fn own_len(entry: &NewEntry<'_>, index_bytes: usize) -> usize {
    let lengths = varint::len(entry.key.len() as u64) + varint::len(entry.payload.len() as u64);
    (1 + index_bytes + lengths).saturating_add(entry.key.len()).saturating_add(entry.payload.len())
}
