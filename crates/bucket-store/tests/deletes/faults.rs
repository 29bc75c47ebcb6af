//! Owns the tests of deletes on a disk that fails or is full.

use std::sync::Arc;

use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Op, OpKind, SimDisk, nth, on};
use bucket_store::{Config, Durability, Store, StoreErrorKind, WriteObject};
use ha_types::ManualClock;

use crate::kit::{
    Heard, assert_no_second_sync, builder, config, delete, image, incarnation, key, open, open_heard, table,
};

/// The steps of a publish, and whether the new table may be in place after each has failed.
const STEPS: [(OpKind, bool); 5] = [
    (OpKind::Create, false),
    (OpKind::Write, false),
    (OpKind::SyncData, false),
    (OpKind::Rename, true),
    (OpKind::SyncDir, true),
];

fn of_kind(kind: OpKind) -> impl FnMut(&Op) -> bool + Send + 'static {
    nth(1, move |op| op.kind == kind)
}

#[test]
fn b8_a_publish_that_fails_at_any_step_is_not_acknowledged_and_is_repeated_from_the_start() {
    for (kind, may_be_in_place) in STEPS {
        let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2)]), (2, &[("c", 1, 3)])]));
        let (store, heard) = open_heard(&disk);
        disk.record();
        disk.inject(1, Fault::Errno(EIO), of_kind(kind));
        assert_eq!(
            delete(&store, &[("a", 1), ("c", 1)]),
            ["Retryable IO", "Removed"],
            "{kind:?}: bucket 2 is not concerned"
        );
        assert_eq!(heard.count("BucketSuspect { bucket: BucketId(1)"), 1);
        let states: Vec<bool> = disk.crash_point().images(CrashStates::default()).map(|i| table(&i, 1)[0].1).collect();
        assert!(states.contains(&false), "{kind:?}: nothing vouches for it");
        assert!(may_be_in_place || !states.contains(&true), "{kind:?}: it must not be in place");

        // Another object of the bucket: its publish ends what was begun for the first.
        assert_eq!(delete(&store, &[("b", 1)]), ["Removed"]);
        assert_eq!(heard.count("BucketTrusted { bucket: BucketId(1)"), 1);
        assert_eq!(delete(&store, &[("a", 1)]), ["AlreadyRemoved"]);
        assert_no_second_sync(&disk.log());
        for image in disk.crash_point().images(CrashStates::default()) {
            assert_eq!(table(&image, 1), [("a".into(), true), ("b".into(), true)], "{kind:?}");
        }
    }
}

#[test]
fn b8_an_fsync_that_lies_after_a_failure_is_not_believed() {
    // A failed sync leaves pages that are clean and not written: a second sync of that descriptor would succeed.
    for kind in [OpKind::SyncData, OpKind::SyncDir] {
        let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
        let store = open(&disk);
        disk.inject(2, Fault::Errno(EIO), move |op| op.kind == kind);
        assert_eq!(delete(&store, &[("a", 1)]), ["Retryable IO"]);
        assert_eq!(delete(&store, &[("a", 1)]), ["Retryable IO"], "hidden is not removed");
        assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
        for image in disk.crash_point().images(CrashStates::default()) {
            assert!(table(&image, 1)[0].1, "{kind:?}");
        }
    }
}

#[test]
fn failures_in_a_row_make_the_store_read_only_and_opening_it_again_ends_that() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2)]), (2, &[("d", 1, 3)])]));
    let (store, heard) = open_heard(&disk);
    disk.inject(2, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
    assert_eq!(delete(&store, &[("a", 1)]), ["Retryable IO"]);
    assert_eq!(delete(&store, &[("a", 1)]), ["Retryable IO"]);
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    disk.inject(3, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
    for _ in 0..3 {
        assert!(store.read_only().is_none(), "only failures in a row count");
        assert_eq!(delete(&store, &[("b", 1)]), ["Retryable IO"]);
    }
    assert_eq!(heard.count("ReadOnly"), 1);
    let reason = store.read_only().expect("it is read-only").to_string();
    assert!(
        reason.starts_with("3 operations failed in a row, the last one the sync of the directory of 1.meta:"),
        "{reason}"
    );
    disk.record();
    assert_eq!(
        delete(&store, &[("a", 1), ("b", 1), ("c", 1)]),
        ["AlreadyRemoved", "Retryable READ_ONLY", "StaleVersion"]
    );
    assert!(disk.log().is_empty(), "nothing is touched any more");
    drop(store);
    let store = open(&disk);
    assert!(store.read_only().is_none());
    assert_eq!(delete(&store, &[("b", 1), ("d", 1)]), ["AlreadyRemoved", "Removed"]);
    // The cache had shown the table of the failed publishes, and the disk did not have it: opening has put it in place anew.
    for image in disk.crash_point().images(CrashStates::default()) {
        assert!([1, 2].iter().flat_map(|id| table(&image, *id)).all(|(_, dead)| dead));
    }
}

#[test]
fn b7_deletes_go_on_from_the_reserve_on_a_full_disk() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2)]), (2, &[("c", 1, 3)])]));
    let (store, heard) = open_heard(&disk);
    disk.set_capacity(disk.used_bytes());
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    assert_eq!((heard.count("ReserveSpent"), heard.count("ReadOnly")), (1, 0));
    assert_eq!(delete(&store, &[("b", 1), ("c", 1)]), ["Removed"; 2], "what was spent does for all that follow");
    for image in disk.crash_point().images(CrashStates::default()) {
        assert!([1, 2].iter().flat_map(|id| table(&image, *id)).all(|(_, dead)| dead));
    }
}

