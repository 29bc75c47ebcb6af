//! Owns where the file lies: on which file system, and whether the path still names the file that was opened. It never opens
//! the file itself: closing any descriptor of it would drop the locks that SQLite holds in this process.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statfs};

use super::options::SqliteOptions;
use crate::{DurableAck, Effect, KvError, KvErrorKind};

/// What tells two files apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The file's path, absolute, so that neither a change of directory nor a name like `file:x` gives it another meaning.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    wal: PathBuf,
    pub(super) durable_ack: DurableAck,
}

/// Which files a path named when the store was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pinned {
    file: FileId,
    wal: FileId,
}

/// How the file system counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    Local,
    /// Lost with the power.
    Memory(&'static str),
    Network(&'static str),
    Fuse,
}

/// The magic numbers of `statfs(2)` that matter.
fn file_system(magic: u64) -> FileSystem {
    // The kernel's field is signed and its width differs; the numbers are 32 bits wide.
    match magic & 0xffff_ffff {
        0x6969 => FileSystem::Network("NFS"),
        0x517b => FileSystem::Network("SMB"),
        0xff53_4d42 => FileSystem::Network("CIFS"),
        0xfe53_4d42 => FileSystem::Network("SMB2"),
        0x0102_1997 => FileSystem::Network("9P"),
        0x5346_414f | 0x6b41_4653 => FileSystem::Network("AFS"),
        0x7375_7245 => FileSystem::Network("Coda"),
        0x564c => FileSystem::Network("NCP"),
        0x00c3_6400 => FileSystem::Network("Ceph"),
        0x0bd0_0bd0 => FileSystem::Network("Lustre"),
        0x0116_1970 => FileSystem::Network("GFS2"),
        0x7461_636f => FileSystem::Network("OCFS2"),
        0x4750_4653 => FileSystem::Network("GPFS"),
        0x1983_0326 => FileSystem::Network("BeeGFS"),
        0x6573_5546 => FileSystem::Fuse,
        0x0102_1994 => FileSystem::Memory("tmpfs"),
        0x8584_58f6 => FileSystem::Memory("ramfs"),
        _ => FileSystem::Local,
    }
}

fn refused(kind: KvErrorKind, message: String) -> KvError {
    KvError::new(kind, Effect::NotApplied, message)
}

fn judge(system: FileSystem, directory: &Path, allow_fuse: bool) -> Result<DurableAck, KvError> {
    let network = |name: &str, remedy: &str| {
        let directory = directory.display();
        let why = "SQLite's locks and shared memory do not work across hosts";
        Err(refused(KvErrorKind::Unsupported, format!("{directory} is on {name}, where {why}; {remedy}")))
    };
    match system {
        FileSystem::Network(name) => network(name, "use a local disk, or the etcd backend"),
        FileSystem::Fuse if !allow_fuse => {
            network("FUSE, which may be a network", "use a local disk, or allow FUSE if it is one")
        }
        FileSystem::Memory(name) => Ok(DurableAck::No {
            reason: format!(
                "{} is on {name} and lost with the power; put the SQLite file on a disk",
                directory.display()
            ),
        }),
        FileSystem::Fuse | FileSystem::Local => Ok(DurableAck::Yes),
    }
}

impl Place {
    /// Looks at the path before anything is opened or created.
    ///
    /// # Errors
    /// `InvalidArgument`, `WrongStore`, `Unsupported`, `ReadOnly`; nothing was changed.
    pub(super) fn examine(options: &SqliteOptions) -> Result<Self, KvError> {
        let path = &options.path;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = directory.canonicalize().map_err(|e| {
            let message =
                format!("the directory {} of the SQLite file cannot be used ({e}); create it", directory.display());
            refused(KvErrorKind::InvalidArgument, message).with_source(e)
        })?;
        let named = directory.join(path.file_name().unwrap_or_default());
        // A symbolic link is followed, so that the files beside it are those of its target.
        let file = named.canonicalize().unwrap_or(named);
        let directory = file.parent().unwrap_or(&directory).to_path_buf();
        let magic = statfs(&directory).map_err(|e| {
            refused(
                KvErrorKind::Unavailable,
                format!("the file system of {} cannot be asked ({e}); check the mount", directory.display()),
            )
        })?;
        // The field's type differs between architectures; only its low 32 bits are compared.
        #[allow(
            clippy::cast_sign_loss,
            clippy::unnecessary_cast,
            reason = "the width and sign differ between architectures"
        )]
        let durable_ack = judge(file_system(magic.f_type as u64), &directory, options.allow_fuse)?;
        if access(&directory, Access::WRITE_OK | Access::EXEC_OK).is_err() {
            let message = format!(
                "the directory {} is not writable, and SQLite keeps files in it; make it so",
                directory.display()
            );
            return Err(refused(KvErrorKind::ReadOnly, message));
        }
        match std::fs::metadata(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                let message = format!("{} cannot be looked at ({e}); check its permissions", file.display());
                return Err(refused(KvErrorKind::Unavailable, message).with_source(e));
            }
            Ok(metadata) if !metadata.is_file() => {
                let message = format!("{} is no regular file; name another path", file.display());
                return Err(refused(KvErrorKind::WrongStore, message));
            }
            Ok(_) if access(&file, Access::WRITE_OK | Access::READ_OK).is_err() => {
                let message = format!("{} is read-only; make it writable for this user", file.display());
                return Err(refused(KvErrorKind::ReadOnly, message));
            }
            Ok(_) => {}
        }
        let mut wal = file.clone().into_os_string();
        wal.push("-wal");
        Ok(Self { file, wal: wal.into(), durable_ack })
    }

    /// Which file the path names now.
    pub(super) fn file_id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&std::fs::metadata(&self.file)?))
    }

    /// What is beside each other now; asked while a connection that has read is open, so both exist.
    pub(super) fn pin(&self) -> Result<Pinned, KvError> {
        let look = |path: &Path| match std::fs::metadata(path) {
            Ok(metadata) => Ok(FileId::of(&metadata)),
            Err(e) => Err(refused(
                KvErrorKind::WrongStore,
                format!("{} is gone ({e}) though the store is open; put it back and restart", path.display()),
            )
            .with_source(e)),
        };
        Ok(Pinned { file: look(&self.file)?, wal: look(&self.wal)? })
    }

    /// Whether the path still names what was opened.
    ///
    /// # Errors
    /// `WrongStore`: what is written now would be lost with the unlinked file.
    pub(super) fn check(&self, opened: Pinned, effect: Effect) -> Result<(), KvError> {
        let problem = match self.pin() {
            Ok(now) if now == opened => return Ok(()),
            Ok(_) => refused(
                KvErrorKind::WrongStore,
                format!("{} was replaced under us; put the old file back and restart", self.file.display()),
            ),
            Err(gone) => gone,
        };
        Err(KvError { effect, ..problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused_by_name() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB2"), (0x00c3_6400, "Ceph"), (0x0102_1997, "9P")]
        {
            // Sign extension, as a 64-bit kernel may report it.
            for magic in [magic, magic | 0xffff_ffff_0000_0000] {
                let error = judge(file_system(magic), Path::new("/data"), true).unwrap_err();
                assert_eq!((error.kind, error.effect), (KvErrorKind::Unsupported, Effect::NotApplied));
                assert!(error.message.contains("/data") && error.message.contains(name), "{}", error.message);
            }
        }
    }

    #[test]
    fn fuse_needs_a_word_and_memory_is_not_durable() {
        let fuse = file_system(0x6573_5546);
        assert_eq!(judge(fuse, Path::new("/d"), false).unwrap_err().kind, KvErrorKind::Unsupported);
        assert!(judge(fuse, Path::new("/d"), true).unwrap().is_yes());
        assert!(!judge(file_system(0x0102_1994), Path::new("/d"), false).unwrap().is_yes());
        assert!(judge(file_system(0xef53), Path::new("/d"), false).unwrap().is_yes());
    }
}
