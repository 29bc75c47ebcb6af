//! Owns the copy of the live records of a round's sources into its target, through one buffer that never grows. It must not decide
//! what is copied, and it never syncs.

#[cfg(test)]
mod tests;

use std::io;

use crate::crc::crc32c;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::FormatError;
use crate::format::names::BucketId;
use crate::format::record::{CHUNK_BYTES, ChunkRange, RecordHeader, verify_raw_key};
use crate::format::table::{RecordLayout, Slot};
use crate::vfs::VfsFile;

/// One record to copy.
#[derive(Clone, Debug)]
pub(super) struct CopyItem {
    /// Its bucket.
    pub(super) source: BucketId,
    /// How it is laid out there.
    pub(super) layout: RecordLayout,
    /// Its slot there.
    pub(super) from: Slot,
}

/// Why a copy cannot go on.
#[derive(Debug)]
pub(super) enum CopyError {
    /// A record could not be read, or is not what was written. The source is kept as it is.
    Source {
        /// The bucket of the record.
        bucket: BucketId,
        /// The position of the record among the items.
        item: usize,
        /// Why.
        error: StoreError,
    },
    /// The target could not be written.
    Target(StoreError),
}

/// A copy under way. Each step reads and verifies at most one buffer, and writes it.
#[derive(Debug)]
pub(super) struct Copier {
    items: Vec<CopyItem>,
    target: BucketId,
    /// The record that is next, or under way.
    next: usize,
    /// Bytes of its value that have been read.
    done: u64,
    /// Header of the record under way; of one from Mooncake, the sums of its chunks so far.
    header: Vec<u8>,
    sums: Vec<u32>,
    buffer: Box<[u8]>,
    filled: usize,
    /// Where the buffer's first byte belongs in the target.
    base: u64,
    /// Where the record under way begins in the target.
    record_at: u64,
}

