//! Owns the buffer that entries are encoded into: room in front for the header, room behind for more, and the buffers of sealed
//! records, which come back once nobody holds them.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use super::layout::{CRC_AT, HEADER_BYTES, MAX_BODY_BYTES, MAX_ENTRY_FRAMING, SCHEMA_VERSION};
use super::varint;
use crate::NewEntry;
use crate::crc::crc32c_after;

/// Room kept in front of the entries for the header and a few tenants.
const HEADROOM: usize = 256;

/// Buffers remembered until whoever holds their record lets go of it: one in flight and one being filled need two.
const SPARES: usize = 2;

#[derive(Debug)]
pub(super) struct EntryBuffer {
    /// Initialised to its end, so that an entry is written with one check of its room. Empty until the first entry: by then the
    /// record before may have been let go of, and its buffer is still in the cache.
    bytes: BytesMut,
    /// How large a new buffer is.
    capacity: usize,
    headroom: usize,
    end: usize,
    /// The buffers of sealed records, the newest last.
    spares: [Option<Bytes>; SPARES],
}

impl EntryBuffer {
    pub(super) fn with_capacity(record_bytes: usize) -> Self {
        let capacity = record_bytes.min(MAX_BODY_BYTES) + HEADROOM;
        Self { bytes: BytesMut::new(), capacity, headroom: HEADROOM, end: HEADROOM, spares: [None, None] }
    }

    /// How many bytes of entries it has.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end - self.headroom
    }

    pub(super) fn clear(&mut self) {
        self.end = self.headroom;
    }

    /// Encodes an entry that was checked, and says how many bytes it took.
    #[inline]
    pub(super) fn push(&mut self, entry: &NewEntry<'_>, tenant: u32) -> usize {
        let end = loop {
            let room = self.bytes.get_mut(self.end..).unwrap_or_default();
            match write(room, entry, tenant) {
                Some(left) => break self.bytes.len() - left,
                None => self.grow(MAX_ENTRY_FRAMING + entry.key.len() + entry.payload.len()),
            }
        };
        let written = end - self.end;
        self.end = end;
        written
    }

    #[cold]
    fn grow(&mut self, by: usize) {
        if self.bytes.is_empty() {
            self.bytes = self.take_spare().unwrap_or_else(|| BytesMut::zeroed(self.capacity));
        }
        let needed = self.end.saturating_add(by);
        if self.bytes.len() < needed {
            self.bytes.resize(needed.max(self.bytes.len().saturating_mul(2)), 0);
        }
    }

    /// A buffer whose record everybody has let go of.
    fn take_spare(&mut self) -> Option<BytesMut> {
        self.spares.iter_mut().rev().find_map(|slot| match slot.take()?.try_into_mut() {
            Ok(buffer) => Some(buffer),
            Err(held) => {
                *slot = Some(held);
                None
            }
        })
    }

    /// The record of `header` and the entries, and its CRC; the buffer is empty afterwards.
    ///
    /// It hands over the buffer with the header in front of the entries, or a copy where the buffer is much larger than the record
    /// or has no room in front: a store that keeps the bytes must not keep a large buffer for a small record.
    pub(super) fn seal(&mut self, header: &[u8]) -> (Bytes, u32) {
        let record = header.len() + self.len();
        let start = self.headroom.checked_sub(header.len()).filter(|_| record >= self.bytes.len() / 2);
        if let Some(start) = start
            && let Some(place) = self.bytes.get_mut(start..self.headroom)
        {
            place.copy_from_slice(header);
            let crc = put_crc(self.bytes.get_mut(start..self.end).unwrap_or_default());
            let whole = std::mem::take(&mut self.bytes).freeze();
            let bytes = whole.slice(start..self.end);
            self.keep(whole);
            self.clear();
            return (bytes, crc);
        }
        let mut copy = Vec::with_capacity(record);
        copy.extend_from_slice(header);
        copy.extend_from_slice(self.bytes.get(self.headroom..self.end).unwrap_or_default());
        let crc = put_crc(&mut copy);
        self.headroom = self.headroom.max(header.len().next_multiple_of(HEADROOM));
        self.clear();
        (Bytes::from(copy), crc)
    }

    /// The entries behind `header` in one piece; they stay in the buffer.
    pub(super) fn behind(&mut self, header: &[u8]) -> Cow<'_, [u8]> {
        let start = self.headroom.checked_sub(header.len());
        if let Some(place) = start.and_then(|start| self.bytes.get_mut(start..self.headroom)) {
            place.copy_from_slice(header);
        }
        match start {
            Some(start) => Cow::Borrowed(self.bytes.get(start..self.end).unwrap_or_default()),
            None => {
                let entries = self.bytes.get(self.headroom..self.end).unwrap_or_default();
                Cow::Owned([header, entries].concat())
            }
        }
    }

    fn keep(&mut self, sealed: Bytes) {
        self.capacity = self.capacity.max(sealed.len());
        self.spares.rotate_left(1);
        if let Some(slot) = self.spares.last_mut() {
            *slot = Some(sealed);
        }
    }
}

/// Writes the entry to the start of `room` and says how much is left of it, or `None` if it is too small.
#[inline(always)]
fn write(room: &mut [u8], entry: &NewEntry<'_>, tenant: u32) -> Option<usize> {
    let (key, payload) = (entry.key, entry.payload);
    if tenant >= 0x80 || key.len() >= 0x80 || !(0x80..0x4000).contains(&payload.len()) {
        return write_any(room, entry, tenant);
    }
    let (head, room) = room.split_first_chunk_mut()?;
    *head = [entry.op_type, tenant as u8, key.len() as u8];
    let (place, room) = room.split_at_mut_checked(key.len())?;
    copy_key(place, key);
    let (length, room) = room.split_first_chunk_mut()?;
    *length = [(payload.len() as u8) | 0x80, (payload.len() >> 7) as u8];
    let (place, room) = room.split_at_mut_checked(payload.len())?;
    place.copy_from_slice(payload);
    Some(room.len())
}

/// Copies `key` to a place of its length: the usual lengths as two overlapping pieces, without a call.
#[inline(always)]
fn copy_key(place: &mut [u8], key: &[u8]) {
    if (16..=32).contains(&key.len())
        && let (Some(first), Some(last)) = (key.first_chunk::<16>(), key.last_chunk::<16>())
        && let Some(to) = place.first_chunk_mut()
    {
        *to = *first;
        if let Some(to) = place.last_chunk_mut() {
            *to = *last;
        }
        return;
    }
    place.copy_from_slice(key);
}

/// [`write`] for numbers of any length.
fn write_any(room: &mut [u8], entry: &NewEntry<'_>, tenant: u32) -> Option<usize> {
    let (op_type, room) = room.split_first_mut()?;
    *op_type = entry.op_type;
    let room = varint::write(room, u64::from(tenant))?;
    let room = varint::write(room, entry.key.len() as u64)?;
    let (place, room) = room.split_at_mut_checked(entry.key.len())?;
    place.copy_from_slice(entry.key);
    let room = varint::write(room, entry.payload.len() as u64)?;
    let (place, room) = room.split_at_mut_checked(entry.payload.len())?;
    place.copy_from_slice(entry.payload);
    Some(room.len())
}

/// Computes the CRC of a whole record and writes it to its place.
fn put_crc(record: &mut [u8]) -> u32 {
    let crc = crc32c_after::<SCHEMA_VERSION, 0>(record.get(HEADER_BYTES..).unwrap_or_default());
    if let Some(place) = record.get_mut(CRC_AT..HEADER_BYTES) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
    crc
}
