//! Owns the reading of one record for its own sake: every byte, against every checksum there is, through one buffer.

use std::io;

use crate::format::FormatError;
use crate::format::record::{RecordHeader, verify_raw_key};
use crate::format::table::{RecordLayout, Slot};
use crate::vfs::VfsFile;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a record cannot be vouched for.
pub(super) enum Trouble {
    /// Wrong bytes, offsets from the record's begin.
    Bytes(FormatError),
    /// The disk.
    Disk(io::Error),
}

/// Reads records. One buffer for headers and one for values, whatever their number.
pub(super) struct Verifier {
    header: Vec<u8>,
    value: Vec<u8>,
}

impl Verifier {
    pub(super) fn new() -> Self {
        Self { header: Vec::new(), value: vec![0; BUFFER_BYTES] }
    }

    /// Reads the whole record and verifies what can be: of Mooncake's, the key and that the value is there.
    pub(super) fn verify(&mut self, file: &dyn VfsFile, layout: RecordLayout, slot: &Slot) -> Result<(), Trouble> {
        let header_len = layout.header_len(slot.key.len(), slot.value_len);
        // At most some 266 KiB: the table was checked.
        self.header.resize(header_len as usize, 0);
        let read = read_full(file, &mut self.header, slot.offset).map_err(Trouble::Disk)?;
        let header = &self.header[..read];
        let mut check = match layout {
            RecordLayout::Checksummed => Some(RecordHeader::of(slot).verify(header).map_err(Trouble::Bytes)?.stream()),
            RecordLayout::MooncakeRaw => {
                verify_raw_key(&slot.key, header).map_err(Trouble::Bytes)?;
                None
            }
        };
        let (mut at, end) = (slot.offset + header_len, slot.offset + header_len + u64::from(slot.value_len));
        while at < end {
            let piece = (end - at).min(BUFFER_BYTES as u64) as usize;
            let read = read_full(file, &mut self.value[..piece], at).map_err(Trouble::Disk)?;
            if let Some(check) = &mut check {
                check.update(&self.value[..read]).map_err(Trouble::Bytes)?;
            }
            if read < piece {
                let (expected, found) = (slot.record_len(layout), at + read as u64 - slot.offset);
                let (what, field) = ("record", "the value");
                return Err(Trouble::Bytes(FormatError::Length { what, field, offset: header_len, expected, found }));
            }
            at += piece as u64;
        }
        check.map_or(Ok(()), |check| check.finish().map_err(Trouble::Bytes))
    }
}

/// Fills `buffer` as far as the file goes.
fn read_full(file: &dyn VfsFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
