//! Owns a checked record together with its bytes.

use bytes::Bytes;
use ha_types::{Seq, TenantId};

use super::batch_ref::BatchRef;
use super::entries::RawEntry;
use super::error::RecordError;
use super::header::BatchHeader;
use super::varint;
use crate::EntryRef;

/// A checked batch record that keeps its bytes: entries can be had by index, and it may live as long as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    bytes: Bytes,
    header: BatchHeader,
    crc: u32,
    last_seq: Seq,
    tenants: Vec<TenantId>,
    spans: Vec<Span>,
}

/// Where an entry's parts lie in the record. A body is below 64 MiB, so 32 bits are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    op_type: u8,
    tenant: u32,
    key_at: u32,
    key_len: u32,
    payload_at: u32,
    payload_len: u32,
}

impl Span {
    fn all(batch: &BatchRef<'_>, record_bytes: usize) -> Vec<Self> {
        let mut spans = Vec::with_capacity(batch.count());
        let mut rest = batch.entry_bytes();
        while let Some((raw, after)) = RawEntry::read(rest) {
            rest = after;
            let payload_at = record_bytes - rest.len() - raw.payload.len();
            let key_at = payload_at - varint::len(raw.payload.len() as u64) - raw.key.len();
            spans.push(Self {
                op_type: raw.op_type,
                tenant: raw.tenant as u32,
                key_at: key_at as u32,
                key_len: raw.key.len() as u32,
                payload_at: payload_at as u32,
                payload_len: raw.payload.len() as u32,
            });
        }
        spans
    }
}

impl BatchRecord {
    /// Checks the whole record, as [`BatchRef::decode`] does, and keeps it without copying.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn decode(bytes: Bytes) -> Result<Self, RecordError> {
        let batch = BatchRef::decode(&bytes)?;
        let tenants = batch.tenants().iter().filter_map(|name| TenantId::new(name).ok()).collect();
        let spans = Span::all(&batch, bytes.len());
        let (header, crc, last_seq) = (*batch.header(), batch.crc(), batch.last_seq());
        Ok(Self { header, crc, last_seq, tenants, spans, bytes })
    }

    /// The record's bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its numbers.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
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
        self.spans.len()
    }

    /// Its tenants, each once, in order of first use.
    #[must_use]
    pub fn tenants(&self) -> &[TenantId] {
        &self.tenants
    }

    /// The entry `index`, from 0, or `None` at and after [`Self::count`].
    #[must_use]
    pub fn entry(&self, index: usize) -> Option<EntryRef<'_>> {
        let span = self.spans.get(index)?;
        let part = |at: u32, len: u32| {
            let (at, len) = (usize::try_from(at).ok()?, usize::try_from(len).ok()?);
            self.bytes.get(at..at.checked_add(len)?)
        };
        Some(EntryRef {
            seq: self.header.first_seq.checked_add(u64::try_from(index).ok()?)?,
            epoch: self.header.epoch,
            timestamp_ms: self.header.timestamp_ms,
            op_type: span.op_type,
            tenant: self.tenants.get(usize::try_from(span.tenant).ok()?)?.as_str(),
            key: part(span.key_at, span.key_len)?,
            payload: part(span.payload_at, span.payload_len)?,
        })
    }

    /// Its entries in order.
    pub fn entries(&self) -> impl Iterator<Item = EntryRef<'_>> {
        (0..self.count()).filter_map(|index| self.entry(index))
    }
}
