//! Owns the tests of a disk that does not give back a file: that bucket is set apart alone, and nothing of it is lost.

use std::sync::Arc;

use bucket_store::format::intent::Round;
use bucket_store::format::names::BucketId;
use bucket_store::format::test_kit::put_intents;
use bucket_store::vfs::sim::{EIO, Fault, Image, Op, OpKind, SimDisk, on};
use bucket_store::{Config, DeleteOutcome, Store, StoreErrorKind, WriteObject};

use crate::kit::{
    Heard, builder, code, config, delete, inc, key, list, open, open_with, read, seed_of, value, write_all,
};

const EUCLEAN: i32 = 117;

/// Buckets 1 with a and b, 2 with c, 3 with d.
fn written() -> Image {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    write_all(&store, &[("c", 3)]).unwrap();
    write_all(&store, &[("d", 4)]).unwrap();
    drop(store);
    disk.image()
}

fn spoil(disk: &SimDisk, kind: OpKind, name: &'static str, errno: i32) {
    disk.inject(usize::MAX, Fault::Errno(errno), move |op| op.kind == kind && &*op.name == name);
}

fn quarantined(store: &Store) -> Vec<(u64, String)> {
    store.quarantined().map(|(id, reason)| (id.0, reason.to_owned())).collect()
}

fn steps(store: &Store, most: usize) {
    for _ in 0..most {
        store.gc_step();
    }
}

#[test]
fn a_data_file_that_cannot_be_opened_or_measured_is_set_apart_alone_and_served_again_when_it_can() {
    let image = written();
    let cases = [
        (OpKind::Open, EIO, "open of 1.bucket failed: "),
        (OpKind::Open, EUCLEAN, "open of 1.bucket failed: "),
        (OpKind::Len, EIO, "stat of 1.bucket failed: "),
        (OpKind::AllocatedBytes, EIO, "stat of 1.bucket failed: "),
    ];
    for (kind, errno, reason) in cases {
        let disk = SimDisk::of(&image);
        spoil(&disk, kind, "1.bucket", errno);
        let heard = Arc::new(Heard::default());
        let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
        let [(1, said)] = &quarantined(&store)[..] else { panic!("{:?}", quarantined(&store)) };
        assert!(said.starts_with(reason), "{said}");
        assert_eq!(heard.of("BucketQuarantined").len(), 1);
        assert_eq!((seed_of(&store, "c"), seed_of(&store, "d")), (Some(3), Some(4)));
        assert_eq!(code(read(&store, "a")), "NOT_FOUND");
        assert!(matches!(delete(&store, "a", 1), DeleteOutcome::Retryable(error) if error.code() == "IN_QUARANTINE"));
        assert!(matches!(delete(&store, "a", 77), DeleteOutcome::StaleVersion), "its table could be read");
        assert_eq!(store.figures().physical_bytes, 3 * 4096, "its blocks are not free");
        // Whatever happens then, its files stay, and its number is not used.
        write_all(&store, &[("x", 10)]).unwrap();
        delete(&store, "c", 3);
        steps(&store, 50);
        drop(store);
        for name in ["1.bucket", "1.meta"] {
            assert_eq!(disk.image().bytes(name), image.bytes(name));
        }
        disk.mend();
        let store = open(&disk);
        assert_eq!(quarantined(&store), []);
        assert_eq!((seed_of(&store, "a"), seed_of(&store, "b"), seed_of(&store, "x")), (Some(1), Some(2), Some(10)));
    }
}

#[test]
fn a_disk_that_is_away_is_refused_and_not_taken_for_broken_files() {
    const ENXIO: i32 = 6;
    let image = written();
    let disk = SimDisk::of(&image);
    spoil(&disk, OpKind::Open, "1.bucket", ENXIO);
    let error = open_with(builder(), &disk).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Disk, "IO"));
    assert!(error.to_string().starts_with("open of 1.bucket failed: "), "{error}");
    assert_eq!(disk.image(), image);
}

/// The image with a round in its intent file.
fn with_round(image: &Image, round: Round) -> Image {
    let disk = SimDisk::of(image);
    let dir = disk.mount().unwrap();
    put_intents(&dir, &[round]).unwrap();
    drop(dir);
    disk.image()
}

#[test]
fn b3_in_the_middle_of_a_round_a_data_file_that_cannot_be_opened_decides_nothing() {
    let ids = |ids: &[u64]| ids.iter().copied().map(BucketId).collect::<Vec<_>>();
    let written = written();
    let of_round = |name: &'static str, round: &Round| {
        let image = with_round(&written, round.clone());
        let disk = SimDisk::of(&image);
        spoil(&disk, OpKind::Open, name, EIO);
        let opened = open_with(builder(), &disk);
        let changed = disk.image() != image;
        (opened, disk, changed)
    };
    // The sources of what was not committed are authoritative, whoever can read them: the target goes, and nothing else.
    let prepared = Round::Prepared { sources: ids(&[1, 2]), target: BucketId(3) };
    for (name, set_apart) in [("1.bucket", vec![1]), ("3.bucket", vec![])] {
        let (store, disk, _) = of_round(name, &prepared);
        let store = store.unwrap();
        assert_eq!(quarantined(&store).iter().map(|(id, _)| *id).collect::<Vec<_>>(), set_apart, "{name}");
        assert_eq!((seed_of(&store, "c"), seed_of(&store, "d")), (Some(3), None));
        drop(store);
        disk.mend();
        assert_eq!(list(&open(&disk), 10).len(), 3, "nothing of the sources was lost");
    }
    // What replaces others must be known to be whole, or its sources are all there is.
    let committed = Round::Committed { sources: ids(&[1]), target: Some(BucketId(3)) };
    let (store, _, changed) = of_round("3.bucket", &committed);
    let error = store.unwrap_err();
    assert_eq!((error.code(), changed), ("COMMITTED_TARGET_DAMAGED", false));
    assert!(error.to_string().contains("open of 3.bucket failed"), "{error}");
    // What goes need not be readable.
    for round in [committed, Round::Committed { sources: ids(&[1]), target: None }] {
        let (store, disk, _) = of_round("1.bucket", &round);
        let store = store.unwrap();
        assert_eq!((quarantined(&store), list(&store, 10).len()), (vec![], 2));
        assert!(disk.image().bytes("1.bucket").is_none());
    }
}

