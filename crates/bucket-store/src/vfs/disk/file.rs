//! Owns one open file of a real directory.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::{preadv, pwritev, retry_on_intr};

use crate::vfs::VfsFile;

#[derive(Debug)]
pub(super) struct DiskFile {
    file: File,
}

impl DiskFile {
    pub(super) fn new(file: File) -> Self {
        Self { file }
    }
}

impl VfsFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buf, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn will_read(&self, offset: u64, len: u64) {
        if let Some(len) = NonZeroU64::new(len) {
            // A file system that takes no hints reads when it is asked to.
            let _ = fadvise(&self.file, offset, Some(len), Advice::WillNeed);
        }
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)
    }

    fn write_all_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        let mut left = bufs.to_vec();
        let mut left = &mut left[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            // Of more pieces than the system takes at once, the first ones are written.
            match retry_on_intr(|| pwritev(&self.file, left, at))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => {
                    IoSlice::advance_slices(&mut left, written);
                    at += written as u64;
                }
            }
        }
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| preadv(&self.file, bufs, offset))?)
    }

    fn sync_data(&self) -> io::Result<()> {
        // Not `File::sync_data`, which calls again when it was interrupted: a second sync of a descriptor may lie.
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        Ok(retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), 0, len))?)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, IoSliceMut};

    use super::DiskFile;
    use crate::vfs::VfsFile;

    #[test]
    fn pieces_of_any_number_and_length_are_written_and_read_one_behind_the_other() {
        let file = DiskFile::new(tempfile::tempfile().unwrap());
        let pieces: Vec<Vec<u8>> = (0..3 * 1024 + 5).map(|n| vec![n as u8; n % 7]).collect();
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        file.write_all_vectored_at(&slices, 11).unwrap();
        let expected = pieces.concat();
        let mut whole = vec![0; expected.len() + 1];
        assert_eq!(file.read_at(&mut whole, 11).unwrap(), expected.len());
        assert_eq!(whole[..expected.len()], expected);
        // One call reads as much as the system takes; the caller goes on from there.
        let mut read: Vec<Vec<u8>> = pieces.iter().map(|piece| vec![0; piece.len()]).collect();
        let mut slices: Vec<_> = read.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
        let (mut left, mut at) = (&mut slices[..], 11);
        IoSliceMut::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let now = file.read_vectored_at(left, at).unwrap();
            assert!(now > 0);
            IoSliceMut::advance_slices(&mut left, now);
            at += now as u64;
        }
        assert_eq!(read, pieces);
        file.write_all_vectored_at(&[], 0).unwrap();
        file.write_all_vectored_at(&[IoSlice::new(b""), IoSlice::new(b"")], 0).unwrap();
        assert_eq!(file.len().unwrap(), 11 + expected.len() as u64);
    }
}
