//! Owns the tests of room: to the block, of the disk and of the capacity, alone and beside other writes that are under way.

use std::sync::{Arc, Mutex};

use bucket_store::vfs::sim::{EIO, Fault, Op, OpKind, SimDisk, nth, on};
use bucket_store::{Config, Durability, Store, StoreError, StoreErrorKind, WriteObject};

use crate::kit::{builder, code, config, delete, inc, key, open_with, read, value};

const BLOCK: u64 = 4096;
/// The bytes of a value whose bucket has exactly 4 blocks: header, the key of two letters in its tenant, one checksum, value.
const FOUR_BLOCKS: usize = 4 * BLOCK as usize - 40 - 4 - 4;

/// Buckets of one object.
fn single() -> Config {
    Config { bucket_keys: 1, bucket_size_bytes: 4 << 20, ..config() }
}

fn store(disk: &SimDisk, config: Config) -> Arc<Store> {
    Arc::new(open_with(builder().config(config), disk).unwrap())
}

/// Writes that many objects from `first` on, each with a value of so many bytes.
fn write(store: &Store, first: u64, count: u64, bytes: usize) -> Result<(), StoreError> {
    let made: Vec<_> = (first..first + count).map(|n| (key(&format!("{n:02}")), inc(n), value(n, bytes))).collect();
    let objects: Vec<_> = made
        .iter()
        .map(|(key, incarnation, value)| WriteObject { key, incarnation: *incarnation, value, placement: None })
        .collect();
    store.write(&objects).map(drop)
}

fn is_there(store: &Store, n: u64, bytes: usize) -> bool {
    read(store, &format!("{n:02}")).is_ok_and(|found| found == value(n, bytes))
}

#[test]
fn a_write_that_fits_the_disk_to_the_block_is_taken_and_one_block_more_is_not() {
    // one bucket, several, one object, several, and as the first write of the directory, which has a file more
    let cases: [(u64, usize, u64, bool); 6] = [
        (1, 100, 1 + 1, false),
        (1, FOUR_BLOCKS, 4 + 1, false),
        (1, FOUR_BLOCKS + 1, 5 + 1, false),
        (3, FOUR_BLOCKS, 3 * (4 + 1), false),
        (1, 100, 1 + 1 + 1, true),
        (2, FOUR_BLOCKS, 2 * (4 + 1) + 1, true),
    ];
    for durability in [Durability::Sync, Durability::Relaxed] {
        for (count, bytes, blocks, is_first) in cases {
            let disk = SimDisk::new();
            let store = store(&disk, Config { durability, ..single() });
            if !is_first {
                write(&store, 90, 1, 1).unwrap();
                store.publish_pending().unwrap();
            }
            let used = disk.used_bytes();
            disk.set_capacity(used + blocks * BLOCK - 1);
            let image = disk.image();
            let error = write(&store, 1, count, bytes).unwrap_err();
            assert_eq!((error.kind(), error.code()), (StoreErrorKind::NoSpace, "NO_SPACE"), "{count} × {bytes}");
            assert!(error.to_string().starts_with(&format!("{} bytes are needed", blocks * BLOCK)), "{error}");
            assert_eq!(disk.image(), image);
            disk.set_capacity(used + blocks * BLOCK);
            write(&store, 1, count, bytes).unwrap();
            store.publish_pending().unwrap();
            assert_eq!(disk.used_bytes(), used + blocks * BLOCK, "what was asked for is what it takes");
            assert!((1..=count).all(|n| is_there(&store, n, bytes)));
            assert_eq!(code(write(&store, 70, 1, 1)), "NO_SPACE");
        }
    }
}

#[test]
fn b13_a_write_that_fits_the_capacity_to_the_block_is_taken_and_one_block_more_is_not() {
    let disk = SimDisk::new();
    let full = Config { capacity_bytes: 64 << 10, bucket_size_bytes: 64 << 10, ..single() };
    let store = store(&disk, full);
    write(&store, 1, 1, FOUR_BLOCKS).unwrap();
    let image = disk.image();
    let error = write(&store, 2, 3, FOUR_BLOCKS + 1).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::NoSpace, "NO_SPACE"));
    assert!(error.to_string().contains("61440 bytes are needed") && error.to_string().contains("49152 are free"));
    assert_eq!(disk.image(), image);
    write(&store, 2, 3, FOUR_BLOCKS).unwrap();
    assert_eq!(store.figures().physical_bytes, 64 << 10);
    assert_eq!(code(write(&store, 5, 1, 1)), "NO_SPACE");
    // What is deleted is free when its file is gone, and not before.
    assert!(delete(&store, "03", 3).is_terminal());
    assert_eq!(code(write(&store, 5, 1, 1)), "NO_SPACE");
    while store.gc_step() == bucket_store::gc::GcStep::Again {}
    write(&store, 5, 1, FOUR_BLOCKS).unwrap();
    assert_eq!(store.figures().physical_bytes, 64 << 10);
}

