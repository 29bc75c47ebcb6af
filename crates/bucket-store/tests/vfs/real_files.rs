//! Owns what only a real directory has: links, pipes, names that are no text.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use bucket_store::vfs::{Access, DirEntry, DiskDir, EntryKind, Vfs};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn folder() -> (tempfile::TempDir, DiskDir) {
    let folder = tempfile::tempdir().unwrap();
    let dir = DiskDir::open(folder.path(), Access::Store).unwrap();
    (folder, dir)
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn links_pipes_and_folders_are_no_files_and_nothing_waits() {
    let (folder, dir) = folder();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), b"secret").unwrap();
    symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    pipe(&folder.path().join("pipe"));
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for name in ["link", "dangling", "pipe", "folder"] {
        assert_eq!(dir.open(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name}");
        assert_eq!(dir.create(name).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{name}");
    }
    assert!(dir.unlink("folder").is_err(), "a folder is no file to unlink");
    dir.unlink("link").unwrap();
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn strange_entries_are_listed_as_what_they_are() {
    let (folder, dir) = folder();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    symlink("file", folder.path().join("link")).unwrap();
    std::fs::write(folder.path().join(OsStr::from_bytes(b"\xff.meta")), b"").unwrap();
    let mut listed = dir.list().unwrap();
    listed.sort();
    let entry = |name: &str, kind| DirEntry { name: name.into(), kind };
    let expected = [
        entry("file", EntryKind::File),
        entry("folder", EntryKind::Directory),
        entry("link", EntryKind::Other),
        entry("\u{fffd}.meta", EntryKind::Other),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn the_directory_is_held_by_what_it_is_and_not_by_its_name() {
    let parent = tempfile::tempdir().unwrap();
    let (old, new) = (parent.path().join("old"), parent.path().join("new"));
    std::fs::create_dir(&old).unwrap();
    let dir = DiskDir::open(&old, Access::Store).unwrap();
    std::fs::rename(&old, &new).unwrap();
    std::fs::create_dir(&old).unwrap();
    dir.create("f").unwrap();
    dir.sync_dir().unwrap();
    assert!(new.join("f").exists() && !old.join("f").exists());
}

#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, dir) = folder();
    dir.create("f").unwrap();
    assert_eq!(std::fs::metadata(folder.path().join("f")).unwrap().permissions().mode() & 0o077, 0);
}
