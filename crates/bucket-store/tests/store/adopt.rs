//! Owns the tests of adoption: what a person must decide about refuses it with the directory as it was, and which object of a key counts is
//! settled once and for all.

use std::sync::{Arc, Mutex};

use bucket_store::format::names::BucketId;
use bucket_store::format::test_kit::put_mooncake_bucket;
use bucket_store::vfs::Vfs;
use bucket_store::vfs::sim::{CrashPoint, CrashStates, ENOSPC, Fault, Image, OpKind, SimDisk, on};
use bucket_store::{Adoption, DeleteOutcome, DeleteRequest, ReadRequest, Store, StoreError, StoreErrorKind};
use ha_types::ObjectIncarnation;

use crate::kit::{builder, code, open, open_with};

const MARKER: &str = ".mooncake_local_disk_segment_id";

type Records = [(&'static [u8], &'static [u8])];

/// Bucket 3 with `a` and `b`, bucket 7 with another `a`, bucket 9 with `c`.
const BUCKETS: [(u64, &Records); 3] =
    [(3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]), (7, &[(b"t\0a", b"newer")]), (9, &[(b"t\0c", b"third")])];

fn mooncakes() -> Image {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    BUCKETS.iter().for_each(|(id, records)| put_mooncake_bucket(&dir, *id, records).unwrap());
    disk.image()
}

fn adopt(disk: &SimDisk) -> Result<Store, StoreError> {
    open_with(builder().adoption(Adoption::OneWay), disk)
}

fn read(store: &Store, key: &str) -> Result<Vec<u8>, StoreError> {
    store.read(&ReadRequest::whole(format!("t\0{key}").as_bytes()))
}

/// What is served of `a`, `b` and `c`.
fn served(store: &Store) -> [Option<Vec<u8>>; 3] {
    ["a", "b", "c"].map(|key| read(store, key).ok())
}

fn whole() -> [Option<Vec<u8>>; 3] {
    [&b"newer"[..], b"value", b"third"].map(|value| Some(value.to_vec()))
}

#[test]
fn what_a_person_must_decide_about_refuses_an_adoption_and_is_not_touched() {
    let image = mooncakes();
    let table = image.bytes("7.meta").unwrap();
    let cases = [
        (image.clone().with("5.bucket", b"t\0kvalue"), "ADOPTS_ORPHAN", "5.meta: the file"),
        (image.clone().without("7.meta"), "ADOPTS_ORPHAN", "7.meta: the file"),
        (image.clone().without("7.bucket"), "ADOPTS_UNREADABLE", "7.bucket: the file"),
        (image.clone().with("7.bucket", b"short"), "ADOPTS_UNREADABLE", "7.meta: the content"),
        (image.clone().with("7.meta", &table[..5]), "ADOPTS_UNREADABLE", "7.meta: the content"),
        (image.clone().with("8.meta", b""), "ADOPTS_UNREADABLE", "8.meta: the content"),
    ];
    for (image, expected, place) in cases {
        let disk = SimDisk::of(&image);
        disk.record();
        let error = adopt(&disk).expect_err(place);
        assert_eq!((error.code(), error.kind()), (expected, StoreErrorKind::Refused), "{error}");
        assert_eq!(error.place(), place, "{error}");
        assert!(error.remedy().contains("out of the directory"), "{error}");
        assert_eq!(disk.image(), image, "{place}");
        assert!(disk.log().iter().all(|op| !op.kind.changes()), "{place}: {:?}", disk.log());
    }
    let disk = SimDisk::of(&image);
    disk.make_unreadable("7.meta", 0..1 << 20);
    let error = adopt(&disk).expect_err("a table that the disk does not give");
    assert_eq!((error.code(), error.place().as_str()), ("ADOPTS_UNREADABLE", "7.meta: the content"), "{error}");
    disk.mend();
    assert_eq!(disk.image(), image);
    assert_eq!(served(&adopt(&disk).unwrap()), whole(), "it is adopted once it can be read");
}

