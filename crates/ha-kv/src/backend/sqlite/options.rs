//! Owns the settings of an SQLite store.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Effect, KvError, KvErrorKind};

/// How an SQLite store is opened. The handles of one file may differ in everything but the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The file. Its directory must exist and be writable: SQLite keeps two more files beside it.
    pub path: PathBuf,
    /// How this process is named in the lease table, for people; at most 256 bytes.
    pub holder: String,
    /// How long a write waits for another process's transaction before it fails with `Busy`, `NotApplied`.
    pub busy_timeout: Duration,
    /// How often the file is looked at for changes while somebody watches.
    pub watch_interval: Duration,
    /// How many reads run at once; further ones wait.
    pub read_connections: usize,
    /// The most the file may grow to, in bytes (rounded down to pages of 4096); above it writes fail with `NoSpace`.
    pub max_file_bytes: Option<u64>,
    /// Largest transaction, keys and values together, in bytes; also the largest value.
    pub max_txn_bytes: usize,
    /// Most operations of a transaction.
    pub max_txn_ops: usize,
    /// Largest page of a range read, in bytes.
    pub max_reply_bytes: usize,
    /// Whether a FUSE file system is accepted. It cannot be asked whether it lies on a network; say yes only if it does not.
    pub allow_fuse: bool,
}

/// What a page of the file has; SQLite's default since 2016.
pub(super) const PAGE_BYTES: u64 = 4096;

impl SqliteOptions {
    /// The defaults for the file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            holder: format!("pid {}", std::process::id()),
            busy_timeout: Duration::from_secs(1),
            watch_interval: Duration::from_millis(5),
            read_connections: 4,
            max_file_bytes: None,
            max_txn_bytes: 16 << 20,
            max_txn_ops: 1024,
            max_reply_bytes: 16 << 20,
            allow_fuse: false,
        }
    }

    /// # Errors
    /// `InvalidArgument` naming the setting.
    pub(super) fn validate(&self) -> Result<(), KvError> {
        let refuse = |what: &str| Err(KvError::new(KvErrorKind::InvalidArgument, Effect::NotApplied, what));
        if self.path.file_name().is_none() {
            return refuse("the SQLite path names no file; give the path of a file");
        }
        if self.holder.len() > 256 {
            return refuse("the SQLite holder name is above 256 bytes; shorten it");
        }
        if self.watch_interval < Duration::from_millis(1) {
            return refuse("the SQLite watch interval is below a millisecond; raise it");
        }
        if self.read_connections == 0 || self.read_connections > 64 {
            return refuse("the SQLite read connections must be between 1 and 64");
        }
        if self.max_txn_bytes == 0 || self.max_txn_bytes > 512 << 20 {
            return refuse("the SQLite transaction limit must be between 1 byte and 512 MiB");
        }
        if self.max_txn_ops == 0 || self.max_reply_bytes == 0 {
            return refuse("the SQLite limits for operations and replies must be above 0");
        }
        if self.max_file_bytes.is_some_and(|bytes| bytes < 16 * PAGE_BYTES) {
            return refuse("the SQLite file limit is below 64 KiB, which does not hold an empty store; raise it");
        }
        Ok(())
    }
}
