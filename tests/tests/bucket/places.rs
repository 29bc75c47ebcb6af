//! Owns the tests of places that only a mount makes: a file system that is read-only, one that is mounted twice, and its root with the
//! `lost+found` of its tools. What looks may look, what would change something is refused by name, and nothing is changed by that.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bucket_store::Durability;
use bucket_store::vfs::{Access, DirError, DiskDir};
use plimsoll_tests::{Plimsoll, Ran, bucket_kit, missing, plimsoll};
use serde_json::json;

use crate::small_mount::{SmallMount, run};

/// Those that only look, and those that would change something.
const LOOKS: [&[&str]; 3] = [&["ls"], &["fsck"], &["explain"]];
const CHANGES: [&[&str]; 2] = [&["fsck", "--repair"], &["adopt", "--segment", "s", "--cluster", "c", "--one-way"]];

fn command(plimsoll: &Plimsoll, words: &[&str], dir: &Path) -> Ran {
    let dir = dir.display().to_string();
    let output = plimsoll.command(&[&["bucket"], words, &[&dir, "--json"]].concat()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// What can be seen of one name: the bytes of what is a file, its owner and when it was changed.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    bytes: Option<Vec<u8>>,
    owner: u32,
    changed: (i64, i64),
}

/// Every name of a directory, and itself.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Seen> {
    let see = |path: PathBuf| {
        let stat = path.symlink_metadata().unwrap();
        let bytes = std::fs::read(&path).ok();
        (path, Seen { bytes, owner: stat.uid(), changed: (stat.ctime(), stat.ctime_nsec()) })
    };
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    names.chain([dir.to_owned()]).map(see).collect()
}

/// Two buckets of a store's, and what a crash leaves: there is something to change.
fn fill(dir: &Path) {
    let store = bucket_kit::open(dir, bucket_kit::config(Durability::Sync)).unwrap();
    bucket_kit::write(&store, &[1, 2, 3, 4, 5, 6, 7]).unwrap();
    bucket_kit::delete(&store, &[3]).unwrap();
    drop(store);
    std::fs::write(dir.join("99.bucket"), b"half").unwrap();
    std::fs::write(dir.join(".1.meta.0.tmp"), b"half").unwrap();
}

/// Looking works, changing is refused with this code by the command and by the library, and nothing is changed.
fn is_read_only(plimsoll: &Plimsoll, dir: &Path, what: &str) {
    let before = snapshot(dir);
    for words in LOOKS {
        let ran = command(plimsoll, words, dir);
        // The half of a bucket is a fault.
        assert_eq!(ran.code, i32::from(words[0] == "fsck"), "{what}: {words:?}: {ran:?}");
        assert!(ran.json()["marker"]["kind"] == json!("ours"), "{what}: {words:?}: {ran:?}");
    }
    for words in CHANGES {
        let ran = command(plimsoll, words, dir);
        let report = ran.json();
        assert_eq!((ran.code, &report["code"]), (2, &json!("DIR_READ_ONLY")), "{what}: {words:?}: {ran:?}");
        assert_eq!(report["where"], json!(dir.display().to_string()), "{what}: {words:?}");
        assert!(report["remedy"].as_str().unwrap().contains("mount it writable"), "{what}: {report}");
    }
    let error = DiskDir::open(dir, Access::Store).unwrap_err();
    assert!(matches!(&error, DirError::ReadOnly { path, .. } if path == dir), "{what}: {error}");
    assert_eq!(snapshot(dir), before, "{what}");
}

/// A directory that is a second name of another one's content.
struct Bound(tempfile::TempDir);

impl Bound {
    fn to(dir: &Path) -> Option<Self> {
        let bound = Self(tempfile::tempdir().unwrap());
        run(std::process::Command::new("mount").arg("--bind").args([dir, bound.path()])).then_some(bound)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        run(std::process::Command::new("umount").arg(self.path()));
    }
}

