//! Owns who may have a real directory, and that being refused changes nothing.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bucket_store::vfs::{Access, DirError, DiskDir, Holder, Vfs};

fn refused(path: &Path) -> DirError {
    DiskDir::open(path, Access::Store).unwrap_err()
}

/// Everything that can be seen of a folder without changing it.
fn look(path: &Path) -> (u32, i64, i64, Vec<PathBuf>) {
    let stat = std::fs::metadata(path).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    (stat.mode(), stat.mtime_nsec(), stat.ctime_nsec(), names)
}

#[test]
fn a_missing_path_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing");
    assert!(matches!(refused(&path), DirError::Missing { path: named } if named == path));
    assert!(!path.exists());
}

#[test]
fn a_file_is_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, b"x").unwrap();
    assert!(matches!(refused(&path), DirError::NotADirectory { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
}

#[test]
fn a_path_that_goes_through_a_file_is_no_directory() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"x").unwrap();
    let path = folder.path().join("file/below");
    for access in [Access::Store, Access::Inspect] {
        let error = DiskDir::open(&path, access).unwrap_err();
        assert!(matches!(&error, DirError::NotADirectory { path: named } if *named == path), "{error}");
    }
    let long = folder.path().join("n".repeat(300));
    let error = refused(&long);
    assert!(matches!(&error, DirError::Io { step: "stat", .. }), "{error}");
    assert_eq!((error.remedy(), error.code()), ("name an existing directory", "DIR_IO"));
    symlink("circle", folder.path().join("circle")).unwrap();
    let error = refused(&folder.path().join("circle/below"));
    assert!(error.to_string().ends_with("the links of this path lead in a circle"), "{error}");
}

#[test]
fn a_link_to_a_directory_is_refused_with_a_slash_and_without() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("real")).unwrap();
    let link = folder.path().join("link");
    symlink("real", &link).unwrap();
    let with_slash = PathBuf::from(format!("{}/", link.display()));
    for path in [link, with_slash] {
        assert!(matches!(refused(&path), DirError::Symlink { .. }), "{path:?}");
    }
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    assert!(matches!(refused(&folder.path().join("dangling")), DirError::Symlink { .. }));
    DiskDir::open(&folder.path().join("real/"), Access::Store).unwrap();
}

#[test]
fn another_owners_directory_is_refused_and_may_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let user = std::fs::metadata(folder.path()).unwrap().uid();
    let path = if user == 0 {
        chown(folder.path(), Some(4321), None).unwrap();
        folder.path()
    } else {
        Path::new("/")
    };
    let before = look(path);
    let error = refused(path);
    let DirError::OtherOwner { owner, user: me, .. } = error else { panic!("{error}") };
    assert_eq!((owner, me), (if user == 0 { 4321 } else { 0 }, user));
    assert_eq!(look(path), before);
    DiskDir::open(path, Access::Inspect).unwrap();
}

#[test]
fn a_directory_without_write_permission_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    if std::fs::metadata(folder.path()).unwrap().uid() == 0 {
        // Permissions do not stop this user; what is decided from them is tested beside the code.
        return;
    }
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let before = look(folder.path());
    assert!(matches!(refused(folder.path()), DirError::ReadOnly { .. }));
    assert_eq!(look(folder.path()), before);
    DiskDir::open(folder.path(), Access::Inspect).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn b3_a_directory_in_use_is_refused_also_to_this_process_and_free_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let held = DiskDir::open(folder.path(), Access::Store).unwrap();
    let before = look(folder.path());
    for access in [Access::Store, Access::Inspect] {
        let error = DiskDir::open(folder.path(), access).unwrap_err();
        let DirError::Held { holder, .. } = &error else { panic!("{error}") };
        if Path::new("/proc/locks").exists() {
            assert_eq!(*holder, Holder::ThisProcess, "{error}");
        }
    }
    assert_eq!(look(folder.path()), before);
    drop(held);
    DiskDir::open(folder.path(), Access::Store).unwrap();
}

/// A process that is killed when the test ends, however it ends.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other process of the test below, and nothing where nobody has said which directory.
#[test]
#[expect(clippy::disallowed_methods, reason = "the only way to tell another process of the test program")]
fn hold_a_directory() {
    let Some(path) = std::env::var_os("HELD_DIRECTORY") else { return };
    let _held = DiskDir::open(Path::new(&path), Access::Store).unwrap();
    std::fs::write(Path::new(&path).join("held"), b"").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn b3_another_process_that_has_it_is_named_and_its_death_frees_it() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "admission::hold_a_directory"])
        .env("HELD_DIRECTORY", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut other = Other(child);
    while !folder.path().join("held").exists() {
        assert!(other.0.try_wait().unwrap().is_none(), "the other process ended");
        std::thread::yield_now();
    }
    let error = refused(folder.path());
    let DirError::Held { holder, .. } = &error else { panic!("{error}") };
    if Path::new("/proc/locks").exists() {
        assert_eq!(*holder, Holder::Process(other.0.id()), "{error}");
    }
    other.0.kill().unwrap();
    other.0.wait().unwrap();
    DiskDir::open(folder.path(), Access::Store).unwrap();
}

#[test]
fn two_may_look_and_nobody_who_looks_changes_anything() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), b"f").unwrap();
    let first = DiskDir::open(folder.path(), Access::Inspect).unwrap();
    let second = DiskDir::open(folder.path(), Access::Inspect).unwrap();
    assert!(matches!(refused(folder.path()), DirError::Held { .. }));
    let before = look(folder.path());
    let kinds = [
        second.create("g").map(|_| ()).unwrap_err().kind(),
        second.unlink("f").unwrap_err().kind(),
        second.rename("f", "g").unwrap_err().kind(),
        second.sync_dir().unwrap_err().kind(),
    ];
    assert_eq!(kinds, [std::io::ErrorKind::ReadOnlyFilesystem; 4]);
    assert_eq!(first.list().unwrap().len(), 1);
    assert_eq!(first.open("f").unwrap().len().unwrap(), 1);
    assert_eq!(look(folder.path()), before);
    drop((first, second));
    DiskDir::open(folder.path(), Access::Store).unwrap();
}