/// Runs one write when another one is at the operation that `at` matches, and gives what came of both.
fn beside(
    disk: &SimDisk,
    store: &Arc<Store>,
    at: impl FnMut(&Op) -> bool + Send + 'static,
    outer: impl FnOnce(&Store) -> Result<(), StoreError>,
    inner: impl FnOnce(&Store) + Send + 'static,
) -> Result<(), StoreError> {
    let (ran, other) = (Arc::new(Mutex::new(false)), Arc::clone(store));
    let has_run = Arc::clone(&ran);
    disk.when(at, move || {
        inner(&other);
        *has_run.lock().unwrap() = true;
    });
    let result = outer(store);
    assert!(*ran.lock().unwrap(), "the operation was met");
    result
}

type Moment = Box<dyn FnMut(&Op) -> bool + Send>;

/// Moments of a write of 3 buckets of 4 blocks: before its first file, between files, before its first sync, before tables.
fn moments() -> Vec<(&'static str, Moment)> {
    vec![
        ("before its data", Box::new(nth(1, on(OpKind::Create, ".bucket")))),
        ("between its second and third file", Box::new(nth(3, on(OpKind::Create, ".bucket")))),
        ("before its syncs", Box::new(nth(1, on(OpKind::SyncData, ".bucket")))),
        ("before its first table", Box::new(nth(1, |op: &Op| op.kind == OpKind::Create && op.name.contains(".meta.")))),
        (
            "before its second table",
            Box::new(nth(2, |op: &Op| op.kind == OpKind::Create && op.name.contains(".meta."))),
        ),
    ]
}

#[test]
fn b13_what_a_write_under_way_has_written_counts_once_in_the_capacity() {
    for (moment, at) in moments().into_iter() {
        let disk = SimDisk::new();
        let store = store(&disk, Config { capacity_bytes: 64 << 10, bucket_size_bytes: 64 << 10, ..single() });
        let inner = move |store: &Store| {
            assert_eq!(code(write(store, 7, 1, FOUR_BLOCKS + 1)), "NO_SPACE", "{moment}: a block more than is left");
            write(store, 8, 1, FOUR_BLOCKS).unwrap_or_else(|e| panic!("{moment}: {e}"));
            assert_eq!(code(write(store, 9, 1, 1)), "NO_SPACE", "{moment}: now nothing is left");
        };
        beside(&disk, &store, at, |store| write(store, 1, 3, FOUR_BLOCKS), inner).unwrap();
        assert_eq!(store.figures().physical_bytes, 64 << 10);
        assert!([1, 2, 3, 8].into_iter().all(|n| is_there(&store, n, FOUR_BLOCKS)));
    }
}

#[test]
fn what_a_write_under_way_has_written_counts_once_on_the_disk() {
    for (moment, at) in moments().into_iter() {
        let disk = SimDisk::new();
        let store = store(&disk, single());
        write(&store, 90, 1, 1).unwrap();
        disk.set_capacity(disk.used_bytes() + 4 * 5 * BLOCK);
        let inner = move |store: &Store| {
            assert_eq!(code(write(store, 7, 1, FOUR_BLOCKS + 1)), "NO_SPACE", "{moment}: a block more than is left");
            write(store, 8, 1, FOUR_BLOCKS).unwrap_or_else(|e| panic!("{moment}: {e}"));
            assert_eq!(code(write(store, 9, 1, 1)), "NO_SPACE", "{moment}: now nothing is left");
        };
        beside(&disk, &store, at, |store| write(store, 1, 3, FOUR_BLOCKS), inner).unwrap();
        assert!([1, 2, 3, 8].into_iter().all(|n| is_there(&store, n, FOUR_BLOCKS)), "{moment}");
    }
}

