//! Owns what a call of the store can answer instead of success: a kind that says what to do, a stable code and one sentence. It
//! decides nothing.

use std::fmt;
use std::io;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::config::ConfigError;
use crate::crashsafe::{PublishError, RemoveError, Step};
use crate::format::FormatError;
use crate::format::names::BucketId;
use crate::health::ReadOnlyReason;

/// Why a call did not succeed.
///
/// [`kind`](Self::kind) says what to do about it, [`code`](Self::code) is stable and precise, and the text names file, field,
/// what was expected and what was found. Unless the kind is [`StoreErrorKind::Disk`], a refused call has changed nothing.
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
    /// The directory cannot be opened as it is, and nothing in it was changed: a person must decide.
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
            _ if too_many_files(&source) => Problem::TooManyFiles { op, file, source },
            _ => Problem::Io { op, file, source },
        })
    }

    /// Something that cannot be put into the form of its file.
    pub(crate) fn unwritable(file: impl Into<String>, error: FormatError) -> Self {
        Self::io(DiskOp::Write, file, io::Error::other(error))
    }

    /// Whether a file was not there.
    pub(crate) fn is_missing_file(&self) -> bool {
        matches!(self.problem(), Problem::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk could not give back what is on it.
    pub(crate) fn is_broken_disk(&self) -> bool {
        const EIO: i32 = 5;
        matches!(self.problem(), Problem::Io { source, .. } if source.raw_os_error() == Some(EIO))
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

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

/// The precise problem. Private: callers see kind, code and text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    // The call.
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{argument} is {found}; {expected}")]
    Argument { argument: &'static str, expected: String, found: String },
    #[error("key {key} is no storage key: {reason}; give tenant, a zero byte, key, both not empty")]
    BadKey { key: KeyText, reason: String },
    #[error("key {key} is in the batch twice, at {first} and at {second}; give it once")]
    KeyTwice { key: KeyText, first: usize, second: usize },
    #[error("the value of key {key} has {found} bytes; give {expected}")]
    BadValueLength { key: KeyText, found: u64, expected: String },
    #[error("range {offset}+{len} of key {key} is not within its {value_len} bytes; ask for less")]
    BadRange { key: KeyText, offset: u64, len: u64, value_len: u64 },
    // The object.
    #[error("key {key} is not stored here")]
    NotFound { key: KeyText },
    #[error("incarnation {incarnation} of key {key} was deleted; write the key under a new incarnation")]
    Tombstoned { key: KeyText, incarnation: ObjectIncarnation },
    #[error(
        "incarnation {incarnation} of key {key} is older than what is stored; write the key under a new incarnation"
    )]
    Superseded { key: KeyText, incarnation: ObjectIncarnation },
    #[error("key {key} is {doing}; try again soon")]
    Busy { key: KeyText, doing: &'static str },
    #[error("bucket {bucket} is in a round of GC that is not known yet to be committed; try again soon")]
    TableBusy { bucket: BucketId },
    #[error("bucket {bucket} stays for now: {reason}")]
    BucketStays { bucket: BucketId, reason: &'static str },
    #[error("bucket {bucket} is not served and may hold key {key}; mend or remove the bucket's files")]
    InQuarantine { bucket: BucketId, key: KeyText },
    // Room.
    #[error(
        "{needed} bytes are needed for {what} and {free} are free; delete objects, let GC run, or raise capacity_bytes"
    )]
    NoSpace { what: &'static str, needed: u64, free: u64 },
    #[error("the reserve for deletes ({needed} bytes) is spent and not back yet; writes wait until GC has freed space")]
    ReserveMissing { needed: u64 },
    #[error("{op} of {file} met a full disk; delete objects or let GC run: {source}")]
    DiskFull { op: DiskOp, file: String, source: io::Error },
    #[error(
        "{op} of {file} met the limit of open files; the store holds one for each bucket, raise the limit (ulimit -n): {source}"
    )]
    TooManyFiles { op: DiskOp, file: String, source: io::Error },
    // The store.
    #[error("the store is read-only since {0}; mend the disk and open it again")]
    ReadOnly(ReadOnlyReason),
    // The directory.
    #[error("{file}: {field} is {found}, expected {expected}; {remedy}")]
    Refused {
        code: &'static str,
        file: String,
        field: &'static str,
        expected: String,
        found: String,
        remedy: &'static str,
    },
    #[error(
        "{file} has version {found}, and this program knows {known}; open the directory with the program that wrote it"
    )]
    UnknownVersion { file: String, found: u64, known: &'static str },
    #[error(
        "the target {target} of a committed GC round is damaged ({reason}); its sources are kept, restore its files or remove the round by hand"
    )]
    CommittedTargetDamaged { target: BucketId, reason: String },
    // The bytes.
    #[error("{file}: {field} is {found}, expected {expected}; the object is no longer served, get it from elsewhere")]
    Damaged { file: String, field: &'static str, expected: String, found: String },
    #[error("the objects are written and not durable yet: {0}")]
    NotDurable(#[source] StoreError),
    #[error("{op} of {file} failed: {source}")]
    Io { op: DiskOp, file: String, source: io::Error },
}

impl Problem {
    fn class(&self) -> (StoreErrorKind, &'static str) {
        use StoreErrorKind as Kind;
        match self {
            Self::Config(_) => (Kind::Invalid, "CONFIG"),
            Self::Argument { .. } => (Kind::Invalid, "ARGUMENT"),
            Self::BadKey { .. } => (Kind::Invalid, "BAD_KEY"),
            Self::KeyTwice { .. } => (Kind::Invalid, "KEY_TWICE"),
            Self::BadValueLength { .. } => (Kind::Invalid, "BAD_VALUE_LENGTH"),
            Self::BadRange { .. } => (Kind::Invalid, "BAD_RANGE"),
            Self::NotFound { .. } => (Kind::NotFound, "NOT_FOUND"),
            Self::Tombstoned { .. } => (Kind::Deleted, "TOMBSTONED"),
            Self::Superseded { .. } => (Kind::Deleted, "SUPERSEDED"),
            Self::Busy { .. } => (Kind::Busy, "BUSY"),
            Self::InQuarantine { .. } => (Kind::Damaged, "IN_QUARANTINE"),
            Self::TableBusy { .. } => (Kind::Busy, "TABLE_BUSY"),
            Self::BucketStays { .. } => (Kind::Busy, "BUCKET_STAYS"),
            Self::NoSpace { .. } => (Kind::NoSpace, "NO_SPACE"),
            Self::ReserveMissing { .. } => (Kind::NoSpace, "RESERVE_MISSING"),
            Self::DiskFull { .. } => (Kind::NoSpace, "DISK_FULL"),
            Self::TooManyFiles { .. } => (Kind::Disk, "TOO_MANY_FILES"),
            Self::ReadOnly(_) => (Kind::ReadOnly, "READ_ONLY"),
            Self::Refused { code, .. } => (Kind::Refused, code),
            Self::UnknownVersion { .. } => (Kind::Refused, "UNKNOWN_VERSION"),
            Self::CommittedTargetDamaged { .. } => (Kind::Refused, "COMMITTED_TARGET_DAMAGED"),
            Self::Damaged { .. } => (Kind::Damaged, "DAMAGED"),
            Self::NotDurable(_) => (Kind::Disk, "NOT_DURABLE"),
            Self::Io { .. } => (Kind::Disk, "IO"),
        }
    }
}

/// A key as a message shows it: escaped, and cut where a hostile one would fill the log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KeyText(String);

impl KeyText {
    const SHOWN_BYTES: usize = 200;

    pub(crate) fn new(key: &[u8]) -> Self {
        match key.get(..Self::SHOWN_BYTES) {
            Some(head) if key.len() > Self::SHOWN_BYTES => {
                Self(format!("\"{}\"… ({} bytes)", head.escape_ascii(), key.len()))
            }
            _ => Self(format!("\"{}\"", key.escape_ascii())),
        }
    }
}

impl From<&[u8]> for KeyText {
    fn from(key: &[u8]) -> Self {
        Self::new(key)
    }
}

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{DiskOp, KeyText, Problem, StoreError, StoreErrorKind};

    #[test]
    fn a_full_disk_is_no_broken_disk() {
        let full = StoreError::io(DiskOp::Write, "7.bucket", io::ErrorKind::StorageFull.into());
        assert_eq!((full.kind(), full.code()), (StoreErrorKind::NoSpace, "DISK_FULL"));
        let files = StoreError::io(DiskOp::Create, "7.bucket", io::Error::from_raw_os_error(24));
        assert_eq!((files.kind(), files.code()), (StoreErrorKind::Disk, "TOO_MANY_FILES"));
        assert!(files.to_string().contains("ulimit -n"), "{files}");
        let broken = StoreError::io(DiskOp::Write, "7.bucket", io::Error::other("EIO"));
        assert_eq!((broken.kind(), broken.code()), (StoreErrorKind::Disk, "IO"));
        assert_eq!(broken.to_string(), "write of 7.bucket failed: EIO");
        assert!(std::error::Error::source(&broken).is_some());
    }

    #[test]
    fn a_key_is_shown_escaped_and_cut() {
        assert_eq!(KeyText::new(b"a\0b").to_string(), "\"a\\x00b\"");
        assert!(KeyText::new(&[b'k'; 200]).to_string().ends_with("k\""));
        assert!(KeyText::new(&[b'k'; 4096]).to_string().ends_with("\"… (4096 bytes)"));
    }

    #[test]
    fn the_text_names_file_field_expected_and_found() {
        let error = StoreError::from(Problem::Refused {
            code: "OTHER_SEGMENT",
            file: ".marker".into(),
            field: "segment",
            expected: "a".into(),
            found: "b".into(),
            remedy: "open the right directory",
        });
        assert_eq!(error.to_string(), ".marker: segment is b, expected a; open the right directory");
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Refused, "OTHER_SEGMENT"));
        assert!(!error.is_retryable());
    }
}
