//! Owns the payloads of SEGMENT_MOUNT, SEGMENT_UPDATE and SEGMENT_UNMOUNT.

use super::error::StructPackError;
use super::header::Header;
use super::reader::Reader;

const MOUNT: u32 = 0x7b47_0444;
const UNMOUNT: u32 = 0x3c78_5b6a;

/// The full state of a segment: what SEGMENT_MOUNT and SEGMENT_UPDATE carry alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMountPayload {
    /// Its name.
    pub name: String,
    /// Where it is reached. This names it in every later entry.
    pub endpoint: String,
    /// Its bytes.
    pub capacity: u64,
    /// Whether it is memory.
    pub is_memory: bool,
    /// Its file, where it has one.
    pub file_path: String,
}

/// Which segment left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentUnmountPayload {
    /// Where it was reached.
    pub endpoint: String,
}

impl SegmentMountPayload {
    /// Reads the payload.
    ///
    /// # Errors
    /// [`StructPackError`] names the field, its offset, what had to be there and what is.
    pub fn decode(payload: &[u8]) -> Result<Self, StructPackError> {
        decode("SegmentMount", MOUNT, payload, |reader| {
            Ok(Self {
                name: reader.string("name")?,
                endpoint: reader.string("endpoint")?,
                capacity: reader.u64("capacity")?,
                is_memory: reader.bool("is memory")?,
                file_path: reader.string("file path")?,
            })
        })
    }
}

impl SegmentUnmountPayload {
    /// Reads the payload.
    ///
    /// # Errors
    /// [`StructPackError`] names the field, its offset, what had to be there and what is.
    pub fn decode(payload: &[u8]) -> Result<Self, StructPackError> {
        decode("SegmentUnmount", UNMOUNT, payload, |reader| Ok(Self { endpoint: reader.string("endpoint")? }))
    }
}

fn decode<'a, T>(
    name: &'static str,
    hash: u32,
    payload: &'a [u8],
    read: impl Fn(&mut Reader<'a>) -> Result<T, StructPackError>,
) -> Result<T, StructPackError> {
    let mut reader = Reader::new(name, payload);
    Header::read(&mut reader, &[hash])?.fields(reader, read)
}