#[test]
fn a_file_that_is_half_written_counts_once_on_the_disk() {
    // Two groups of records, each of more than a MiB; and a value that is written in pieces, its header last.
    for (count, bytes) in [(2, (1 << 20) + 512 * 1024), (1, 5 << 20)] {
        for call in 1..=3 {
            let disk = SimDisk::new();
            let whole = Config { bucket_keys: 4, bucket_size_bytes: 8 << 20, ..config() };
            let store = store(&disk, whole);
            write(&store, 90, 1, 1).unwrap();
            let data = count * (bytes as u64 + 40 + 4 + 4 * (bytes as u64).div_ceil(64 << 10));
            disk.set_capacity(disk.used_bytes() + data.next_multiple_of(BLOCK) + BLOCK + 5 * BLOCK);
            let at = nth(call, |op: &Op| {
                matches!(op.kind, OpKind::Write | OpKind::SyncData) && op.name.ends_with(".bucket")
            });
            let inner = move |store: &Store| write(store, 8, 1, FOUR_BLOCKS).unwrap_or_else(|e| panic!("{call}: {e}"));
            beside(&disk, &store, at, |store| write(store, 1, count, bytes), inner).unwrap();
            assert!((1..=count).all(|n| is_there(&store, n, bytes)) && is_there(&store, 8, FOUR_BLOCKS));
        }
    }
}

#[test]
fn data_that_is_written_anew_keeps_its_room() {
    let disk = SimDisk::new();
    let store = store(&disk, Config { capacity_bytes: 64 << 10, bucket_size_bytes: 64 << 10, ..single() });
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    // The file whose sync failed is gone, and the new one is not there yet.
    let at = nth(4, on(OpKind::Create, ".bucket"));
    let inner = |store: &Store| {
        assert_eq!(code(write(store, 8, 1, FOUR_BLOCKS + 1)), "NO_SPACE");
        write(store, 9, 1, FOUR_BLOCKS).unwrap();
    };
    beside(&disk, &store, at, |store| write(store, 1, 3, FOUR_BLOCKS), inner).unwrap();
    assert_eq!(store.figures().physical_bytes, 64 << 10);
}

#[test]
fn a_write_that_fails_gives_its_room_back() {
    for kind in [OpKind::Create, OpKind::Write, OpKind::SyncData] {
        let disk = SimDisk::new();
        let store = store(&disk, Config { capacity_bytes: 64 << 10, bucket_size_bytes: 64 << 10, ..single() });
        write(&store, 90, 1, 1).unwrap();
        assert!(delete(&store, "90", 90).is_terminal());
        while store.gc_step() == bucket_store::gc::GcStep::Again {}
        disk.set_capacity(disk.used_bytes() + 4 * 5 * BLOCK);
        disk.inject(2, Fault::Errno(EIO), on(kind, ".bucket"));
        write(&store, 1, 4, FOUR_BLOCKS).unwrap_err();
        if kind != OpKind::SyncData {
            write(&store, 1, 4, FOUR_BLOCKS).unwrap_err();
        }
        write(&store, 1, 4, FOUR_BLOCKS).unwrap();
        assert_eq!(store.figures().physical_bytes, 64 << 10, "{kind:?}");
    }
}

#[test]
fn the_tables_of_what_waits_to_be_durable_keep_their_room() {
    let disk = SimDisk::new();
    let store = store(&disk, Config { durability: Durability::Relaxed, ..single() });
    write(&store, 90, 1, 1).unwrap();
    store.publish_pending().unwrap();
    let used = disk.used_bytes();
    disk.set_capacity(used + 2 * 5 * BLOCK);
    write(&store, 1, 1, FOUR_BLOCKS).unwrap();
    // Its table waits: of the six blocks that are free one is spoken for.
    assert_eq!(code(write(&store, 2, 1, FOUR_BLOCKS + 1)), "NO_SPACE");
    write(&store, 2, 1, FOUR_BLOCKS).unwrap();
    assert_eq!(code(write(&store, 3, 1, 1)), "NO_SPACE");
    // Written anew it has another bucket, and the same room.
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, "3.bucket"));
    disk.set_capacity(used + 2 * 5 * BLOCK + 4 * BLOCK);
    assert_eq!(store.publish_pending().unwrap(), 2);
    assert_eq!(disk.used_bytes(), used + 2 * 5 * BLOCK);
    disk.set_capacity(used + 2 * 5 * BLOCK);
    assert_eq!(code(write(&store, 3, 1, 1)), "NO_SPACE");
    disk.set_capacity(used + 2 * 5 * BLOCK + 2 * BLOCK);
    write(&store, 3, 1, 1).unwrap();
}
