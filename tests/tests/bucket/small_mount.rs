//! Owns a small file system of its own for a test, mounted and unmounted by it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted file system. It is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct SmallMount {
    directory: TempDir,
}

impl SmallMount {
    /// One of so many MiB: ext4 in a file where the machine can, since it allocates late and keeps a journal, else memory. `None` if this
    /// process may mount nothing.
    pub(crate) fn new(mebibytes: u64) -> Option<(Self, &'static str)> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mount")).unwrap();
        let mount = Self { directory };
        let (image, at) = (mount.directory.path().join("image"), mount.path());
        std::fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let made = run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        if made && run(Command::new("mount").args(["-o", "loop"]).args([&image, &at])) {
            return Some((mount, "ext4"));
        }
        let size = format!("size={mebibytes}m");
        if run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at)) {
            return Some((mount, "tmpfs"));
        }
        None
    }

    /// Mounts it otherwise: `ro` or `rw`. Whether that could be done.
    pub(crate) fn remount(&self, how: &str) -> bool {
        run(Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(self.path()))
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }
}

impl Drop for SmallMount {
    fn drop(&mut self) {
        // Where nothing was mounted this fails, and nothing depends on it.
        run(Command::new("umount").arg(self.path()));
    }
}

/// Runs it to its end. Whether it succeeded.
pub(crate) fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Takes every block that is left, and gives the file that holds them.
pub(crate) fn fill(mount: &Path) -> PathBuf {
    use std::io::Write as _;
    let path = mount.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    for len in [1 << 20, 64 << 10, 4096, 512, 1] {
        // A file system that allocates late says only at the sync that it is full.
        while file.write_all(&vec![7; len]).and_then(|()| file.sync_data()).is_ok() {}
    }
    path
}
