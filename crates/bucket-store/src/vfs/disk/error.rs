//! Owns why a directory cannot be had.

use std::io;
use std::path::PathBuf;

use super::holder::Holder;

/// The directory was not opened, and nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirError {
    /// There is nothing at the path. It is not created: a mount that is missing must not be taken for an empty disk.
    #[error("{path:?} does not exist; create the directory, or mount the disk that holds it")]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// Something else has the name.
    #[error("{path:?} is not a directory; name the directory that holds the buckets")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The last part of the path is a symbolic link, which could be made to point elsewhere.
    #[error("{path:?} is a symbolic link; name the directory that it points to")]
    Symlink {
        /// The path.
        path: PathBuf,
    },
    /// This process cannot change it.
    #[error(
        "{path:?} is read-only for this process: {reason}; mount it writable, or give this user read, write and search permission"
    )]
    ReadOnly {
        /// The path.
        path: PathBuf,
        /// Whether it is the file system or the permissions.
        reason: &'static str,
    },
    /// It belongs to another user.
    #[error("{path:?} belongs to user {owner}, and this process is user {user}; run as the owner, or change the owner")]
    OtherOwner {
        /// The path.
        path: PathBuf,
        /// The owner's number.
        owner: u32,
        /// This process's user number.
        user: u32,
    },
    /// Locks and syncs of such a file system cannot be trusted.
    #[error(
        "{path:?} is on a network file system ({file_system}), whose locks and syncs cannot be trusted; use a local disk"
    )]
    NetworkFileSystem {
        /// The path.
        path: PathBuf,
        /// The kind of file system.
        file_system: &'static str,
    },
    /// Somebody has it.
    #[error("{path:?} is in use by {holder}; stop that one first")]
    Held {
        /// The path.
        path: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// The system refused.
    #[error("{path:?} cannot be opened: {step} failed: {source}")]
    Io {
        /// The path.
        path: PathBuf,
        /// The call that failed.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
