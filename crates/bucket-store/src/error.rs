//! Owns what a call of the store can answer instead of success: a kind that says what to do, a stable code and one sentence. It
//! decides nothing. What precisely can happen is `problem`'s.

mod problem;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

pub(crate) use self::problem::{Problem, io_remedy};
use crate::config::ConfigError;
use crate::crashsafe::{PublishError, RemoveError, Step};
use crate::format::FormatError;
use crate::vfs::disk::open_files_limit;
use crate::vfs::is_broken_disk;

/// Why a call did not succeed.
///
/// [`kind`](Self::kind) says what to do about it, [`code`](Self::code) is stable and precise, and the text names file, field,
/// what was expected and what was found, and ends with the [`remedy`](Self::remedy). Unless the kind is [`StoreErrorKind::Disk`], a refused call has changed nothing.
#[derive(Clone)]
pub struct StoreError(Arc<Problem>);

/// What to do about a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The call or a setting is wrong: change it. The same call fails again.
    Invalid,
    /// There is no such object: nothing to do.
    NotFound,
    /// The incarnation was deleted for ever: write the key under a new one.
    Deleted,
    /// There is no room: delete, let GC run, or give more capacity; then try again.
    NoSpace,
    /// The object is being written, moved or evicted: try again soon.
    Busy,
    /// The store has stopped changing its directory: find the reason, mend the disk, open again. Reads go on.
    ReadOnly,
    /// The directory cannot be opened, or written to, as it is, and nothing in it was changed: a person must decide.
    Refused,
    /// What is on disk is not what was written: get the object from elsewhere. It is not served again.
    Damaged,
    /// The disk failed: try again; if it goes on, replace the disk. A write or delete may have happened in part.
    Disk,
}

impl StoreError {
    pub(crate) fn new(problem: Problem) -> Self {
        Self(Arc::new(problem))
    }

    /// An operation of the disk that failed; a full disk is told from a broken one.
    pub(crate) fn io(op: DiskOp, file: impl Into<String>, source: io::Error) -> Self {
        let file = file.into();
        Self::new(match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::DiskFull { op, file, source },
            _ if too_many_files(&source) => Problem::TooManyFiles { op, file, limit: files_limit(&source), source },
            _ => Problem::Io { op, file, source },
        })
    }

    /// Something that cannot be put into the form of its file.
    pub(crate) fn unwritable(file: impl Into<String>, error: FormatError) -> Self {
        Self::io(DiskOp::Write, file, io::Error::other(error.without_remedy().to_string()))
    }

    /// Whether a file was not there.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self.problem(), Problem::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether something else than a regular file has the name.
    pub(crate) fn is_no_regular_file(&self) -> bool {
        matches!(self.problem(), Problem::Io { op: DiskOp::Open, source, .. } if source.kind() == io::ErrorKind::InvalidInput)
    }

    /// Whether the disk could not give back what is on it.
    pub(crate) fn is_broken_disk(&self) -> bool {
        matches!(self.problem(), Problem::Io { source, .. } if is_broken_disk(source))
    }

    /// What precisely happened, for decisions inside the crate.
    pub(crate) fn problem(&self) -> &Problem {
        &self.0
    }

    /// What to do about it.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.0.class().0
    }

    /// The stable name of the precise problem, for the wire, logs and metrics.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.class().1
    }

    /// What happened, without what to do about it.
    #[must_use]
    pub fn what(&self) -> String {
        self.0.to_string()
    }

    /// Where: the file and its field, the key, the bucket, or the setting or argument that it is about.
    #[must_use]
    pub fn place(&self) -> String {
        self.0.place()
    }

    /// What to do about it, in words for people.
    #[must_use]
    pub fn remedy(&self) -> Cow<'_, str> {
        self.0.remedy()
    }

    /// Whether the same call can succeed later without anybody's help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), StoreErrorKind::NoSpace | StoreErrorKind::Busy | StoreErrorKind::Disk)
    }
}

impl From<Problem> for StoreError {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

impl From<ConfigError> for StoreError {
    fn from(error: ConfigError) -> Self {
        Self::new(Problem::Config(error))
    }
}

impl From<PublishError> for StoreError {
    fn from(PublishError { name, step, source }: PublishError) -> Self {
        Self::io(step.into(), name, source)
    }
}

impl From<RemoveError> for StoreError {
    fn from(RemoveError { name, step, source }: RemoveError) -> Self {
        Self::io(step.into(), name, source)
    }
}

/// Whether the process, or the system, has as many files open as it may.
pub(crate) fn too_many_files(error: &io::Error) -> bool {
    let limits = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    error.raw_os_error().is_some_and(|code| limits.contains(&code))
}

/// Which limit it was, in words.
fn files_limit(error: &io::Error) -> String {
    let of_system = error.raw_os_error() == Some(rustix::io::Errno::NFILE.raw_os_error());
    match open_files_limit() {
        _ if of_system => "open files of the whole system (fs.file-max)".into(),
        Some(limit) => format!("{limit} open files of this process"),
        None => "open files of this process".into(),
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.0, self.0.remedy())
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.code(), self.0)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// An operation of the disk, by the name that an operator knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// A new file.
    Create,
    /// Opening a file.
    Open,
    /// Reading a file.
    Read,
    /// Writing a file.
    Write,
    /// `fdatasync` of a file.
    Sync,
    /// Taking blocks for a file.
    Allocate,
    /// A change of name.
    Rename,
    /// Taking a name away.
    Unlink,
    /// Listing the directory.
    List,
    /// `fsync` of the directory.
    SyncDir,
    /// Asking for sizes or free space.
    Stat,
    /// Locking the directory.
    Lock,
}

impl From<Step> for DiskOp {
    fn from(step: Step) -> Self {
        match step {
            Step::Create => Self::Create,
            Step::Write => Self::Write,
            Step::SyncData => Self::Sync,
            Step::Rename => Self::Rename,
            Step::Unlink => Self::Unlink,
            Step::SyncDir => Self::SyncDir,
        }
    }
}

impl fmt::Display for DiskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Allocate => "allocate",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::List => "list",
            Self::SyncDir => "sync of the directory",
            Self::Stat => "stat",
            Self::Lock => "lock",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
