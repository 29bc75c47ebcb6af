//! Owns the tests of names that a failed sync of the directory loses: of data files, whose names become durable with their first table.

use std::sync::Arc;

use bucket_store::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, OpKind, SimDisk, nth, on};
use bucket_store::{Config, Durability, ReadRequest, Store, StoreErrorKind, WriteObject};

use crate::kit::{builder, config, delete, image, incarnation, key, open};

fn write(store: &Store, name: &str, n: u8) -> bool {
    let object = WriteObject { key: &key(name), incarnation: incarnation(n), value: name.as_bytes(), placement: None };
    store.write(&[object]).is_ok()
}

fn open_with(disk: &SimDisk, durability: Durability) -> Store {
    let config = Config { durability, ..config() };
    builder().config(config).open(Arc::new(disk.mount().unwrap())).unwrap()
}

/// In how many of the states that a power loss may leave the object is there, and in how many it is not.
fn outcomes(disk: &SimDisk, name: &str) -> (usize, usize) {
    let (mut there, mut gone) = (0, 0);
    for image in disk.crash_point().images(CrashStates::default()) {
        let store = open(&SimDisk::of(&image));
        assert_eq!(store.quarantined().count(), 0, "{image:?}");
        *if is_there(&store, name) { &mut there } else { &mut gone } += 1;
    }
    (there, gone)
}

fn is_there(store: &Store, name: &str) -> bool {
    store.read(&ReadRequest::whole(&key(name))).is_ok()
}

/// The syncs of the directory that a new bucket meets, and some more.
const SYNCS: u64 = 5;

fn fail_sync(disk: &SimDisk, number: u64) {
    disk.inject(1, Fault::Errno(EIO), nth(number, |op| op.kind == OpKind::SyncDir));
}

#[test]
fn b8_a_sync_that_failed_before_a_table_was_published_again_loses_no_data_file() {
    for durability in [Durability::Sync, Durability::Relaxed] {
        let mut met = 0;
        for number in 1..=SYNCS {
            let disk = SimDisk::new();
            let store = open_with(&disk, durability);
            assert!(write(&store, "first", 1), "numbers are taken");
            store.publish_pending().unwrap();
            fail_sync(&disk, number);
            assert!((0..3).any(|_| write(&store, "a", 1)), "{durability:?}: a write that failed is repeated");
            assert!((0..3).any(|_| store.publish_pending().is_ok()));
            met += disk.faults_met();
            let (there, gone) = outcomes(&disk, "a");
            assert!(there > 0 && gone == 0, "{durability:?}, sync {number}: {there} {gone}");
        }
        assert!((2..SYNCS).contains(&met), "{durability:?}: {met}");
    }
}

#[test]
fn b8_a_delete_that_publishes_a_relaxed_bucket_keeps_its_other_objects() {
    let mut met = 0;
    for number in 1..=SYNCS {
        let disk = SimDisk::new();
        let store = open_with(&disk, Durability::Relaxed);
        let keys = ["a", "b"].map(key);
        let objects = keys.each_ref().map(|key| WriteObject {
            key,
            incarnation: incarnation(1),
            value: b"value",
            placement: None,
        });
        store.write(&objects).unwrap();
        fail_sync(&disk, number);
        assert!((0..3).any(|_| delete(&store, &[("a", 1)]) == ["Removed"]));
        met += disk.faults_met();
        let ((there, gone), (back, _)) = (outcomes(&disk, "b"), outcomes(&disk, "a"));
        assert!(there > 0 && gone == 0 && back == 0, "sync {number}: {there} {gone} {back}");
    }
    assert!((2..SYNCS).contains(&met), "{met}");
}

#[test]
fn b8_a_sync_that_fails_in_another_call_is_no_harm_to_this_one() {
    // Between the steps of a write another call syncs the directory, fails, and loses the names that this one has changed.
    for (kind, name) in [
        (OpKind::SyncData, ".bucket"),
        (OpKind::Create, ".meta.0.tmp"),
        (OpKind::SyncData, ".meta.0.tmp"),
        (OpKind::SyncDir, ""),
    ] {
        let disk = SimDisk::of(&image(&[(9, &[("old", 1, 1)])]));
        let store = Arc::new(open_with(&disk, Durability::Sync));
        assert!(write(&store, "first", 1), "numbers are taken");
        let (other, faulty) = (Arc::clone(&store), disk.clone());
        disk.when(on(kind, name), move || {
            fail_sync(&faulty, 1);
            assert_eq!(delete(&other, &[("old", 1)]), ["Retryable IO"]);
        });
        assert!((0..3).any(|_| write(&store, "a", 1)));
        assert_eq!(disk.faults_met(), 1);
        let (there, gone) = outcomes(&disk, "a");
        assert!(there > 0 && gone == 0, "{kind:?} {name}: {there} {gone}");
    }
}

#[test]
fn b8_a_renewal_that_fails_half_way_is_gone_on_with() {
    // The sync of the new names fails, then the renaming back.
    for (durability, times) in
        [(Durability::Sync, 1), (Durability::Relaxed, 1), (Durability::Relaxed, 2), (Durability::Relaxed, 4)]
    {
        let disk = SimDisk::new();
        let store = open_with(&disk, durability);
        assert!(write(&store, "first", 1), "numbers are taken");
        store.publish_pending().unwrap();
        fail_sync(&disk, 1);
        disk.inject(times, Fault::Errno(EIO), |op| op.kind == OpKind::Rename && op.to.ends_with(".bucket"));
        assert!((0..3).any(|_| write(&store, "a", 1)));
        assert!((0..5).any(|_| store.publish_pending().is_ok()), "{times}");
        let (there, gone) = outcomes(&disk, "a");
        assert!(there > 0 && gone == 0, "{durability:?}, {times}: {there} {gone}");
    }
}

#[test]
fn an_object_that_is_written_and_not_durable_is_not_told_as_refused() {
    let disk = SimDisk::new();
    let config = Config { durability: Durability::Relaxed, relaxed_limit_bytes: 1, ..config() };
    let store = builder().config(config).open(Arc::new(disk.mount().unwrap())).unwrap();
    disk.inject(9, Fault::Errno(ENOSPC), on(OpKind::Write, ".meta.0.tmp"));
    let object = WriteObject { key: &key("a"), incarnation: incarnation(1), value: b"value", placement: None };
    let error = store.write(&[object]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Disk, "NOT_DURABLE"), "{error}");
    assert!(is_there(&store, "a"));
}