#[test]
fn what_is_mounted_read_only_may_be_looked_at_and_nothing_else() {
    let name = "what_is_mounted_read_only_may_be_looked_at_and_nothing_else";
    let Some(plimsoll) = plimsoll(name) else { return };
    let Some((mount, kind)) = SmallMount::new(12) else { return missing("mount", name) };
    let dir = mount.path().join("buckets");
    std::fs::create_dir(&dir).unwrap();
    fill(&dir);

    let bound = Bound::to(&dir).expect("who may mount may bind");
    assert!(run(std::process::Command::new("mount").args(["-o", "remount,bind,ro"]).arg(bound.path())));
    is_read_only(&plimsoll, bound.path(), "a read-only second mount");
    drop(bound);

    if run(std::process::Command::new("chattr").arg("+i").arg(&dir)) {
        is_read_only(&plimsoll, &dir, "an immutable directory");
        assert!(run(std::process::Command::new("chattr").arg("-i").arg(&dir)));
    }

    assert!(mount.remount("ro"), "{kind}");
    is_read_only(&plimsoll, &dir, kind);
    assert!(mount.remount("rw"), "{kind}");
    let store = bucket_kit::open(&dir, bucket_kit::config(Durability::Sync)).unwrap();
    assert_eq!(bucket_kit::served(&store, 1), Some(1), "and it is whole");
}

#[test]
fn b3_a_directory_that_is_mounted_twice_has_one_lock() {
    let name = "b3_a_directory_that_is_mounted_twice_has_one_lock";
    let Some(plimsoll) = plimsoll(name) else { return };
    let Some((mount, _)) = SmallMount::new(12) else { return missing("mount", name) };
    let dir = mount.path().join("buckets");
    std::fs::create_dir(&dir).unwrap();
    fill(&dir);
    let bound = Bound::to(&dir).expect("who may mount may bind");
    let before = snapshot(&dir);
    let pid = format!("process {}", std::process::id());
    for (held, asked) in [(&*dir, bound.path()), (bound.path(), &*dir)] {
        let store = DiskDir::open(held, Access::Store).unwrap();
        for words in LOOKS.iter().chain(&CHANGES) {
            let ran = command(&plimsoll, words, asked);
            let report = ran.json();
            assert_eq!((ran.code, &report["code"]), (2, &json!("DIR_IN_USE")), "{words:?}: {ran:?}");
            assert!(report["what"].as_str().unwrap().contains(&pid), "{words:?}: {report}");
        }
        assert!(matches!(DiskDir::open(asked, Access::Store), Err(DirError::Held { .. })));
        drop(store);
        // Those that look may look through both.
        let looker = DiskDir::open(held, Access::Inspect).unwrap();
        assert_eq!(command(&plimsoll, &["ls"], asked).code, 0);
        assert_eq!(command(&plimsoll, &["fsck", "--repair"], asked).json()["code"], json!("DIR_IN_USE"));
        drop(looker);
    }
    assert_eq!(snapshot(&dir), before);
}

#[test]
fn the_root_of_a_file_system_may_be_the_directory() {
    let name = "the_root_of_a_file_system_may_be_the_directory";
    let Some(plimsoll) = plimsoll(name) else { return };
    let Some((mount, kind)) = SmallMount::new(12) else { return missing("mount", name) };
    let dir = mount.path();
    if kind == "ext4" {
        assert!(dir.join("lost+found").is_dir(), "its tools have made it");
    }
    fill(&dir);
    for words in LOOKS {
        let ran = command(&plimsoll, words, &dir);
        assert_eq!(ran.code, i32::from(words[0] == "fsck"), "{kind}: {ran:?}");
    }
    let repaired = command(&plimsoll, &["fsck", "--repair"], &dir);
    assert_eq!((repaired.code, &repaired.json()["verdict"]), (0, &json!("sound")), "{kind}: {repaired:?}");
    let store = bucket_kit::open(&dir, bucket_kit::config(Durability::Sync)).unwrap();
    assert_eq!(bucket_kit::served(&store, 1), Some(1));
    drop(store);

    // As Mooncake would have left it.
    let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.is_file()).for_each(|path| std::fs::remove_file(path).unwrap());
    std::fs::write(dir.join("7.meta"), b"\x08\x06\x12\x03t\0a\x1a\x04\x10\x03\x18\x03").unwrap();
    std::fs::write(dir.join("7.bucket"), b"t\0aold").unwrap();
    let adopted = command(&plimsoll, &["adopt", "--segment", "s", "--cluster", "c", "--one-way"], &dir);
    assert_eq!((adopted.code, &adopted.json()["live"]["records"]), (0, &json!(1)), "{kind}: {adopted:?}");
}
