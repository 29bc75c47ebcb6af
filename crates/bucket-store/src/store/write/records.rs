//! Owns the laying of records into a data file: checksums, large writes, and no copy of a value. It must not sync.

use std::io::{self, IoSlice};
use std::ops::Range;

use crate::crc::crc32c;
use crate::format::record::{CHUNK_BYTES, RecordHeader};
use crate::vfs::VfsFile;

/// Records are written together up to this many bytes, so that what was checksummed is still in the processor's cache when it is written.
const GROUP_BYTES: u64 = 1 << 20;
/// Records that are written together, at most: a header and a value each.
const GROUP_RECORDS: usize = 256;
/// A value of more bytes is checksummed and written in pieces of [`GROUP_BYTES`], its header last.
const LARGE_BYTES: usize = 4 << 20;

/// Writes records one behind the other.
pub(in crate::store) struct RecordWriter<'a> {
    file: &'a dyn VfsFile,
    /// Where the next record of the group, or the group, begins.
    group_at: u64,
    end: u64,
    headers: Vec<u8>,
    group: Vec<(Range<usize>, &'a [u8])>,
}

impl<'a> RecordWriter<'a> {
    /// Begins at the begin of `file`.
    pub(in crate::store) fn new(file: &'a dyn VfsFile) -> Self {
        Self { file, group_at: 0, end: 0, headers: Vec::new(), group: Vec::new() }
    }

    /// Adds a record, and gives the offset where it begins. It may be written now or later.
    ///
    /// # Errors
    /// As the system says; the file is of no use any more.
    pub(in crate::store) fn add(&mut self, header: RecordHeader<'_>, value: &'a [u8]) -> io::Result<u64> {
        let offset = self.end;
        self.end += RecordHeader::record_len(header.key.len(), header.value_len);
        if value.len() > LARGE_BYTES {
            self.flush()?;
            self.write_large(header, value, offset)?;
            self.group_at = self.end;
            return Ok(offset);
        }
        let begin = self.headers.len();
        header.encode_into(value, &mut self.headers);
        self.group.push((begin..self.headers.len(), value));
        if self.end - self.group_at >= GROUP_BYTES || self.group.len() == GROUP_RECORDS {
            self.flush()?;
        }
        Ok(offset)
    }

    /// Writes what was not written yet, and gives the length of the file.
    ///
    /// # Errors
    /// As [`RecordWriter::add`].
    pub(in crate::store) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        Ok(self.end)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.group.is_empty() {
            return Ok(());
        }
        let both = self.group.iter().flat_map(|(header, value)| [&self.headers[header.clone()], value]);
        let slices: Vec<_> = both.map(IoSlice::new).collect();
        self.file.write_all_vectored_at(&slices, self.group_at)?;
        self.group.clear();
        self.headers.clear();
        self.group_at = self.end;
        Ok(())
    }

    fn write_large(&mut self, header: RecordHeader<'_>, value: &[u8], offset: u64) -> io::Result<()> {
        let mut sums = Vec::with_capacity(value.len().div_ceil(CHUNK_BYTES as usize));
        let mut at = offset + RecordHeader::encoded_len(header.key.len(), header.value_len);
        for piece in value.chunks(GROUP_BYTES as usize) {
            sums.extend(piece.chunks(CHUNK_BYTES as usize).map(crc32c));
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        let mut bytes = Vec::new();
        header.encode_with(sums, &mut bytes);
        self.file.write_all_at(&bytes, offset)
    }
}
