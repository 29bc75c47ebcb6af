//! Owns a real directory: every call goes relative to one held descriptor, and no link is ever followed. Who may have it: `admit`.

mod admit;
mod error;
mod file;
mod holder;
mod network;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::process::{Resource, getrlimit};

pub use error::DirError;
pub use holder::Holder;

use self::file::DiskFile;
use super::{DirEntry, EntryKind, OpenFiles, Space, Vfs, VfsFile, check_name};

/// What a directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For a store: nobody else may have it meanwhile.
    Store,
    /// For a tool that only looks: others may look too, a store may not have it. Every change is refused with `ReadOnlyFilesystem`.
    Inspect,
}

/// A directory of the file system. Dropping it gives the lock free; files opened through it stay open for whoever still has them.
pub struct DiskDir {
    path: PathBuf,
    dir: OwnedFd,
    access: Access,
}

impl DiskDir {
    /// Takes the directory, and locks it before anything in it is read.
    ///
    /// The lock is an exclusive `flock` of the directory itself (shared for [`Access::Inspect`]): it leaves no file behind, and the system gives
    /// it free when the process dies.
    ///
    /// # Errors
    /// [`DirError`] names the path and the reason; nothing was changed.
    pub fn open(path: &Path, access: Access) -> Result<Self, DirError> {
        let dir = admit::admit(path, access)?;
        Ok(Self { path: path.to_owned(), dir, access })
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn changing(&self, name: &str) -> io::Result<()> {
        check_name(name)?;
        match self.access {
            Access::Store => Ok(()),
            Access::Inspect => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    /// A new descriptor of the same directory.
    fn reopened(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(again(|| fs::openat(&self.dir, ".", flags, Mode::empty()))?)
    }
}

impl Drop for DiskDir {
    fn drop(&mut self) {
        // Closing alone leaves it locked for as long as a child process that another thread has just forked still has the descriptor.
        let _ = fs::flock(&self.dir, FlockOperation::Unlock);
    }
}

impl fmt::Debug for DiskDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskDir").field("path", &self.path).field("access", &self.access).finish()
    }
}

impl Vfs for DiskDir {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.changing(name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = again(|| fs::openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR))?;
        Ok(Arc::new(DiskFile::new(File::from(file))))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        check_name(name)?;
        // A pipe that nobody writes to must not make this wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is no regular file"));
        let file = match again(|| fs::openat(&self.dir, name, flags, Mode::empty())) {
            // A link, or a socket.
            Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(not_regular()),
            other => other?,
        };
        if FileType::from_raw_mode(fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(not_regular());
        }
        Ok(Arc::new(DiskFile::new(File::from(file))))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.changing(from)?;
        check_name(to)?;
        Ok(again(|| fs::renameat(&self.dir, from, &self.dir, to))?)
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.changing(name)?;
        Ok(again(|| fs::unlinkat(&self.dir, name, AtFlags::empty()))?)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in Dir::new(self.reopened()?)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match name.to_str() {
                Err(_) => EntryKind::Other,
                Ok(_) if entry.file_type() == FileType::Unknown => self.kind_of(name)?,
                Ok(_) => kind(entry.file_type()),
            };
            entries.push(DirEntry { name: name.to_string_lossy().into_owned(), kind });
        }
        Ok(entries)
    }

    fn sync_dir(&self) -> io::Result<()> {
        if self.access == Access::Inspect {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        // Not repeated when interrupted: what an interrupted sync has done to the cache is not known.
        Ok(fs::fsync(self.reopened()?)?)
    }

    fn space(&self) -> io::Result<Space> {
        let found = again(|| fs::fstatvfs(&self.dir))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free_bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) })
    }

    fn open_files(&self) -> Option<OpenFiles> {
        let limit = open_files_limit()?;
        // The look itself is one of them, which is no matter.
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64);
        Some(OpenFiles { limit, open })
    }
}

impl DiskDir {
    fn kind_of(&self, name: &std::ffi::CStr) -> io::Result<EntryKind> {
        match again(|| fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)) {
            Ok(stat) => Ok(kind(FileType::from_raw_mode(stat.st_mode))),
            Err(rustix::io::Errno::NOENT) => Ok(EntryKind::Other),
            Err(error) => Err(error.into()),
        }
    }
}

/// How many files this process may have open; `None`: any number.
pub(crate) fn open_files_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn kind(file_type: FileType) -> EntryKind {
    match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        _ => EntryKind::Other,
    }
}

fn again<T>(call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    rustix::io::retry_on_intr(call)
}
