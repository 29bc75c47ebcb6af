//! Owns what the store asks of a disk: one flat directory and its files. No path, no policy, no retry.
//!
//! Every call is one operation that a power loss can fall before, between or after. What survives one is stated at each.

mod broken;
pub mod disk;
#[cfg(any(test, feature = "test-kit"))]
pub mod sim;
mod vouched;

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use crate::crashsafe::temporary_name;

pub(crate) use broken::is_broken_disk;
pub use disk::{Access, DirError, DiskDir, Holder};
pub(crate) use vouched::{Vouched, lost_names, note_anew};

/// One open directory. Names are plain file names; nothing below the directory is reachable.
///
/// An implementer keeps POSIX's weak promises and no stronger one: a change of names (`create`, `rename`, `unlink`)
/// survives a power loss for certain only after a later [`Vfs::sync_dir`] succeeded, and any subset of the changes since
/// may survive without it. A rename is atomic: the target name holds the old file or the new one.
pub trait Vfs: Send + Sync + fmt::Debug + 'static {
    /// Creates an empty regular file for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` if anything has that name; else as the system says.
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>>;

    /// Opens a regular file for reading. A symbolic link is never followed.
    ///
    /// # Errors
    /// `NotFound`; `InvalidInput` if the name is no regular file; else as the system says.
    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>>;

    /// Gives `from` the name `to`, in place of whatever file had it.
    ///
    /// # Errors
    /// As the system says; then neither name has changed.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes the name away. Its blocks are free when the last open handle is dropped.
    ///
    /// # Errors
    /// `NotFound`; else as the system says.
    fn unlink(&self, name: &str) -> io::Result<()>;

    /// All names but `.` and `..`, in no order.
    ///
    /// # Errors
    /// As the system says.
    fn list(&self) -> io::Result<Vec<DirEntry>>;

    /// Makes all changes of names so far durable, through a descriptor opened for this call.
    ///
    /// # Errors
    /// As the system says. Nothing is known of the changes then, and a later success does not vouch for them.
    fn sync_dir(&self) -> io::Result<()>;

    /// Whether a sync of the directory that succeeds vouches for the last change of this name. Not if an earlier one, perhaps of
    /// another thread, failed since that change: then the name must be changed again. An implementer that keeps no books says yes.
    fn is_vouched(&self, name: &str) -> bool {
        let _ = name;
        true
    }

    /// Changes the name of a file and changes it back, so that the next sync of the directory vouches for it again. A power loss in between
    /// may leave the file under its first temporary name, where an open sweeps it: for files that nothing durable names. After a failure it
    /// may have that name too, and calling this again goes on from there.
    ///
    /// # Errors
    /// `NotFound` if there is neither; else as the system says.
    fn renew(&self, name: &str) -> io::Result<()> {
        let other = temporary_name(name, 0);
        match self.rename(name, &other) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.rename(&other, name)
    }

    /// The file system's free and total bytes.
    ///
    /// # Errors
    /// As the system says.
    fn space(&self) -> io::Result<Space>;

    /// How many files this process may have open; `None` where nobody says, or where there is no limit.
    fn open_files(&self) -> Option<OpenFiles> {
        None
    }
}

/// One open file. Dropping the last handle closes it.
#[expect(
    clippy::len_without_is_empty,
    reason = "an operation of the disk that can fail, not the length of a collection"
)]
pub trait VfsFile: Send + Sync + fmt::Debug {
    /// Reads at most `buf.len()` bytes from `offset`; 0 at the end of the file.
    ///
    /// # Errors
    /// As the system says.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Says that these bytes will be read soon, so that the disk may begin. A hint: nothing may rest on it, and it cannot fail.
    fn will_read(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Writes all of `buf` at `offset`. Durable only after a later [`VfsFile::sync_data`] succeeded; without one any subset of its
    /// pieces may survive.
    ///
    /// # Errors
    /// As the system says; any part may have been written.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bufs`, one behind the other, from `offset` on, as one [`write_all_at`](Self::write_all_at) of them together would.
    ///
    /// # Errors
    /// As the system says; any part may have been written.
    fn write_all_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.write_all_at(buf, at)?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    /// Reads at most as many bytes as `bufs` have from `offset`, into one after the other, as one [`read_at`](Self::read_at) would; 0 at
    /// the end of the file.
    ///
    /// # Errors
    /// As the system says.
    fn read_vectored_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        for buf in bufs {
            match self.read_at(buf, offset + read as u64) {
                Ok(now) => {
                    read += now;
                    if now < buf.len() {
                        break;
                    }
                }
                Err(_) if read > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Makes the content and the length durable.
    ///
    /// # Errors
    /// As the system says. The system may have dropped the unwritten pages and marked them clean: never call it again on
    /// this file after an error, it may lie.
    fn sync_data(&self) -> io::Result<()>;

    /// Takes blocks for the first `len` bytes, so that writing them cannot meet a full disk, and makes the file at least as long.
    /// New bytes read as zeros.
    ///
    /// # Errors
    /// `StorageFull`; else as the system says.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// The length in bytes.
    ///
    /// # Errors
    /// As the system says.
    fn len(&self) -> io::Result<u64>;

    /// The bytes of the blocks that the file really occupies.
    ///
    /// # Errors
    /// As the system says.
    fn allocated_bytes(&self) -> io::Result<u64>;
}

/// A name in the directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name; one that is no UTF-8 is given with replacement characters and `kind` is [`EntryKind::Other`].
    pub name: String,
    /// What has the name.
    pub kind: EntryKind,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, a socket, a device, or a name that is no UTF-8.
    Other,
}

/// The room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this process can still use.
    pub free_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// The open files of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// It may have so many.
    pub limit: u64,
    /// It has so many, or more where that is not known.
    pub open: u64,
}

/// Refuses what is no plain file name.
fn check_name(name: &str) -> io::Result<()> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        let message = format!("{name:?} is no plain file name");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}