#[test]
fn b7_tables_of_relaxed_data_do_not_spend_what_deletes_will_need() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2)])]));
    let heard = Arc::new(Heard::default());
    let config = Config { durability: Durability::Relaxed, ..config() };
    let store = builder().config(config).observer(heard.clone()).open(Arc::new(disk.mount().unwrap())).unwrap();
    let new = [(key("c"), 1), (key("d"), 2)];
    for (key, n) in &new {
        let object = WriteObject { key, incarnation: incarnation(*n), value: &[7; 100], placement: None };
        store.write(&[object]).unwrap();
    }
    disk.set_capacity(disk.used_bytes());
    assert_eq!(store.publish_pending().unwrap_err().code(), "DISK_FULL");
    assert_eq!((heard.count("ReserveSpent"), store.figures().reserve_missing), (0, false));
    assert_eq!(delete(&store, &[("a", 1), ("c", 1)]), ["Removed"; 2], "also what was not durable yet");
    assert_eq!(heard.count("ReserveSpent"), 1);
}

#[test]
fn b7_a_full_disk_at_any_byte_of_any_step_loses_no_delete() {
    for kind in [OpKind::Create, OpKind::Write, OpKind::SyncData, OpKind::Rename, OpKind::SyncDir] {
        for written in [0, 1, 64] {
            let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
            let (store, heard) = open_heard(&disk);
            disk.record();
            disk.inject(1, Fault::Short { written, errno: ENOSPC }, of_kind(kind));
            assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
            assert_eq!(heard.count("ReserveSpent"), 1);
            assert_no_second_sync(&disk.log());
            for image in disk.crash_point().images(CrashStates::default()) {
                assert!(table(&image, 1)[0].1, "{kind:?}");
            }
        }
    }
}

#[test]
fn b7_without_a_reserve_a_full_disk_is_retryable_and_no_reason_to_be_read_only() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
    disk.set_capacity(disk.used_bytes());
    let (store, heard) = open_heard(&disk);
    for _ in 0..5 {
        assert_eq!(delete(&store, &[("a", 1)]), ["Retryable DISK_FULL"]);
    }
    assert_eq!((heard.count("ReadOnly"), heard.count("ReserveSpent")), (0, 0));
    assert!(store.read_only().is_none());
    disk.set_capacity(1 << 30);
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
}

#[test]
fn an_object_whose_delete_failed_is_never_answered_as_gone() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
    let store = open(&disk);
    disk.inject(1, Fault::Errno(EIO), of_kind(OpKind::SyncData));
    let requests = [bucket_store::DeleteRequest { key: b"tenant\0a", incarnation: crate::kit::incarnation(1) }];
    let outcomes = store.delete(&requests).unwrap();
    let [bucket_store::DeleteOutcome::Retryable(error)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Disk);
    assert!(error.is_retryable() && !outcomes[0].is_terminal());
}

#[test]
fn v4_a_table_whose_publish_failed_is_published_again_by_gc_if_nobody_asks_for_it() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)]), (2, &[("b", 1, 2)])]));
    let clock = Arc::new(ManualClock::new());
    let heard = Arc::new(crate::kit::Heard::default());
    let builder = Store::builder(crate::kit::marker(), clock.clone()).config(crate::kit::config());
    let store = builder.observer(heard.clone()).open(Arc::new(disk.mount().unwrap())).unwrap();
    disk.inject(2, Fault::Errno(EIO), |op| op.kind == OpKind::SyncData);
    assert_eq!(delete(&store, &[("a", 1)]), ["Retryable IO"]);
    assert_eq!((store.figures().suspect_buckets, heard.figures_told()), (1, None));
    assert_eq!(store.gc_step(), GcStep::Again);
    // That failed too: GC waits, and does other things meanwhile.
    let GcStep::Wait(pause) = store.gc_step() else { panic!("it does not wait") };
    assert_eq!(delete(&store, &[("b", 1)]), ["Removed"]);
    collect(&store);
    assert!(disk.image().bytes("1.bucket").is_some() && disk.image().bytes("2.bucket").is_none());
    clock.advance(pause);
    collect(&store);
    assert!(disk.image().bytes("1.bucket").is_none(), "the bucket is not collected");
    assert_eq!((heard.count("BucketTrusted"), store.figures().suspect_buckets), (1, 0));
    assert_eq!(heard.figures_told(), Some(store.figures()));
    assert_eq!(delete(&store, &[("a", 1)]), ["StaleVersion"]);
}

fn collect(store: &Store) {
    let steps = (0..1000).take_while(|_| store.gc_step() == GcStep::Again).count();
    assert!(steps < 1000, "GC does not come to an end");
}

#[test]
fn b7_what_another_call_has_spent_helps_this_one_too() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)]), (2, &[("b", 1, 2)])]));
    let (store, heard) = open_heard(&disk);
    let store = Arc::new(store);
    // This call meets a full disk; before it can give the reserve up, another one has, and is done.
    let other = Arc::clone(&store);
    disk.inject(1, Fault::Errno(ENOSPC), on(OpKind::Write, ".1.meta.0.tmp"));
    disk.inject(1, Fault::Errno(ENOSPC), on(OpKind::Write, ".2.meta.0.tmp"));
    disk.when(on(OpKind::Unlink, ".1.meta.0.tmp"), move || assert_eq!(delete(&other, &[("b", 1)]), ["Removed"]));
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    assert_eq!((disk.faults_met(), heard.count("ReserveSpent")), (2, 1));
}