#[test]
fn what_goes_anyway_and_cannot_be_taken_away_keeps_nobody_from_being_served() {
    let image = written().with("9.bucket", &[7; 5000]).with(".9.meta.0.tmp", b"half");
    for name in ["9.bucket", ".9.meta.0.tmp"] {
        let disk = SimDisk::of(&image);
        spoil(&disk, OpKind::Unlink, name, EIO);
        spoil(&disk, OpKind::Open, "9.bucket", EIO);
        let heard = Arc::new(Heard::default());
        let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
        assert_eq!((list(&store, 10).len(), store.quarantined().len()), (4, 0));
        assert_eq!(heard.of("DiskFailed").len(), usize::from(name == "9.bucket"));
        write_all(&store, &[("x", 10)]).unwrap();
        assert!(store.find(b"t\0x").unwrap().bucket.0 > 9, "its number is not used again");
        drop(store);
        assert!(disk.image().bytes(name).is_some());
        disk.mend();
        let store = open(&disk);
        assert!(disk.image().bytes(name).is_none());
        assert_eq!(store.figures().physical_bytes, 4 * 4096);
    }
}

#[test]
fn b7_without_room_for_the_reserve_at_open_writes_are_refused_and_deletes_go_on_until_it_is_back() {
    let reserve = ".bucket_reserve";
    let image = {
        let disk = SimDisk::new();
        let store = open(&disk);
        let made = [("a", 1), ("b", 2)].map(|(name, seed)| (key(name), inc(seed), value(seed, 6000)));
        let objects: Vec<_> = made
            .iter()
            .map(|(key, incarnation, value)| WriteObject { key, incarnation: *incarnation, value, placement: None })
            .collect();
        store.write(&objects).unwrap();
        drop(store);
        disk.image()
    };
    assert!(image.bytes(reserve).is_some());
    let disk = SimDisk::of(&image.clone().without(reserve));
    // Room for tables and for small writes, and not for the reserve.
    disk.set_capacity(disk.used_bytes() + 12 * 4096);
    let heard = Arc::new(Heard::default());
    let config = Config { normal_dead_ratio: Some(0.1), gc_copy_share: 1.0, ..config() };
    let store = open_with(builder().config(config).observer(heard.clone()), &disk).unwrap();
    assert!(heard.of("DiskFailed")[0].contains("RESERVE_MISSING"), "{:?}", heard.of(""));
    assert!(store.figures().reserve_missing, "before anything is written");
    assert_eq!(code(write_all(&store, &[("x", 10)])), "RESERVE_MISSING");
    assert!(matches!(delete(&store, "a", 1), DeleteOutcome::Removed));
    // b could be copied, and is not: copies wait for the reserve.
    steps(&store, 20);
    assert_eq!((store.find(b"t\0b").unwrap().bucket.0, heard.of("GcBegun").len()), (1, 0));
    disk.set_capacity(1 << 30);
    steps(&store, 20);
    assert!(!store.figures().reserve_missing);
    assert_eq!(heard.of("ReserveBack").len(), 1);
    assert!(disk.image().bytes(reserve).is_some());
    write_all(&store, &[("x", 10)]).unwrap();
    assert!(store.find(b"t\0b").unwrap().bucket.0 > 1, "and copies go on");
}

#[test]
fn an_interrupted_read_is_repeated_and_an_interrupted_sync_is_one_that_failed() {
    const EINTR: Fault = Fault::Errno(4);
    let disk = SimDisk::of(&written());
    disk.inject(3, EINTR, on(OpKind::Read, "1.meta"));
    let store = open(&disk);
    assert_eq!((disk.faults_met(), store.quarantined().len(), seed_of(&store, "a")), (3, 0, Some(1)));
    // What an interrupted sync has done to the cache is not known: everything is repeated from the start, on another file.
    disk.record();
    disk.inject(1, EINTR, |op| op.kind == OpKind::SyncDir);
    assert!(matches!(delete(&store, "a", 1), DeleteOutcome::Retryable(_)));
    assert!(matches!(delete(&store, "a", 1), DeleteOutcome::Removed));
    let placed = |op: &&Op| op.kind == OpKind::Rename && &*op.to == "1.meta";
    assert_eq!(disk.log().iter().filter(placed).count(), 2);
    disk.record();
    disk.inject(1, EINTR, on(OpKind::SyncData, ".bucket"));
    write_all(&store, &[("x", 10)]).unwrap();
    let synced = |op: &Op| (op.kind == OpKind::SyncData && op.name.ends_with(".bucket")).then(|| op.name.clone());
    let synced: Vec<_> = disk.log().iter().filter_map(synced).collect();
    assert!(synced.len() == 2 && synced[0] != synced[1], "{synced:?}");
    assert_eq!(seed_of(&store, "x"), Some(10));
}
