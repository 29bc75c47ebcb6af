//! Owns the reading of a part of one record, and its verification: the header says whose the bytes are, and each chunk that the part
//! touches has its checksum. Nothing unverified gets out as an answer. It knows no index.

use std::io::{self, IoSliceMut};

use crate::error::{DiskOp, Problem, StoreError};
use crate::format::FormatError;
use crate::format::names::BucketId;
use crate::format::record::{CHUNK_BYTES, ChunkRange, ChunkSums, RecordHeader, verify_raw_key};
use crate::format::table::{RecordLayout, Slot};
use crate::vfs::VfsFile;

/// A part of a value, and what the record must say.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Piece<'a> {
    layout: RecordLayout,
    header: RecordHeader<'a>,
    record_at: u64,
    offset: u64,
    len: u64,
}

/// Why a piece could not be read.
#[derive(Debug)]
pub(in crate::store) enum Fault {
    /// The disk failed.
    Io(io::Error),
    /// The bytes are not those that were written.
    Damaged(FormatError),
}

impl Fault {
    pub(in crate::store) fn of(self, bucket: BucketId) -> StoreError {
        let file = bucket.data_name();
        match self {
            Self::Io(error) => StoreError::io(DiskOp::Read, file, error),
            Self::Damaged(error) => {
                let (expected, found) = (error.expected(), format!("{} ({})", error.found(), error.without_remedy()));
                Problem::Damaged { file, field: "the record", expected, found }.into()
            }
        }
    }
}

impl<'a> Piece<'a> {
    /// The whole value.
    pub(in crate::store) fn whole(layout: RecordLayout, slot: &'a Slot) -> Self {
        let (header, record_at, len) = (RecordHeader::of(slot), slot.offset, slot.value_len.into());
        Self { layout, header, record_at, offset: 0, len }
    }

    /// `len` bytes from `offset`. `None` if that is empty, or not within the value.
    pub(in crate::store) fn part(self, offset: u64, len: u64) -> Option<Self> {
        let end = offset.checked_add(len)?;
        (len > 0 && end <= u64::from(self.header.value_len)).then_some(Self { offset, len, ..self })
    }

    /// Bytes of the part.
    pub(in crate::store) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads and verifies it.
    pub(in crate::store) fn read(&self, file: &dyn VfsFile) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        self.read_into(file, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads and verifies it. What is in `buf` after an error is not the value.
    ///
    /// # Panics
    /// If `buf` has another length than the part.
    pub(in crate::store) fn read_into(&self, file: &dyn VfsFile, buf: &mut [u8]) -> Result<(), Fault> {
        assert_eq!(buf.len() as u64, self.len, "the buffer is of another part");
        match self.layout {
            RecordLayout::Checksummed => self.read_checksummed(file, buf),
            RecordLayout::MooncakeRaw => self.read_raw(file, buf),
        }
    }

    fn read_raw(&self, file: &dyn VfsFile, buf: &mut [u8]) -> Result<(), Fault> {
        let mut key = vec![0; self.header.key.len()];
        if self.offset == 0 {
            read_exact(file, &mut [IoSliceMut::new(&mut key), IoSliceMut::new(buf)], self.record_at)?;
        } else {
            read_exact(file, &mut [IoSliceMut::new(&mut key)], self.record_at)?;
            read_exact(file, &mut [IoSliceMut::new(buf)], self.record_at + key.len() as u64 + self.offset)?;
        }
        verify_raw_key(self.header.key, &key).map_err(Fault::Damaged)
    }

    fn read_checksummed(&self, file: &dyn VfsFile, buf: &mut [u8]) -> Result<(), Fault> {
        let header_len = RecordHeader::encoded_len(self.header.key.len(), self.header.value_len);
        let mut header = vec![0; header_len as usize];
        let value_at = self.record_at + header_len;
        let chunk = u64::from(CHUNK_BYTES);
        let (end, value_len) = (self.offset + self.len, self.header.value_len);
        // Up to here whole chunks go to their place at once; what is left is a part of one chunk.
        let whole_until = if end == u64::from(value_len) { end } else { end - end % chunk };
        let mut sums: Option<ChunkSums<'_>> = None;
        let (mut at, mut left, mut scratch) = (self.offset, buf, Vec::new());
        let mut header_left = Some(&mut header);
        while !left.is_empty() {
            let is_whole = at.is_multiple_of(chunk) && at < whole_until;
            let until = if is_whole { whole_until } else { end.min(at - at % chunk + chunk) };
            let (now, later) = left.split_at_mut((until - at) as usize);
            let Some(range) = ChunkRange::covering(value_len, at, until - at) else { break };
            let target = if is_whole {
                &mut *now
            } else {
                scratch.resize(range.len() as usize, 0);
                &mut scratch[..]
            };
            if let Some(header) = header_left.take() {
                if range.offset() == 0 {
                    read_exact(file, &mut [IoSliceMut::new(header), IoSliceMut::new(target)], self.record_at)?;
                } else {
                    read_exact(file, &mut [IoSliceMut::new(header)], self.record_at)?;
                    read_exact(file, &mut [IoSliceMut::new(target)], value_at + range.offset())?;
                }
                sums = Some(self.header.verify(header).map_err(Fault::Damaged)?);
            } else {
                read_exact(file, &mut [IoSliceMut::new(target)], value_at + range.offset())?;
            }
            if let Some(sums) = &sums {
                sums.verify(range, target).map_err(Fault::Damaged)?;
            }
            if !is_whole {
                let from = (at - range.offset()) as usize;
                now.copy_from_slice(&scratch[from..from + now.len()]);
            }
            (at, left) = (until, later);
        }
        Ok(())
    }
}

/// Fills all of `bufs`. A file that ends before is damage: its table names more.
fn read_exact(file: &dyn VfsFile, mut bufs: &mut [IoSliceMut<'_>], mut offset: u64) -> Result<(), Fault> {
    let asked: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
    let begin = offset;
    IoSliceMut::advance_slices(&mut bufs, 0);
    while !bufs.is_empty() {
        match file.read_vectored_at(bufs, offset) {
            Ok(0) => {
                let (expected, found) = (asked, offset - begin);
                let (what, field) = ("record", "the bytes up to the end of the file");
                return Err(Fault::Damaged(FormatError::Length { what, field, offset: 0, expected, found }));
            }
            Ok(read) => {
                IoSliceMut::advance_slices(&mut bufs, read);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::Io(error)),
        }
    }
    Ok(())
}
