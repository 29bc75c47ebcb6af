//! Owns why a directory cannot be had: the reason, the path, what to do about it, and a stable code.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::holder::Holder;
use crate::error::io_remedy;

/// The directory was not opened, and nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum DirError {
    /// There is nothing at the path. It is not created: a mount that is missing must not be taken for an empty disk.
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// Something else has the name, or a part of the path is no directory.
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The last part of the path is a symbolic link, which could be made to point elsewhere.
    Symlink {
        /// The path.
        path: PathBuf,
    },
    /// This process cannot change it.
    ReadOnly {
        /// The path.
        path: PathBuf,
        /// Whether it is the file system or the permissions.
        reason: &'static str,
    },
    /// It belongs to another user.
    OtherOwner {
        /// The path.
        path: PathBuf,
        /// The owner's number.
        owner: u32,
        /// This process's user number.
        user: u32,
    },
    /// Locks and syncs of such a file system cannot be trusted.
    NetworkFileSystem {
        /// The path.
        path: PathBuf,
        /// The kind of file system.
        file_system: &'static str,
    },
    /// Somebody has it.
    Held {
        /// The path.
        path: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// The system refused.
    Io {
        /// The path.
        path: PathBuf,
        /// The call that failed.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl DirError {
    /// The path that was asked for.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Missing { path }
            | Self::NotADirectory { path }
            | Self::Symlink { path }
            | Self::ReadOnly { path, .. }
            | Self::OtherOwner { path, .. }
            | Self::NetworkFileSystem { path, .. }
            | Self::Held { path, .. }
            | Self::Io { path, .. } => path,
        }
    }

    /// The stable name of the reason, for logs and scripts.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "DIR_MISSING",
            Self::NotADirectory { .. } => "DIR_NOT_A_DIRECTORY",
            Self::Symlink { .. } => "DIR_SYMLINK",
            Self::ReadOnly { .. } => "DIR_READ_ONLY",
            Self::OtherOwner { .. } => "DIR_OTHER_OWNER",
            Self::NetworkFileSystem { .. } => "DIR_NETWORK_FILE_SYSTEM",
            Self::Held { .. } => "DIR_IN_USE",
            Self::Io { .. } => "DIR_IO",
        }
    }

    /// What is wrong and where, without what to do about it.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Missing { path } => format!("{path:?} does not exist"),
            Self::NotADirectory { path } => format!("{path:?} is not a directory"),
            Self::Symlink { path } => format!("{path:?} is a symbolic link"),
            Self::ReadOnly { path, reason } => format!("{path:?} is read-only for this process: {reason}"),
            Self::OtherOwner { path, owner, user } => {
                format!("{path:?} belongs to user {owner}, and this process is user {user}")
            }
            Self::NetworkFileSystem { path, file_system } => {
                format!("{path:?} is on a network file system ({file_system}), whose locks and syncs cannot be trusted")
            }
            Self::Held { path, holder } => format!("{path:?} is in use by {holder}"),
            Self::Io { path, step, source } => format!("{path:?} cannot be opened: {step} failed: {source}"),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "create the directory, or mount the disk that holds it",
            Self::NotADirectory { .. } => "name the directory that holds the buckets",
            Self::Symlink { .. } => "name the directory that it points to",
            Self::ReadOnly { .. } => "mount it writable, or give this user read, write and search permission",
            Self::OtherOwner { .. } => "run as the owner, or change the owner",
            Self::NetworkFileSystem { .. } => "use a local disk",
            Self::Held { .. } => "stop that one first",
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "give this user permission to search every directory above it",
                io::ErrorKind::InvalidFilename => "name an existing directory",
                _ if source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                    "name an existing directory; the links of this path lead in a circle"
                }
                _ => io_remedy(source),
            },
        }
    }
}

impl fmt::Display for DirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.remedy())
    }
}

impl std::error::Error for DirError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::{DirError, Holder};
    use crate::error::tests::is_an_order;

    #[test]
    fn every_reason_names_the_path_and_what_to_do() {
        let path = || PathBuf::from("/disk");
        let all = [
            DirError::Missing { path: path() },
            DirError::NotADirectory { path: path() },
            DirError::Symlink { path: path() },
            DirError::ReadOnly { path: path(), reason: "the file system is mounted read-only" },
            DirError::OtherOwner { path: path(), owner: 6, user: 5 },
            DirError::NetworkFileSystem { path: path(), file_system: "NFS" },
            DirError::Held { path: path(), holder: Holder::Process(7) },
            DirError::Io { path: path(), step: "stat", source: io::ErrorKind::PermissionDenied.into() },
            DirError::Io { path: path(), step: "stat", source: io::ErrorKind::InvalidFilename.into() },
            DirError::Io { path: path(), step: "flock", source: io::Error::other("no locks available") },
        ];
        let number = |error: &DirError| match error {
            DirError::Missing { .. } => 0,
            DirError::NotADirectory { .. } => 1,
            DirError::Symlink { .. } => 2,
            DirError::ReadOnly { .. } => 3,
            DirError::OtherOwner { .. } => 4,
            DirError::NetworkFileSystem { .. } => 5,
            DirError::Held { .. } => 6,
            DirError::Io { .. } => 7,
        };
        for (at, error) in all.iter().enumerate() {
            assert_eq!(number(error), at.min(7), "a new reason is to be added here: {error}");
            let (text, remedy) = (error.to_string(), error.remedy());
            assert!(text.starts_with("\"/disk\" ") && text.ends_with(remedy), "{text}");
            assert!(is_an_order(remedy), "what to do: {text}");
            assert_eq!((error.path(), &error.code()[..4]), (&*path(), "DIR_"));
        }
    }
}
