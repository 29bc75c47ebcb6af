//! Owns the tests of the limit of open files, on a real directory, in a process of its own whose limit is lowered.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{DeleteOutcome, Store, StoreError, StoreErrorKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::kit::{builder, delete, list, seed_of, write_all};

const BUCKETS: u64 = 40;

fn limit(files: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).unwrap();
}

fn open(path: &Path) -> Result<Store, StoreError> {
    builder().open(Arc::new(DiskDir::open(path, Access::Store).unwrap()))
}

fn look(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries.map(|it| (it.file_name().into_string().unwrap(), std::fs::read(it.path()).unwrap())).collect()
}

/// Every descriptor that there is, until it is dropped.
fn all_that_are_left() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// The process of the tests below, and nothing where nobody has said which directory.
#[test]
#[expect(clippy::disallowed_methods, reason = "the only way to tell another process of the test program")]
fn with_few_files() {
    let Some(path) = std::env::var_os("FEW_FILES_IN") else { return };
    let path = Path::new(&path);
    limit(BUCKETS + 200);
    let store = open(path).unwrap();
    for seed in 1..=BUCKETS {
        write_all(&store, &[(&*seed.to_string(), seed)]).unwrap();
    }
    let before = look(path);
    let taken = all_that_are_left();
    // More often than what makes a store read-only.
    for _ in 0..5 {
        let error = write_all(&store, &[("new", 100)]).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("TOO_MANY_FILES", StoreErrorKind::Disk));
        let said = error.to_string();
        assert!(
            said.contains(&format!("the limit of {} open files", BUCKETS + 200)) && said.contains("ulimit -n"),
            "{said}"
        );
        let DeleteOutcome::Retryable(error) = delete(&store, "7", 7) else { panic!("deleted without a descriptor") };
        assert_eq!(error.code(), "TOO_MANY_FILES");
        store.gc_step();
    }
    assert_eq!((store.read_only(), seed_of(&store, "8")), (None, Some(8)));
    drop(taken);
    assert!(look(path) == before, "nothing has changed");
    assert!(matches!(delete(&store, "7", 7), DeleteOutcome::Removed));
    write_all(&store, &[("new", 100)]).unwrap();
    store.audit().unwrap();

    // With one descriptor left there is enough for a delete.
    let mut taken = all_that_are_left();
    taken.pop();
    assert!(matches!(delete(&store, "9", 9), DeleteOutcome::Removed));
    drop((store, taken));

    let before = look(path);
    limit(BUCKETS + 20);
    let error = open(path).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("TOO_MANY_FILES", StoreErrorKind::Refused));
    let said = error.to_string();
    for part in [&*format!("with {} buckets", BUCKETS + 1), &format!("its limit is {}", BUCKETS + 20), "ulimit -n"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(look(path) == before, "it was refused after a change");
    limit(BUCKETS + 200);
    assert_eq!(list(&open(path).unwrap(), 100).len() as u64, BUCKETS - 1);
    println!("all of it was done");
}

#[test]
fn at_the_limit_of_open_files_nothing_changes_nothing_is_read_only_and_the_limit_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "open_files::with_few_files", "--nocapture"])
        .env("FEW_FILES_IN", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("all of it was done"), "{said}");
}
