//! Owns the tests of the books over names: against what the simulated disk really keeps.

use std::io;
use std::sync::Arc;

use super::{Mutex, Vouched, lost_names};
use crate::crashsafe::{self, Attempt, Step};
use crate::vfs::sim::{CrashStates, EIO, EMFILE, Fault, OpKind, SimDir, SimDisk, nth};
use crate::vfs::{DirEntry, Space, Vfs, VfsFile};

fn mounted() -> (SimDisk, Arc<Vouched>) {
    let disk = SimDisk::new();
    let dir = Vouched::new(Arc::new(disk.mount().unwrap()));
    (disk, dir)
}

fn lost(dir: &dyn Vfs) -> Vec<String> {
    let names: Vec<_> = dir.list().unwrap().into_iter().map(|entry| entry.name).collect();
    lost_names(&names)
}

fn fail_next_sync(disk: &SimDisk) {
    disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
}

/// Whether the name is there, or gone, in everything that a power loss may leave.
fn survives(disk: &SimDisk, name: &str) -> bool {
    disk.crash_point().images(CrashStates::default()).all(|image| image.bytes(name).is_some())
}

#[test]
fn b8_a_name_that_another_calls_failed_sync_lost_is_not_published_by_a_sync_that_succeeds() {
    let (disk, dir) = mounted();
    // Between the rename of this publish and its sync, another thread syncs, and fails.
    let other = Arc::clone(&dir);
    disk.inject(1, Fault::Errno(EIO), nth(1, |op| op.kind == OpKind::SyncDir));
    disk.when(
        |op| op.kind == OpKind::SyncDir,
        move || {
            drop(other.create("other").unwrap());
            other.sync_dir().unwrap_err();
        },
    );
    let error = crashsafe::publish(&*dir, "table", b"new").unwrap_err();
    assert_eq!((error.step, error.may_be_in_place()), (Step::SyncDir, true));
    assert!(!survives(&disk, "table"), "the second sync did succeed, and that was worth nothing");
    crashsafe::publish(&*dir, "table", b"new").unwrap();
    assert!(survives(&disk, "table") && !survives(&disk, "other"));
    assert!(dir.is_vouched("table") && !dir.is_vouched("other"));
}

#[test]
fn b8_a_removal_that_was_lost_is_not_believed_either() {
    let (disk, dir) = mounted();
    for name in ["a", "b"] {
        crashsafe::publish(&*dir, name, b"x").unwrap();
    }
    dir.unlink("a").unwrap();
    fail_next_sync(&disk);
    dir.sync_dir().unwrap_err();
    let error = crashsafe::remove(&*dir, &["a", "b"], Attempt::First).unwrap_err();
    assert_eq!((&*error.name, error.step), ("a", Step::SyncDir));
    assert!(disk.crash_point().least().bytes("a").is_some(), "it may come back");
    crashsafe::remove(&*dir, &["a", "b"], Attempt::Repeated).unwrap();
    assert!(
        ["a", "b"]
            .iter()
            .all(|name| disk.crash_point().images(CrashStates::default()).all(|i| i.bytes(name).is_none()))
    );
}

#[test]
fn what_is_durable_is_not_synced_again_and_what_an_earlier_process_left_is() {
    let (disk, dir) = mounted();
    let syncs = || disk.log().iter().filter(|op| op.kind == OpKind::SyncDir).count();
    disk.record();
    dir.sync_dir().unwrap();
    assert_eq!(syncs(), 1, "who knows what was there before");
    dir.sync_dir().unwrap();
    assert_eq!(syncs(), 1);
    drop(dir.create("a").unwrap());
    dir.sync_dir().unwrap();
    assert_eq!(syncs(), 2);
    assert!(survives(&disk, "a"));
}

#[test]
fn what_many_threads_publish_at_once_is_all_durable() {
    let (disk, dir) = mounted();
    dir.sync_dir().unwrap();
    disk.record();
    std::thread::scope(|threads| {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let dir = &dir;
            threads.spawn(move || crashsafe::publish(&**dir, name, b"x").unwrap());
        }
    });
    assert!(["a", "b", "c", "d", "e", "f"].iter().all(|name| survives(&disk, name)));
}

#[test]
fn d3_the_next_process_is_told_what_only_the_cache_has() {
    let (disk, dir) = mounted();
    crashsafe::publish(&*dir, "fine", b"x").unwrap();
    crashsafe::publish(&*dir, "table", b"old").unwrap();
    fail_next_sync(&disk);
    crashsafe::publish(&*dir, "table", b"new").unwrap_err();
    drop(dir);
    let dir = disk.mount().unwrap();
    assert_eq!(lost(&dir), ["table"]);
    assert_eq!(disk.image().bytes("table").unwrap(), b"new", "the cache has it");
    dir.sync_dir().unwrap();
    assert_eq!(disk.crash_point().least().bytes("table").unwrap(), b"old", "the disk has not");
}

/// A disk on which something happens right behind the next change of a name, before whoever made it can have noted it.
struct Behind {
    dir: SimDir,
    happens: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.dir.fmt(f)
    }
}

impl Behind {
    fn now<T>(&self, changed: io::Result<T>) -> io::Result<T> {
        let happens = self.happens.lock().take();
        happens.into_iter().for_each(|happens| happens());
        changed
    }
}

impl Vfs for Behind {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        let temporary = crate::crashsafe::temporary_for(name).is_some();
        let created = self.dir.create(name);
        if temporary { created } else { self.now(created) }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.dir.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.now(self.dir.rename(from, to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.now(self.dir.unlink(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.dir.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.dir.space()
    }
}

#[test]
fn b8_a_change_that_nobody_had_noted_yet_when_a_sync_failed_is_lost_too() {
    type Change = fn(&Vouched) -> io::Result<()>;
    let changes: [(&str, Change); 4] = [
        ("created", |dir| dir.create("created").map(drop)),
        ("renamed", |dir| dir.rename("there", "renamed")),
        ("there", |dir| dir.unlink("there")),
        ("there", |dir| dir.renew("there")),
    ];
    for (name, change) in changes {
        let disk = SimDisk::new();
        let inner = Arc::new(Behind { dir: disk.mount().unwrap(), happens: Mutex::default() });
        let dir = Vouched::new(Arc::clone(&inner) as _);
        crashsafe::publish(&*dir, "there", b"x").unwrap();
        let other = Arc::clone(&dir);
        fail_next_sync(&disk);
        *inner.happens.lock() = Some(Box::new(move || {
            drop(other.create("other").unwrap());
            other.sync_dir().unwrap_err();
        }));
        change(&dir).unwrap();
        dir.sync_dir().unwrap();
        assert!(!dir.is_vouched(name), "{name}: a sync that succeeded later is believed");
        assert!(lost(&*dir).iter().any(|lost| lost == name), "{name}: the next process is told");
    }
}

#[test]
fn without_a_descriptor_to_sync_through_nothing_is_lost() {
    let (disk, dir) = mounted();
    dir.sync_dir().unwrap();
    drop(dir.create("a").unwrap());
    disk.inject(1, Fault::Errno(EMFILE), |op| op.kind == OpKind::SyncDir);
    dir.sync_dir().unwrap_err();
    assert!(dir.is_vouched("a") && !survives(&disk, "a"));
    assert!(lost(&*dir).is_empty(), "nothing is to be put in place anew");
    dir.sync_dir().unwrap();
    assert!(dir.is_vouched("a") && survives(&disk, "a"));
}
