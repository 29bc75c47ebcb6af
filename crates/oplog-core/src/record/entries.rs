//! Owns the walk over the entries of a record that was checked as a whole.

use ha_types::{ObjectKey, Seq};

use super::batch_ref::BatchRef;
use super::error::{RecordError, RecordErrorKind};
use super::layout::MAX_PAYLOAD_BYTES;
use super::reader::{Reader, take, varint};
use crate::EntryRef;

/// One entry as it lies in the record.
pub(super) struct RawEntry<'a> {
    pub(super) op_type: u8,
    pub(super) tenant: u64,
    pub(super) key: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl<'a> RawEntry<'a> {
    /// The entry at the start of `bytes` and what follows it. Values in and out, so that a walk stays in registers.
    #[inline(always)]
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (op_type, rest) = bytes.split_first()?;
        let (tenant, rest) = varint(rest)?;
        let (key_len, rest) = varint(rest)?;
        let (key, rest) = take(rest, key_len)?;
        let (payload_len, rest) = varint(rest)?;
        let (payload, rest) = take(rest, payload_len)?;
        Some((Self { op_type: *op_type, tenant, key, payload }, rest))
    }

    #[inline]
    pub(super) fn is_within_limits(&self) -> bool {
        (1..=ObjectKey::MAX_BYTES).contains(&self.key.len()) && (1..=MAX_PAYLOAD_BYTES).contains(&self.payload.len())
    }

    /// Why [`Self::read`] gave nothing, or gave something that may not be, at `reader`.
    #[cold]
    pub(super) fn fault(mut reader: Reader<'a>, index: usize, tenants_seen: u64) -> RecordError {
        match Self::find_fault(&mut reader, index, tenants_seen) {
            Err(error) => error,
            Ok(()) => {
                RecordError::new(RecordErrorKind::Malformed, "entry", reader.offset(), "an entry", "one that is not")
            }
        }
    }

    fn find_fault(reader: &mut Reader<'a>, index: usize, tenants_seen: u64) -> Result<(), RecordError> {
        let constraint = |field, offset, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
            let found = format_args!("{found} in entry {index}");
            Err(RecordError::new(RecordErrorKind::Constraint, field, offset, expected, found))
        };
        if reader.byte().is_none() {
            return Err(reader.short("op type", 1));
        }
        let offset = reader.offset();
        let tenant = reader.number("tenant index", u64::MAX)?;
        if tenant > tenants_seen {
            let expected = format_args!("a tenant of this batch, in order of first use: at most {tenants_seen}");
            return constraint("tenant index", offset, &expected, &tenant);
        }
        let offset = reader.offset();
        let key_len = reader.number("key length", u64::MAX)?;
        if !(1..=ObjectKey::MAX_BYTES as u64).contains(&key_len) {
            let expected = format_args!("1 to {} bytes", ObjectKey::MAX_BYTES);
            return constraint("key length", offset, &expected, &key_len);
        }
        reader.field("key", key_len)?;
        let offset = reader.offset();
        let payload_len = reader.number("payload length", u64::MAX)?;
        if !(1..=MAX_PAYLOAD_BYTES as u64).contains(&payload_len) {
            let expected = format_args!("1 to {MAX_PAYLOAD_BYTES} bytes");
            return constraint("payload length", offset, &expected, &payload_len);
        }
        reader.field("payload", payload_len)?;
        Ok(())
    }
}

/// The entries of one record in order. Allocates nothing.
#[derive(Clone, Debug)]
pub struct Entries<'r, 'a> {
    pub(super) batch: &'r BatchRef<'a>,
    pub(super) rest: &'a [u8],
    pub(super) seq: Seq,
    pub(super) left: usize,
}

impl<'a> Iterator for Entries<'_, 'a> {
    type Item = EntryRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EntryRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (raw, rest) = RawEntry::read(self.rest)?;
        self.rest = rest;
        let header = self.batch.header();
        let seq = self.seq;
        self.seq = seq.next()?;
        Some(EntryRef {
            seq,
            epoch: header.epoch,
            timestamp_ms: header.timestamp_ms,
            op_type: raw.op_type,
            tenant: self.batch.tenant(raw.tenant)?,
            key: raw.key,
            payload: raw.payload,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Entries<'_, '_> {}
