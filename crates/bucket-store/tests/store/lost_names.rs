//! Owns the tests of names that a process which has ended may have lost: the next one puts them in place anew, and loses nothing by it.

use std::sync::{Arc, Mutex};

use bucket_store::format::intent::Round;
use bucket_store::format::names::{BucketId, GC_INTENT};
use bucket_store::format::test_kit::put_intents;
use bucket_store::vfs::Vfs;
use bucket_store::vfs::sim::{CrashPoint, CrashStates, EIO, Fault, Image, OpKind, SimDisk, on};
use bucket_store::{DeleteOutcome, Store};

use crate::kit::{builder, code, delete, list, open, open_with, read, seed_of, write_all};

/// The file that tells of a name that was lost.
fn evidence(name: &str) -> String {
    format!(".{name}.{}.tmp", u64::MAX)
}

fn written() -> Image {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    write_all(&store, &[("c", 3)]).unwrap();
    drop(store);
    disk.image()
}

/// Opens the disk, and gives every moment on the way at which the power may go.
fn opened(disk: &SimDisk) -> (Store, Vec<CrashPoint>) {
    let points = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&points);
    disk.watch(move |_, point| seen.lock().unwrap().push(point));
    let store = open(disk);
    disk.unwatch();
    let points = std::mem::take(&mut *points.lock().unwrap());
    (store, points)
}

#[test]
fn b1_a_durable_bucket_outlives_power_losses_while_the_name_of_its_data_is_put_in_place_anew() {
    let (mut aside, mut looked_at) = (0, Vec::from([(written(), 0)]));
    while let Some((image, crashes)) = looked_at.pop() {
        let disk = SimDisk::of(&image);
        if crashes == 0 {
            // The process before has noted it, and died; and another sync that failed has made it forget the note itself.
            let dir = disk.mount().unwrap();
            drop(dir.create(&evidence("1.bucket")).unwrap());
            disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
            dir.sync_dir().unwrap_err();
        }
        let (store, points) = opened(&disk);
        assert_eq!((list(&store, 10).len(), store.quarantined().len()), (3, 0), "{image:?}");
        assert_eq!(seed_of(&store, "a"), Some(1));
        drop(store);
        assert!(disk.image().names().all(|name| !name.ends_with(".tmp")));
        let images = points.iter().flat_map(|point| point.images(CrashStates::default()).collect::<Vec<_>>());
        for image in images.filter(|_| crashes < 2) {
            aside += usize::from(image.bytes("1.bucket").is_none());
            if !looked_at.iter().any(|(other, _)| *other == image) {
                looked_at.push((image, crashes + 1));
            }
        }
    }
    assert!(aside > 0, "no power loss fell between the two renames");
}

#[test]
fn d3_a_table_that_cannot_be_read_stays_in_doubt_until_it_is_put_in_place_anew() {
    let disk = SimDisk::of(&written());
    let store = open(&disk);
    // The tombstone is in the cache, and the disk will never have it.
    disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
    assert!(matches!(delete(&store, "a", 1), DeleteOutcome::Retryable(_)));
    drop(store);
    assert!(disk.image().bytes(&evidence("1.meta")).is_some());
    // The next process can read neither the table nor anything into that.
    disk.inject(usize::MAX, Fault::Errno(EIO), on(OpKind::Read, "1.meta"));
    let store = open(&disk);
    assert_eq!(store.quarantined().len(), 1);
    drop(store);
    disk.mend();
    let store = open(&disk);
    assert!(matches!(delete(&store, "a", 1), DeleteOutcome::AlreadyRemoved));
    assert!(disk.image().bytes(&evidence("1.meta")).is_none());
    for image in disk.crash_point().images(CrashStates::default()) {
        assert_eq!(code(read(&open(&SimDisk::of(&image)), "a")), "NOT_FOUND", "it was said to be removed, and is back");
    }
}

#[test]
fn b3_intents_whose_removal_was_lost_do_not_come_back_for_a_round_that_is_over() {
    let disk = SimDisk::of(&written());
    let dir = disk.mount().unwrap();
    // A round that has ended: its source is gone, and of the removal of its intent only the cache knows.
    put_intents(&dir, &[Round::Committed { sources: vec![BucketId(7)], target: Some(BucketId(1)) }]).unwrap();
    dir.unlink(GC_INTENT).unwrap();
    disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
    dir.sync_dir().unwrap_err();
    drop((dir.create(&evidence(GC_INTENT)).unwrap(), dir));
    let (store, points) = opened(&disk);
    for image in points.iter().flat_map(|point| point.images(CrashStates::default()).collect::<Vec<_>>()) {
        assert_eq!(list(&open_with(builder(), &SimDisk::of(&image)).unwrap(), 10).len(), 3);
    }
    let back = |image: Image| image.bytes(GC_INTENT).is_some();
    assert!(!disk.crash_point().images(CrashStates::default()).any(back), "its target may be damaged by then");
    drop(store);
}
