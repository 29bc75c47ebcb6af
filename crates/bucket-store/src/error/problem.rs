//! Owns what precisely can happen: of each problem the sentence, the place, the remedy, the kind and the code. Private: callers see those.

use std::borrow::Cow;
use std::fmt;
use std::io;

use ha_types::ObjectIncarnation;

use super::{DiskOp, StoreError, StoreErrorKind};
use crate::config::ConfigError;
use crate::format::names::{BucketId, RESERVE};
use crate::health::ReadOnlyReason;
use crate::key::StorageKeyError;

/// The precise problem. Its text says what happened, and leaves what to do about it to [`Problem::remedy`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    // The call.
    #[error("{}", .0.what())]
    Config(#[from] ConfigError),
    #[error("{argument} is {found}")]
    Argument { argument: &'static str, expected: String, found: String },
    #[error("key {key} is no storage key: {}", reason.what())]
    BadKey { key: KeyText, reason: StorageKeyError },
    #[error("key {key} is in the batch twice, at {first} and at {second}")]
    KeyTwice { key: KeyText, first: usize, second: usize },
    #[error("the value of key {key} has {found} bytes")]
    BadValueLength { key: KeyText, found: u64, expected: String },
    #[error("range {offset}+{len} of key {key} is not within its {value_len} bytes")]
    BadRange { key: KeyText, offset: u64, len: u64, value_len: u64 },
    // The object.
    #[error("key {key} is not stored here")]
    NotFound { key: KeyText },
    #[error("incarnation {incarnation} of key {key} was deleted")]
    Tombstoned { key: KeyText, incarnation: ObjectIncarnation },
    #[error("incarnation {incarnation} of key {key} is older than what is stored")]
    Superseded { key: KeyText, incarnation: ObjectIncarnation },
    #[error("key {key} is {doing}")]
    Busy { key: KeyText, doing: &'static str },
    #[error("bucket {bucket} is in a round of GC that is not known yet to be committed")]
    TableBusy { bucket: BucketId },
    #[error("the data of bucket {bucket} is being written anew after a sync that failed")]
    DataBusy { bucket: BucketId },
    #[error("bucket {bucket} stays for now: {reason}")]
    BucketStays { bucket: BucketId, reason: &'static str },
    #[error("bucket {bucket} is not served and may hold key {key}")]
    InQuarantine { bucket: BucketId, key: KeyText },
    // Room.
    #[error("{needed} bytes are needed for {what} and {free} are free")]
    NoSpace { what: &'static str, needed: u64, free: u64 },
    #[error("the reserve for deletes ({needed} bytes, {RESERVE}) is spent and not back yet")]
    ReserveMissing { needed: u64 },
    #[error("{op} of {file} met a full disk: {source}")]
    DiskFull { op: DiskOp, file: String, source: io::Error },
    #[error("{op} of {file} met the limit of {limit}: {source}")]
    TooManyFiles { op: DiskOp, file: String, limit: String, source: io::Error },
    // The store.
    #[error("{needed} {what} are needed and {left} are left in the life of this directory")]
    NumbersExhausted { what: &'static str, needed: u64, left: u64 },
    #[error("the store is read-only since {0}")]
    ReadOnly(ReadOnlyReason),
    // The directory.
    #[error(
        "with {buckets} buckets, of which the store holds one open file each, and {open} files that are open already this process needs {needed}, and its limit is {limit}"
    )]
    TooFewFiles { limit: u64, needed: u64, buckets: u64, open: u64 },
    #[error("{file}: {field} is {found}, expected {expected}")]
    Refused {
        code: &'static str,
        file: String,
        field: &'static str,
        expected: String,
        found: String,
        remedy: &'static str,
    },
    #[error("{file} has version {found}, and this program knows {known}")]
    UnknownVersion { file: String, found: u64, known: &'static str },
    #[error("the target {target} of a committed GC round is damaged ({reason})")]
    CommittedTargetDamaged { target: BucketId, reason: String },
    // The bytes.
    #[error("{file}: {field} is {found}, expected {expected}")]
    Damaged { file: String, field: &'static str, expected: String, found: String },
    #[error("the objects are written and not durable yet: {}", .0.what())]
    NotDurable(#[source] StoreError),
    #[error("{op} of {file} failed: {source}")]
    Io { op: DiskOp, file: String, source: io::Error },
}

impl Problem {
    pub(super) fn class(&self) -> (StoreErrorKind, &'static str) {
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
            Self::DataBusy { .. } => (Kind::Busy, "DATA_BUSY"),
            Self::BucketStays { .. } => (Kind::Busy, "BUCKET_STAYS"),
            Self::NoSpace { .. } => (Kind::NoSpace, "NO_SPACE"),
            Self::ReserveMissing { .. } => (Kind::NoSpace, "RESERVE_MISSING"),
            Self::DiskFull { .. } => (Kind::NoSpace, "DISK_FULL"),
            Self::TooManyFiles { .. } => (Kind::Disk, "TOO_MANY_FILES"),
            Self::TooFewFiles { .. } => (Kind::Refused, "TOO_MANY_FILES"),
            Self::NumbersExhausted { .. } => (Kind::Refused, "NUMBERS_EXHAUSTED"),
            Self::ReadOnly(_) => (Kind::ReadOnly, "READ_ONLY"),
            Self::Refused { code, .. } => (Kind::Refused, code),
            Self::UnknownVersion { .. } => (Kind::Refused, "UNKNOWN_VERSION"),
            Self::CommittedTargetDamaged { .. } => (Kind::Refused, "COMMITTED_TARGET_DAMAGED"),
            Self::Damaged { .. } => (Kind::Damaged, "DAMAGED"),
            Self::NotDurable(_) => (Kind::Disk, "NOT_DURABLE"),
            Self::Io { .. } => (Kind::Disk, "IO"),
        }
    }

    pub(super) fn place(&self) -> String {
        match self {
            Self::Config(error) => error.field().into(),
            Self::Argument { argument, .. } => (*argument).into(),
            Self::BadKey { key, .. }
            | Self::KeyTwice { key, .. }
            | Self::BadValueLength { key, .. }
            | Self::BadRange { key, .. }
            | Self::NotFound { key }
            | Self::Tombstoned { key, .. }
            | Self::Superseded { key, .. }
            | Self::Busy { key, .. } => format!("key {key}"),
            Self::TableBusy { bucket }
            | Self::DataBusy { bucket }
            | Self::BucketStays { bucket, .. }
            | Self::InQuarantine { bucket, .. } => {
                format!("bucket {bucket}")
            }
            Self::NoSpace { what, .. } | Self::NumbersExhausted { what, .. } => (*what).into(),
            Self::ReserveMissing { .. } => RESERVE.into(),
            Self::TooFewFiles { .. } => "the limit of open files".into(),
            Self::DiskFull { file, .. } | Self::TooManyFiles { file, .. } | Self::Io { file, .. } => file.clone(),
            Self::ReadOnly(reason) => reason.file().into(),
            Self::Refused { file, field, .. } | Self::Damaged { file, field, .. } => format!("{file}: {field}"),
            Self::UnknownVersion { file, .. } => format!("{file}: version"),
            Self::CommittedTargetDamaged { target, .. } => target.table_name(),
            Self::NotDurable(error) => error.place(),
        }
    }

    pub(super) fn remedy(&self) -> Cow<'_, str> {
        let text: &str = match self {
            Self::Config(error) => error.remedy(),
            Self::Argument { expected, .. } | Self::BadValueLength { expected, .. } => expected,
            Self::BadKey { reason, .. } => reason.remedy(),
            Self::KeyTwice { .. } => "give it once",
            Self::BadRange { .. } => "ask for less",
            Self::NotFound { .. } => "get the object from elsewhere, or put it",
            Self::Tombstoned { .. } | Self::Superseded { .. } => "write the key under a new incarnation",
            Self::Busy { .. } | Self::TableBusy { .. } | Self::DataBusy { .. } => "try again soon",
            Self::BucketStays { .. } => "go on with GC, which comes back to it",
            Self::InQuarantine { .. } => "mend or remove the bucket's files",
            Self::NoSpace { .. } => "delete objects, let GC run, or raise capacity_bytes",
            Self::ReserveMissing { .. } => "let GC free space; writes wait for it, deletes do not",
            Self::DiskFull { .. } => "delete objects or let GC run",
            Self::TooManyFiles { .. } => {
                "raise the limit (ulimit -n), as the store holds one open file for each bucket"
            }
            Self::TooFewFiles { .. } => "raise the limit (ulimit -n) and open it again",
            Self::NumbersExhausted { .. } => "move its objects into a new directory",
            Self::ReadOnly(_) => "mend the disk and open it again",
            Self::Refused { remedy, .. } => remedy,
            Self::UnknownVersion { .. } => "open the directory with the program that wrote it",
            Self::CommittedTargetDamaged { .. } => {
                "restore its files or remove the round by hand; its sources are kept"
            }
            Self::Damaged { .. } => "get the object from elsewhere; it is no longer served",
            Self::NotDurable(error) => {
                let first = error.remedy();
                return format!("{first}; then publish again (publish_pending), or write them again").into();
            }
            Self::Io { source, .. } => io_remedy(source),
        };
        text.into()
    }
}

/// What to do about a call of the system that failed.
pub(crate) fn io_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "give this user permission to read and write the directory and its files, and look for an immutable flag (lsattr)"
        }
        io::ErrorKind::ReadOnlyFilesystem => "mount the file system writable",
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => {
            "stop whoever else changes the directory, and open it again"
        }
        _ => "try again; if it goes on, look into the system's log and check the disk",
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