impl Copier {
    /// A copy of these items, in this order, one behind the other, through a buffer of `buffer_bytes`; of more if a header and a chunk
    /// of some record would not fit.
    pub(super) fn new(items: Vec<CopyItem>, target: BucketId, buffer_bytes: usize) -> Self {
        let first_piece = |item: &CopyItem| header_len(&item.from) + u64::from(item.from.value_len.min(CHUNK_BYTES));
        let least = items.iter().map(first_piece).max().unwrap_or(1);
        let bytes = (buffer_bytes as u64).max(least).max(u64::from(CHUNK_BYTES));
        let buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)].into_boxed_slice();
        let (header, sums) = (Vec::new(), Vec::new());
        Self { items, target, next: 0, done: 0, header, sums, buffer, filled: 0, base: 0, record_at: 0 }
    }

    /// Bytes of the finished target.
    pub(super) fn target_bytes(items: &[CopyItem]) -> u64 {
        items.iter().map(|item| record_len(&item.from)).sum()
    }

    /// The slots of the finished target, in the order of the items.
    pub(super) fn target_slots(&self) -> Vec<Slot> {
        let mut offset = 0;
        let slot = |item: &CopyItem| {
            let slot = Slot { offset, tombstone: None, ..item.from.clone() };
            offset += record_len(&item.from);
            slot
        };
        self.items.iter().map(slot).collect()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.next == self.items.len()
    }

    /// Copies at most one buffer, and gives how many bytes it wrote.
    pub(super) fn step<'f>(
        &mut self,
        source: impl Fn(BucketId) -> Option<&'f dyn VfsFile>,
        target: &dyn VfsFile,
    ) -> Result<u64, CopyError> {
        while let Some(item) = self.items.get(self.next) {
            let bucket = item.source;
            let file = source(bucket).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
            let read = file.map_err(Fault::Io).and_then(|file| self.read_piece(file));
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    return Err(CopyError::Source { bucket, item: self.next, error: fault.into_error(bucket) });
                }
            }
            self.end_record(target)?;
        }
        self.announce(&source);
        let bytes = &self.buffer[..self.filled];
        target.write_all_at(bytes, self.base).map_err(|e| self.target_failed(e))?;
        let written = self.filled as u64;
        self.base += written;
        self.filled = 0;
        Ok(written)
    }

    /// Tells the disk what the next buffer will be filled with, so that it reads while this one is written.
    fn announce<'f>(&self, source: impl Fn(BucketId) -> Option<&'f dyn VfsFile>) {
        let (mut room, mut done) = (self.buffer.len() as u64, self.done);
        for item in &self.items[self.next..] {
            let begin = if done == 0 { item.from.offset } else { item.from.value_offset(item.layout) + done };
            let end = item.from.value_offset(item.layout) + u64::from(item.from.value_len);
            let len = room.min(end - begin);
            if let Some(file) = source(item.source) {
                file.will_read(begin, len);
            }
            (room, done) = (room - len, 0);
            if room == 0 {
                break;
            }
        }
    }

    /// Reads and verifies the next piece of the record under way into the buffer: whole chunks, as many as there is room for. `false` if there
    /// is none.
    fn read_piece(&mut self, file: &dyn VfsFile) -> Result<bool, Fault> {
        let item = &self.items[self.next];
        let slot = &item.from;
        let begins = self.done == 0;
        // In the target, what comes before the value; where a record is raw its key is read into the end of that.
        let ahead = if begins { header_len(slot) as usize } else { 0 };
        let read_ahead = if begins { item.layout.header_len(slot.key.len(), slot.value_len) as usize } else { 0 };
        let Some(room) = (self.buffer.len() - self.filled).checked_sub(ahead) else { return Ok(false) };
        let left = u64::from(slot.value_len) - self.done;
        let piece = if left <= room as u64 { left as usize } else { room - room % CHUNK_BYTES as usize };
        let Some(range) = ChunkRange::covering(slot.value_len, self.done, piece as u64) else { return Ok(false) };
        let begin = self.filled + ahead - read_ahead;
        let read = &mut self.buffer[begin..self.filled + ahead + piece];
        let at = slot.value_offset(item.layout) + self.done - read_ahead as u64;
        read_exact(file, read, at).map_err(Fault::Io)?;
        let (head, value) = read.split_at(read_ahead);
        match item.layout {
            RecordLayout::Checksummed => {
                if begins {
                    self.header.clear();
                    self.header.extend_from_slice(head);
                }
                let sums = RecordHeader::of(slot).verify(&self.header).map_err(Fault::Damaged)?;
                sums.verify(range, value).map_err(Fault::Damaged)?;
            }
            RecordLayout::MooncakeRaw => {
                if begins {
                    verify_raw_key(&slot.key, head).map_err(Fault::Damaged)?;
                    self.sums.clear();
                }
                self.sums.extend(value.chunks(CHUNK_BYTES as usize).map(crc32c));
            }
        }
        if begins {
            self.record_at = self.base + self.filled as u64;
        }
        self.filled += ahead + piece;
        self.done += piece as u64;
        Ok(true)
    }

    /// Goes on to the next record, if this one is complete. One of Mooncake's gets its header only now, when all its sums are known.
    fn end_record(&mut self, target: &dyn VfsFile) -> Result<(), CopyError> {
        let item = &self.items[self.next];
        if self.done < u64::from(item.from.value_len) {
            return Ok(());
        }
        if item.layout == RecordLayout::MooncakeRaw {
            self.header.clear();
            RecordHeader::of(&item.from).encode_with(self.sums.iter().copied(), &mut self.header);
            if self.record_at < self.base {
                target.write_all_at(&self.header, self.record_at).map_err(|e| self.target_failed(e))?;
            } else {
                let at = (self.record_at - self.base) as usize;
                self.buffer[at..at + self.header.len()].copy_from_slice(&self.header);
            }
        }
        self.next += 1;
        self.done = 0;
        Ok(())
    }

    fn target_failed(&self, error: io::Error) -> CopyError {
        CopyError::Target(StoreError::io(DiskOp::Write, self.target.data_name(), error))
    }
}

enum Fault {
    Io(io::Error),
    Damaged(FormatError),
}

impl Fault {
    fn into_error(self, bucket: BucketId) -> StoreError {
        let file = bucket.data_name();
        match self {
            Self::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                StoreError::io(DiskOp::Read, file, error)
            }
            Self::Io(error) => damaged(file, error.to_string()),
            Self::Damaged(error) => damaged(file, error.without_remedy().to_string()),
        }
    }
}

fn damaged(file: String, found: String) -> StoreError {
    Problem::Damaged { file, field: "a record", expected: "what was written".into(), found }.into()
}

fn header_len(slot: &Slot) -> u64 {
    RecordHeader::encoded_len(slot.key.len(), slot.value_len)
}

fn record_len(slot: &Slot) -> u64 {
    RecordHeader::record_len(slot.key.len(), slot.value_len)
}

fn read_exact(file: &dyn VfsFile, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.read_at(buf, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buf = &mut buf[read..];
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
