//! Owns the judge's own reading of a batch record (`docs/formats/batch-record.md`).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

use std::io::Read;

use super::bytes::Bytes;
use super::crc::crc32c;

/// The longest body, inflated or not.
const MAX_BODY_BYTES: u64 = 64 << 20;

/// One batch as it lies in the store.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) batch_id: u64,
    pub(super) first_seq: u64,
    pub(super) epoch: u64,
    pub(super) prev_crc: u32,
    pub(super) crc: u32,
    pub(super) entries: Vec<Entry<'a>>,
}

/// One entry; its sequence is the batch's first plus its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) op: u8,
    pub(super) tenant: &'a str,
    pub(super) key: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads and checks one value; a compressed body is inflated into `room`.
    pub(super) fn parse(value: &'a [u8], room: &'a mut Vec<u8>) -> Result<Self, String> {
        let mut bytes = Bytes::new(value);
        if bytes.take(4)? != b"PLB1" {
            return Err("it does not start with PLB1".into());
        }
        let head = bytes.take(2)?;
        if !matches!(head, [1, 0 | 1]) {
            return Err(format!("its version and flags are {head:?}, known are [1, 0] and [1, 1]"));
        }
        let crc = u32::from_le_bytes(bytes.take(4)?.try_into().map_err(|_| "no checksum")?);
        let body = value.get(10..).unwrap_or_default();
        let computed = crc32c(&[head, body]);
        if crc != computed {
            return Err(format!("its checksum is {crc:08x}, computed {computed:08x}"));
        }
        if head == [1, 1] {
            inflate(body, room)?;
            bytes = Bytes::new(room);
        }
        let (batch_id, first_seq, epoch) = (bytes.number()?, bytes.number()?, bytes.number()?);
        let prev_crc = u32::try_from(bytes.number()?).map_err(|_| "the previous checksum has more than 32 bits")?;
        let _timestamp_ms = bytes.number()?;
        let mut tenants = Vec::new();
        for _ in 0..bytes.number()? {
            tenants.push(bytes.text()?);
        }
        let mut entries = Vec::new();
        for _ in 0..bytes.number()? {
            entries.push(Entry::parse(&mut bytes, &tenants)?);
        }
        bytes.end()?;
        Ok(Self { batch_id, first_seq, epoch, prev_crc, crc, entries })
    }
}

/// Inflates the one zstd frame that `frame` must be.
fn inflate(frame: &[u8], room: &mut Vec<u8>) -> Result<(), String> {
    let bad = |e: &dyn std::fmt::Display| format!("its body is no zstd frame: {e}");
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(frame).map_err(|e| bad(&e))?;
    room.clear();
    decoder.by_ref().take(MAX_BODY_BYTES + 1).read_to_end(room).map_err(|e| bad(&e))?;
    if room.len() as u64 > MAX_BODY_BYTES {
        return Err(format!("its body inflates to more than {MAX_BODY_BYTES} bytes"));
    }
    match decoder.get_ref().len() {
        0 => Ok(()),
        more => Err(format!("{more} bytes follow the frame of its body")),
    }
}

impl<'a> Entry<'a> {
    fn parse(bytes: &mut Bytes<'a>, tenants: &[&'a str]) -> Result<Self, String> {
        let op = bytes.byte()?;
        let index = bytes.number()?;
        let tenant = usize::try_from(index).ok().and_then(|i| tenants.get(i)).copied();
        let tenant = tenant.ok_or_else(|| format!("it names tenant {index} of {}", tenants.len()))?;
        Ok(Self { op, tenant, key: bytes.piece()?, payload: bytes.piece()? })
    }
}
