//! The same on a real directory: what the simulated disk might be wrong about.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use ha_types::ManualClock;

use super::fixture::*;
use crate::gc::GcStep;
use crate::gc::plan::Idle;
use crate::store::Store;
use crate::vfs::{Access, DiskDir};

fn open(path: &Path, clock: &Arc<ManualClock>) -> Store {
    let dir = DiskDir::open(path, Access::Store).unwrap();
    let builder = Store::builder(marker(), Arc::clone(clock) as _).config(config());
    builder.open(Arc::new(dir)).unwrap()
}

fn settle(store: &Store, clock: &ManualClock) {
    loop {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(pause) => clock.advance(pause),
            other => return assert_eq!(other, GcStep::Idle(Idle::EnoughRoom)),
        }
        store.state.read().audit().unwrap();
    }
}

/// Bytes of the blocks of all data files that have a name.
fn blocks(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let data = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".bucket"));
    data.map(|entry| entry.metadata().unwrap().blocks() * 512).sum()
}

/// Six buckets of three objects, of which the first one is dead.
fn partly_dead(store: &Store) {
    for b in 0..6 {
        write(store, &[(b * 10, 1, 100_000), (b * 10 + 1, 1, 65_536), (b * 10 + 2, 1, 9_000)]).unwrap();
        assert!(delete(store, b * 10, 1));
    }
}

fn all_there(store: &Store) {
    for b in 0..6 {
        assert_eq!(read(store, b * 10), None);
        assert_eq!(read(store, b * 10 + 1), Some(value(b * 10 + 1, 1, 65_536)));
        assert_eq!(read(store, b * 10 + 2), Some(value(b * 10 + 2, 1, 9_000)));
    }
}

#[test]
fn b5_space_comes_back_and_accounted_bytes_are_the_blocks_used() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new()));
    let store = open(folder.path(), &clock);
    partly_dead(&store);
    assert_eq!(store.physical.get(), blocks(folder.path()));
    let before = blocks(folder.path());
    settle(&store, &clock);
    assert_eq!(store.physical.get(), blocks(folder.path()));
    assert!(blocks(folder.path()) <= before - 6 * 90_000, "{before} became {}", blocks(folder.path()));
    all_there(&store);
    let names = || {
        let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let left = names();
    assert!(!left.iter().any(|name| name.contains("intent") || name.contains("tmp")), "{left:?}");
    drop(store);
    let store = open(folder.path(), &clock);
    all_there(&store);
    assert_eq!(names(), left);
    assert_eq!(store.physical.get(), blocks(folder.path()));
}

#[test]
fn b9_a_reader_of_a_retired_bucket_gets_its_bytes_and_its_blocks_are_free_when_it_lets_go() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new()));
    let store = open(folder.path(), &clock);
    partly_dead(&store);
    let pin = Arc::clone(&store.state.read().buckets().next().unwrap().bucket().file);
    settle(&store, &clock);
    assert_eq!(store.physical.get(), blocks(folder.path()) + pin.allocated_bytes());
    let mut tail = vec![0; 9_000];
    let at = pin.file().len().unwrap() - 9_000;
    assert_eq!(pin.file().read_at(&mut tail, at).unwrap(), 9_000);
    assert_eq!(tail, value(2, 1, 9_000));
    drop(pin);
    assert_eq!(store.physical.get(), blocks(folder.path()));
}

#[test]
fn b6_a_process_that_dies_between_any_two_steps_leaves_what_the_next_one_ends() {
    let mut steps = 0;
    loop {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::new()));
        let store = open(folder.path(), &clock);
        partly_dead(&store);
        let ended = (0..steps).any(|_| matches!(store.gc_step(), GcStep::Idle(_)));
        drop(store);
        let store = open(folder.path(), &clock);
        all_there(&store);
        assert_eq!(store.physical.get(), blocks(folder.path()), "after {steps} steps");
        settle(&store, &clock);
        all_there(&store);
        if ended {
            break;
        }
        steps += 1;
    }
    assert!(steps > 15, "{steps} steps");
}
