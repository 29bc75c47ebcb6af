//! Owns who may have a directory: every question is asked before anything in it is read, and nothing is changed by asking.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;

use super::{Access, DirError, Holder, again, network};

pub(super) fn admit(path: &Path, access: Access) -> Result<OwnedFd, DirError> {
    let failed = |step| {
        let path = path.to_owned();
        move |errno: Errno| DirError::Io { path, step, source: io::Error::from(errno) }
    };
    let named = without_slashes(path);
    let seen = match again(|| fs::statat(CWD, &named, AtFlags::SYMLINK_NOFOLLOW)) {
        Err(Errno::NOENT) => return Err(DirError::Missing { path: path.to_owned() }),
        // Of a part of the path.
        Err(Errno::NOTDIR) => return Err(DirError::NotADirectory { path: path.to_owned() }),
        other => other.map_err(failed("stat"))?,
    };
    match FileType::from_raw_mode(seen.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => return Err(DirError::Symlink { path: path.to_owned() }),
        _ => return Err(DirError::NotADirectory { path: path.to_owned() }),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match again(|| fs::openat(CWD, &named, flags, Mode::empty())) {
        // It was another thing a moment ago.
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(DirError::NotADirectory { path: path.to_owned() }),
        Err(Errno::ACCESS) => {
            return Err(DirError::ReadOnly { path: path.to_owned(), reason: "no permission to read" });
        }
        other => other.map_err(failed("open"))?,
    };
    let found = Found {
        owner: again(|| fs::fstat(&dir)).map_err(failed("fstat"))?.st_uid,
        user: rustix::process::geteuid().as_raw(),
        magic: again(|| fs::fstatfs(&dir)).map_err(failed("fstatfs"))?.f_type as u64,
        mounted_read_only: again(|| fs::fstatvfs(&dir))
            .map_err(failed("fstatvfs"))?
            .f_flag
            .contains(StatVfsMountFlags::RDONLY),
        permitted: permitted(&dir).map_err(failed("faccessat"))?,
    };
    found.judge(path, access)?;
    let operation = match access {
        Access::Store => FlockOperation::NonBlockingLockExclusive,
        Access::Inspect => FlockOperation::NonBlockingLockShared,
    };
    match again(|| fs::flock(&dir, operation)) {
        Err(Errno::WOULDBLOCK) => {
            let holder = fs::fstat(&dir).map_or(Holder::Unknown, |stat| Holder::of(&stat));
            Err(DirError::Held { path: path.to_owned(), holder })
        }
        Err(errno) => Err(failed("flock")(errno)),
        Ok(()) => Ok(dir),
    }
}

/// With a slash at the end the system would follow a link after all.
fn without_slashes(path: &Path) -> PathBuf {
    path.components().collect()
}

fn permitted(dir: &OwnedFd) -> rustix::io::Result<bool> {
    let wanted = fs::Access::READ_OK | fs::Access::WRITE_OK | fs::Access::EXEC_OK;
    match again(|| fs::accessat(dir, ".", wanted, AtFlags::EACCESS)) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What was found out about a directory.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) owner: u32,
    pub(super) user: u32,
    pub(super) magic: u64,
    pub(super) mounted_read_only: bool,
    pub(super) permitted: bool,
}

impl Found {
    /// Whether the directory may be had. A tool that only looks may look at another owner's and at what cannot be written.
    pub(super) fn judge(self, path: &Path, access: Access) -> Result<(), DirError> {
        let path = || path.to_owned();
        if let Some(file_system) = network::name(self.magic) {
            return Err(DirError::NetworkFileSystem { path: path(), file_system });
        }
        if access == Access::Inspect {
            return Ok(());
        }
        if self.owner != self.user {
            return Err(DirError::OtherOwner { path: path(), owner: self.owner, user: self.user });
        }
        if self.mounted_read_only {
            return Err(DirError::ReadOnly { path: path(), reason: "the file system is mounted read-only" });
        }
        if !self.permitted {
            return Err(DirError::ReadOnly { path: path(), reason: "its permissions do not let this user change it" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Access, DirError, Found};

    const FINE: Found = Found { owner: 5, user: 5, magic: 0xef53, mounted_read_only: false, permitted: true };

    fn judge(found: Found, access: Access) -> Result<(), String> {
        found.judge(Path::new("/disk"), access).map_err(|error| error.to_string())
    }

    #[test]
    fn each_reason_is_named_with_the_path_and_the_remedy() {
        assert_eq!(judge(FINE, Access::Store), Ok(()));
        let cases = [
            (Found { owner: 6, ..FINE }, "belongs to user 6, and this process is user 5; run as the owner"),
            (Found { mounted_read_only: true, ..FINE }, "the file system is mounted read-only; mount it writable"),
            (Found { permitted: false, ..FINE }, "its permissions do not let this user change it"),
            (Found { magic: 0x6969, ..FINE }, "is on a network file system (NFS)"),
        ];
        for (found, text) in cases {
            let error = judge(found, Access::Store).unwrap_err();
            assert!(error.starts_with("\"/disk\" ") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_tool_may_look_at_anything_but_a_network_file_system() {
        let found = Found { owner: 6, mounted_read_only: true, permitted: false, ..FINE };
        assert_eq!(judge(found, Access::Inspect), Ok(()));
        let error = Found { magic: 0x6573_5546, ..FINE }.judge(Path::new("/disk"), Access::Inspect).unwrap_err();
        assert!(matches!(error, DirError::NetworkFileSystem { .. }));
    }
}