#[test]
fn b2_which_object_of_a_key_counts_does_not_change_when_its_bucket_cannot_be_read_later() {
    let disk = SimDisk::of(&mooncakes());
    drop(adopt(&disk).unwrap());
    disk.make_unreadable("7.meta", 0..1 << 20);
    let store = open(&disk);
    assert_eq!(store.quarantined().map(|(id, _)| id).collect::<Vec<_>>(), [BucketId(7)]);
    assert_eq!(code(read(&store, "a")), "NOT_FOUND", "the older one is not served for it");
    drop(store);
    disk.mend();
    let store = open(&disk);
    assert_eq!(served(&store), whole());
    let request = DeleteRequest { key: b"t\0a", incarnation: ObjectIncarnation::LEGACY };
    assert!(matches!(store.delete(&[request]).unwrap()[0], DeleteOutcome::Removed));
    drop(store);
    assert_eq!(code(read(&open(&disk), "a")), "NOT_FOUND", "and no older one comes back");
}

#[test]
fn b1_b2_an_adoption_that_crashes_anywhere_loses_nothing_and_ends_the_same() {
    let states = CrashStates { exhaustive_up_to: 6, samples: 16, seed: 11, ..CrashStates::default() };
    let disk = SimDisk::of(&mooncakes());
    let points = Arc::new(Mutex::new(Vec::<CrashPoint>::new()));
    let kept = Arc::clone(&points);
    disk.watch(move |_, point| kept.lock().unwrap().push(point));
    drop(adopt(&disk).unwrap());
    disk.unwatch();
    let (mut unmarked, mut marked) = (0, 0);
    for image in points.lock().unwrap().iter().flat_map(|point| point.images(states)) {
        let disk = SimDisk::of(&image);
        let is_marked = image.bytes(MARKER).is_some();
        if is_marked {
            marked += 1
        } else {
            unmarked += 1
        }
        // Marked is adopted: it needs no word any more, and what lost has lost.
        let store = if is_marked { open(&disk) } else { adopt(&disk).unwrap() };
        assert_eq!(served(&store), whole());
        drop(store);
        disk.make_unreadable("7.meta", 0..1 << 20);
        assert_eq!(code(read(&open(&disk), "a")), "NOT_FOUND");
    }
    assert!(unmarked > 5 && marked > 5, "{unmarked} and {marked}");
}

#[test]
fn b1_what_mooncake_never_synced_is_durable_once_it_is_adopted() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    for (name, bytes) in
        mooncakes().names().map(str::to_owned).map(|name| (name.clone(), mooncakes().bytes(&name).unwrap()))
    {
        dir.create(&name).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    drop(dir);
    assert!(disk.crash_point().least().names().next().is_none(), "nothing of it is on the disk yet");
    drop(adopt(&disk).unwrap());
    for image in disk.crash_point().images(CrashStates::default()) {
        assert_eq!(served(&open(&SimDisk::of(&image))), whole());
    }
}

#[test]
fn an_adoption_that_fails_on_the_way_is_repeated() {
    let image = mooncakes();
    let operations = {
        let disk = SimDisk::of(&image);
        drop(adopt(&disk).unwrap());
        disk.operations()
    };
    let mut failed = 0;
    for number in 1..=operations {
        let disk = SimDisk::of(&image);
        disk.fail_at(number, Fault::Errno(ENOSPC));
        failed += usize::from(adopt(&disk).is_err());
        disk.mend();
        let store = if disk.image().bytes(MARKER).is_some() { open(&disk) } else { adopt(&disk).unwrap() };
        assert_eq!(served(&store), whole(), "after a failure of operation {number}");
    }
    assert!(failed > 10, "{failed} of {operations}");
    let disk = SimDisk::of(&image);
    disk.inject(1, Fault::Errno(ENOSPC), on(OpKind::Rename, "3.meta"));
    let error = adopt(&disk).unwrap_err();
    assert_eq!((error.code(), error.place().as_str()), ("DISK_FULL", "3.meta"));
    assert!(disk.image().bytes(MARKER).is_none(), "what is marked is settled");
}
