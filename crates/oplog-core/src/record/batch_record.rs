//! Owns a checked record together with its bytes.

use bytes::Bytes;
use ha_types::{Seq, TenantId};

use super::batch_ref::BatchRef;
use super::compression::BatchCompression;
use super::encoding::Encoding;
use super::entries::RawEntry;
use super::error::RecordError;
use super::header::BatchHeader;
use super::inflated::Inflated;
use super::layout::HEADER_BYTES;
use super::varint;
use crate::EntryRef;

/// A checked batch record that keeps its bytes: entries can be had by index, and it may live as long as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    bytes: Bytes,
    compression: BatchCompression,
    /// Where the spans lie: the record itself, or what was decoded of it.
    parts: Bytes,
    header: BatchHeader,
    crc: u32,
    last_seq: Seq,
    tenants: Vec<TenantId>,
    spans: Vec<Span>,
}

/// Where an entry's parts lie. A body is below 64 MiB, so 32 bits are enough.
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
    fn all(batch: &BatchRef<'_>, parts_bytes: usize) -> Vec<Self> {
        let mut spans = Vec::with_capacity(batch.count());
        let mut rest = batch.entry_bytes();
        while let Some((raw, after)) = RawEntry::read(rest) {
            rest = after;
            let payload_at = parts_bytes - rest.len() - raw.payload.len();
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
    /// Checks the whole record, as [`BatchRef::decode_in`] does, and keeps it without copying; beside a compressed one, it keeps the
    /// inflated body. With the feature `mooncake` it reads
    /// Mooncake's records, too; their keys and payloads are copied once, as JSON has them in another form.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn decode(bytes: Bytes) -> Result<Self, RecordError> {
        #[cfg(feature = "mooncake")]
        if Encoding::of(&bytes) == Encoding::MooncakeJson {
            return crate::mooncake::MooncakeBatch::decode(&bytes).map(|batch| Self::of_mooncakes(bytes, batch));
        }
        let mut room = Inflated::new();
        let batch = BatchRef::decode_in(&bytes, &mut room)?;
        let tenants = batch.tenants().iter().filter_map(|name| TenantId::new(name).ok()).collect();
        let compression = batch.compression();
        let parts_bytes = match compression {
            BatchCompression::Off => bytes.len(),
            BatchCompression::Zstd => batch.raw_bytes() - HEADER_BYTES,
        };
        let spans = Span::all(&batch, parts_bytes);
        let (header, crc, last_seq) = (*batch.header(), batch.crc(), batch.last_seq());
        let parts = match compression {
            BatchCompression::Off => bytes.clone(),
            BatchCompression::Zstd => room.into_body().into(),
        };
        Ok(Self { header, compression, crc, last_seq, tenants, spans, parts, bytes })
    }

    /// Epoch, time and the CRC of the record before are zero. Its own CRC is over all of it, so that the first record of ours binds
    /// the last one of Mooncake's.
    #[cfg(feature = "mooncake")]
    fn of_mooncakes(bytes: Bytes, batch: crate::mooncake::MooncakeBatch) -> Self {
        let (mut parts, mut tenants, mut spans) = (Vec::with_capacity(bytes.len()), Vec::new(), Vec::new());
        for entry in batch.entries {
            let tenant = tenants.iter().position(|known| *known == entry.tenant).unwrap_or(tenants.len());
            if tenant == tenants.len() {
                tenants.push(entry.tenant);
            }
            let key_at = parts.len();
            parts.extend_from_slice(&entry.key);
            let payload_at = parts.len();
            parts.extend_from_slice(&entry.payload);
            spans.push(Span {
                op_type: entry.op_type,
                tenant: tenant as u32,
                key_at: key_at as u32,
                key_len: entry.key.len() as u32,
                payload_at: payload_at as u32,
                payload_len: entry.payload.len() as u32,
            });
        }
        let header = BatchHeader {
            batch_id: batch.batch_id,
            first_seq: batch.first_seq,
            epoch: ha_types::Epoch::ZERO,
            prev_crc: 0,
            timestamp_ms: 0,
        };
        let crc = crate::crc::crc32c(&bytes);
        Self {
            parts: parts.into(),
            compression: BatchCompression::Off,
            header,
            crc,
            last_seq: batch.last_seq,
            tenants,
            spans,
            bytes,
        }
    }

    /// How it is encoded.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        Encoding::of(&self.bytes)
    }

    /// How its body is stored.
    #[must_use]
    pub fn compression(&self) -> BatchCompression {
        self.compression
    }

    /// How many bytes it would have with its body stored raw.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        match self.compression {
            BatchCompression::Off => self.bytes.len(),
            BatchCompression::Zstd => HEADER_BYTES + self.parts.len(),
        }
    }

    /// The record's bytes, as stored.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its numbers.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The CRC in its header: what the next record of ours names as `prev_crc`. Of a record of Mooncake's, the CRC-32C of all of it.
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
            self.parts.get(at..at.checked_add(len)?)
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
