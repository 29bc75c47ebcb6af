//! Owns the tests of writing: what is refused, where objects go, and what each failure of the disk leaves.

use std::sync::Arc;

use bucket_store::vfs::sim::{EIO, ENOSPC, Fault, Op, OpKind, SimDisk, nth, on};
use bucket_store::{Config, Durability, Store, StoreErrorKind, WriteObject, WriteOutcome};
use ha_types::ObjectIncarnation;

use crate::kit::{
    Heard, builder, code, config, delete, inc, key, list, open, open_with, read, seed_of, value, write_all, write_one,
};

#[test]
fn what_is_written_is_read_now_and_after_a_restart() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let names: Vec<_> = (0..10).map(|n| format!("key-{n}")).collect();
    let objects: Vec<_> = names.iter().zip(1..).map(|(name, seed)| (&**name, seed)).collect();
    assert_eq!(write_all(&store, &objects).unwrap(), [WriteOutcome::Stored; 10]);
    let check = |store: &Store| objects.iter().for_each(|(name, seed)| assert_eq!(seed_of(store, name), Some(*seed)));
    check(&store);
    assert_eq!(store.figures().buckets, 3, "4 keys a bucket");
    drop(store);
    check(&open(&disk));
}

#[test]
fn values_of_every_size_come_back_the_same() {
    let disk = SimDisk::new();
    let large = Config { bucket_size_bytes: 16 << 20, ..config() };
    let store = open_with(builder().config(large), &disk).unwrap();
    let chunk = 64 << 10;
    let sizes = [1, 511, 512, chunk - 1, chunk, chunk + 1, 3 * chunk, (1 << 20) + 7, (4 << 20) + 1, 5 << 20];
    for (size, n) in sizes.into_iter().zip(1..) {
        write_one(&store, &format!("{size}"), n, &value(n, size)).unwrap();
    }
    for (size, n) in sizes.into_iter().zip(1..) {
        assert!(read(&store, &format!("{size}")).unwrap() == value(n, size), "{size} bytes");
    }
}

#[test]
fn objects_of_one_hint_share_a_bucket_and_no_others() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let keys: Vec<_> = (0..6).map(|n| key(&n.to_string())).collect();
    let objects: Vec<_> = keys
        .iter()
        .zip(1..)
        .map(|(key, n)| WriteObject { key, incarnation: inc(n), value: b"x", placement: (n > 2).then_some(n % 2) })
        .collect();
    store.write(&objects).unwrap();
    let buckets: Vec<_> = keys.iter().map(|key| store.find(key).unwrap().bucket).collect();
    assert_eq!(buckets[0], buckets[1]);
    assert_eq!((buckets[2], buckets[3]), (buckets[4], buckets[5]));
    assert!(buckets[0] != buckets[2] && buckets[2] != buckets[3] && buckets[0] != buckets[3]);
}

#[test]
fn m5_a_batch_with_one_bad_object_is_refused_and_nothing_of_it_is_written() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("stored", 1), ("deleted", 2)]).unwrap();
    write_all(&store, &[("old", 3)]).unwrap();
    write_all(&store, &[("old", 4)]).unwrap();
    delete(&store, "deleted", 2);
    let (before, figures) = (disk.image(), store.figures());
    let (good, big) = (key("good"), value(1, 64 << 10));
    let object = |key, incarnation, value| WriteObject { key, incarnation, value, placement: None };
    let (stored, deleted, old) = (key("stored"), key("deleted"), key("old"));
    let long = [b"t\0".to_vec(), vec![b'k'; 4097]].concat();
    let cases = [
        (object(b"", inc(9), b"x"), "BAD_KEY"),
        (object(b"no separator", inc(9), b"x"), "BAD_KEY"),
        (object(b"tenant\0", inc(9), b"x"), "BAD_KEY"),
        (object(b"\0key", inc(9), b"x"), "BAD_KEY"),
        (object(&long, inc(9), b"x"), "BAD_KEY"),
        (object(&good, inc(9), b"x"), "KEY_TWICE"),
        (object(&stored, inc(9), b""), "BAD_VALUE_LENGTH"),
        (object(&stored, inc(9), &big), "BAD_VALUE_LENGTH"),
        (object(&stored, ObjectIncarnation::LEGACY, b"x"), "ARGUMENT"),
        (object(&deleted, inc(2), b"x"), "TOMBSTONED"),
        (object(&old, inc(3), b"x"), "SUPERSEDED"),
    ];
    for (bad, expected) in cases {
        let error = store.write(&[object(&good, inc(8), b"x"), bad]).unwrap_err();
        assert_eq!(error.code(), expected, "{error}");
        assert!(!error.is_retryable(), "{error}");
        assert_eq!(disk.image(), before, "{expected}");
        assert_eq!(store.figures(), figures, "{expected}");
    }
    let error = store.write(&[object(&good, inc(8), b"x"), object(&good, inc(9), b"x")]).unwrap_err();
    assert_eq!(error.to_string(), "key \"t\\x00good\" is in the batch twice, at 0 and at 1; give it once");
    let many = vec![object(&good, inc(8), b"x"); 10_001];
    assert_eq!(code(store.write(&many)), "ARGUMENT");
    assert_eq!(store.write(&[]).unwrap(), []);
    assert_eq!(disk.image(), before);
}

#[test]
fn a_value_past_4_gib_is_refused_and_not_taken_for_what_is_left_of_its_length_in_32_bits() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let before = disk.image();
    // Nobody writes to it, so it costs no memory.
    let value = vec![0; (1 << 32) + 100];
    let error = write_one(&store, "a", 1, &value).unwrap_err();
    assert_eq!(error.code(), "BAD_VALUE_LENGTH", "{error}");
    assert!(error.to_string().contains("has 4294967396 bytes; give 1 or more"), "{error}");
    assert_eq!(disk.image(), before);
}

#[test]
fn the_largest_object_that_fits_a_bucket_is_taken_and_one_byte_more_is_not() {
    let disk = SimDisk::new();
    let store = open(&disk);
    // header, key and one checksum
    let most = (64 << 10) - 40 - key("a").len() - 4;
    assert_eq!(code(write_one(&store, "a", 1, &value(1, most + 1))), "BAD_VALUE_LENGTH");
    write_one(&store, "a", 1, &value(1, most)).unwrap();
    assert_eq!(read(&store, "a").unwrap(), value(1, most));
}

#[test]
fn an_incarnation_that_is_stored_is_not_written_again() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1)]).unwrap();
    let operations = disk.operations();
    assert_eq!(write_all(&store, &[("a", 1)]).unwrap(), [WriteOutcome::AlreadyStored]);
    assert_eq!(disk.operations(), operations);
    assert_eq!(write_all(&store, &[("b", 2), ("a", 1)]).unwrap(), [WriteOutcome::Stored, WriteOutcome::AlreadyStored]);
    assert_eq!(list(&store, 100).len(), 2);
}

#[test]
fn the_newest_incarnation_is_served_also_after_a_restart() {
    let disk = SimDisk::new();
    let store = open(&disk);
    for seed in 1..=5 {
        write_all(&store, &[("a", seed)]).unwrap();
    }
    assert_eq!(seed_of(&store, "a"), Some(5));
    assert_eq!(store.figures().live_objects, 1);
    drop(store);
    let store = open(&disk);
    assert_eq!(seed_of(&store, "a"), Some(5));
    assert_eq!(list(&store, 1).len(), 1);
}

#[test]
fn ids_and_write_numbers_are_never_used_twice() {
    let disk = SimDisk::new();
    let mut seen = std::collections::BTreeSet::new();
    for life in 0..4 {
        let store = open(&disk);
        for n in 0..40 {
            let (name, seed) = (format!("{life}-{n}"), life * 40 + n + 1);
            write_all(&store, &[(&name, seed)]).unwrap();
            assert!(seen.insert(store.find(&key(&name)).unwrap().bucket), "a bucket id was used again");
            // gone for good, so that nothing on disk tells of its id but the high-water mark
            assert!(delete(&store, &name, seed).is_terminal());
        }
        while !matches!(store.gc_step(), bucket_store::gc::GcStep::Idle(_)) {}
        assert_eq!(store.figures().buckets, 0);
    }
}

#[test]
fn without_room_nothing_is_written() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1)]).unwrap();
    let used = disk.used_bytes();
    disk.set_capacity(used + 4096);
    let names = disk.image().names().map(str::to_owned).collect::<Vec<_>>();
    let error = write_all(&store, &[("b", 2)]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::NoSpace, "NO_SPACE"));
    assert_eq!(disk.image().names().map(str::to_owned).collect::<Vec<_>>(), names);
    disk.set_capacity(1 << 30);
    write_all(&store, &[("b", 2)]).unwrap();
}

#[test]
fn capacity_is_kept_to() {
    let disk = SimDisk::new();
    let small = Config { capacity_bytes: 64 << 10, ..config() };
    let store = open_with(builder().config(small), &disk).unwrap();
    let mut n = 0;
    let error = loop {
        n += 1;
        assert!(n < 100, "more than fits was taken");
        if let Err(error) = write_one(&store, &n.to_string(), n, &value(n, 1000)) {
            break error;
        }
    };
    assert_eq!(error.code(), "NO_SPACE");
    let figures = store.figures();
    assert!(figures.physical_bytes <= figures.capacity_bytes, "{figures:?}");
    assert!(figures.physical_bytes > figures.capacity_bytes - 8192, "{figures:?}");
}

#[test]
fn a_full_disk_in_the_middle_of_a_write_leaves_nothing_of_it() {
    let names: Vec<_> = (0..8).map(|n| format!("b{n}")).collect();
    let objects: Vec<_> = names.iter().zip(2..).map(|(name, seed)| (&**name, seed)).collect();
    for call in 1.. {
        let disk = SimDisk::new();
        let store = open(&disk);
        write_all(&store, &[("a", 1)]).unwrap();
        let before = disk.used_bytes();
        disk.inject(1, Fault::Short { written: 20, errno: ENOSPC }, nth(call, on(OpKind::Write, ".bucket")));
        let written = write_all(&store, &objects);
        if disk.faults_met() == 0 {
            assert!(written.is_ok() && call > 2, "two buckets are written in {} calls", call - 1);
            break;
        }
        assert_eq!(code(written), "DISK_FULL");
        assert_eq!(disk.used_bytes(), before, "what was begun is taken away");
        assert_eq!(list(&store, 100).len(), 1);
        write_all(&store, &objects).unwrap();
        assert_eq!(list(&store, 100).len(), 9);
    }
}

#[test]
fn a_full_disk_is_met_before_a_byte_is_written() {
    for call in 1..=2 {
        let disk = SimDisk::new();
        let store = open(&disk);
        write_all(&store, &[("a", 1)]).unwrap();
        let before = disk.used_bytes();
        // somebody else has taken what was free when it was asked for
        disk.inject(1, Fault::Errno(ENOSPC), nth(call, on(OpKind::Allocate, ".bucket")));
        disk.record();
        let error = write_all(&store, &[("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)]).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::NoSpace, "DISK_FULL"));
        assert!(error.to_string().starts_with(&format!("allocate of {}.bucket", call + 1)), "{error}");
        let writes = disk.log().into_iter().filter(|op| op.kind == OpKind::Write && op.name.ends_with(".bucket"));
        assert_eq!(writes.count() as u64, call - 1, "of the bucket before alone");
        assert_eq!((disk.used_bytes(), list(&store, 100).len()), (before, 1), "what was begun is taken away");
        assert_eq!(store.figures().physical_bytes, 4096);
    }
}

#[test]
fn b8_data_whose_sync_failed_is_written_anew_once_under_a_new_name() {
    let disk = SimDisk::new();
    let store = open(&disk);
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    disk.record();
    write_all(&store, &[("a", 1)]).unwrap();
    let syncs: Vec<_> =
        disk.log().into_iter().filter(|op| op.kind == OpKind::SyncData && op.name.ends_with(".bucket")).collect();
    assert_eq!(syncs.len(), 2);
    assert_ne!(syncs[0].name, syncs[1].name, "no descriptor is synced again after a failure");
    assert!(disk.image().bytes(&syncs[0].name).is_none());
    drop(store);
    assert_eq!(seed_of(&open(&disk), "a"), Some(1));
}

#[test]
fn b8_data_that_cannot_be_synced_twice_is_an_error_and_not_there() {
    let disk = SimDisk::new();
    let heard = Arc::new(Heard::default());
    let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
    disk.inject(2, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    let error = write_all(&store, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Disk, "IO"));
    assert_eq!(list(&store, 100), []);
    assert!(!disk.image().names().any(|name| name.ends_with(".bucket") || name.ends_with(".meta")));
    assert_eq!(heard.of("DiskFailed").len(), 1);
}

/// Syncs of the directory that are to make a table durable.
fn sync_of_a_renamed_table() -> impl FnMut(&Op) -> bool {
    let mut renamed = false;
    move |op| {
        renamed |= op.kind == OpKind::Rename && op.to.ends_with(".meta");
        op.kind == OpKind::SyncDir && renamed
    }
}

#[test]
fn d4_a_table_that_may_be_in_place_is_known_in_memory_too() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("x", 9)]).unwrap();
    // both attempts at the directory's sync fail: nobody knows whether the table is there
    disk.inject(2, Fault::Errno(EIO), sync_of_a_renamed_table());
    assert_eq!(code(write_all(&store, &[("a", 1)])), "IO");
    assert_eq!(seed_of(&store, "a"), Some(1), "a restart may serve it, so it is served");
    assert!(matches!(delete(&store, "a", 1), bucket_store::DeleteOutcome::Removed));
    drop(store);
    assert_eq!(seed_of(&open(&disk), "a"), None);
}

#[test]
fn m5_a_table_that_is_certainly_not_in_place_leaves_nothing() {
    for kind in [OpKind::Create, OpKind::Write, OpKind::SyncData] {
        let disk = SimDisk::new();
        let store = open(&disk);
        disk.inject(2, Fault::Errno(EIO), move |op| op.kind == kind && op.name.contains(".meta."));
        assert_eq!(code(write_all(&store, &[("a", 1)])), "IO", "{kind:?}");
        assert_eq!(list(&store, 100), [], "{kind:?}");
        let left: Vec<_> = disk
            .image()
            .names()
            .filter(|name| name.contains(".bucket") && !name.starts_with('.'))
            .map(str::to_owned)
            .collect();
        assert_eq!(left, [""; 0], "{kind:?}");
        write_all(&store, &[("a", 1)]).unwrap();
    }
}

#[test]
fn failures_in_a_row_make_the_store_read_only_and_reads_go_on() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1)]).unwrap();
    disk.inject(usize::MAX, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    for _ in 0..2 {
        write_all(&store, &[("b", 2)]).unwrap_err();
    }
    let error = write_all(&store, &[("b", 2)]).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::ReadOnly, "READ_ONLY"));
    assert!(error.to_string().contains("the sync of "), "{error}");
    assert!(store.figures().read_only && store.read_only().is_some());
    assert_eq!(code(store.publish_pending()), "READ_ONLY");
    assert_eq!(seed_of(&store, "a"), Some(1));
    disk.mend();
    drop(store);
    write_all(&open(&disk), &[("b", 2)]).unwrap();
}

#[test]
fn relaxed_writes_are_served_at_once_and_durable_when_published() {
    let disk = SimDisk::new();
    let relaxed = || builder().config(Config { durability: Durability::Relaxed, ..config() });
    let store = open_with(relaxed(), &disk).unwrap();
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    assert_eq!(seed_of(&store, "a"), Some(1));
    assert!(store.figures().pending_bytes > 0);
    assert!(!disk.image().names().any(|name| name.ends_with(".meta")), "a table comes after the sync of its data");
    assert_eq!(store.publish_pending().unwrap(), 1);
    assert_eq!((store.figures().pending_bytes, store.publish_pending().unwrap()), (0, 0));
    drop(store);
    assert_eq!(seed_of(&open_with(relaxed(), &disk).unwrap(), "b"), Some(2));
}

#[test]
fn a_relaxed_write_past_the_limit_makes_what_waits_durable() {
    let disk = SimDisk::new();
    let relaxed = Config { durability: Durability::Relaxed, relaxed_limit_bytes: 10_000, ..config() };
    let store = open_with(builder().config(relaxed), &disk).unwrap();
    let mut most = 0;
    for n in 1..40 {
        write_one(&store, &n.to_string(), n, &value(n, 1000)).unwrap();
        most = most.max(store.figures().pending_bytes);
    }
    assert!((9_000..=10_000).contains(&most), "{most}");
}

#[test]
fn b8_relaxed_data_whose_sync_failed_is_written_anew_once() {
    let disk = SimDisk::new();
    let relaxed = || builder().config(Config { durability: Durability::Relaxed, ..config() });
    let store = open_with(relaxed(), &disk).unwrap();
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    let first = store.find(&key("a")).unwrap().bucket;
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    assert_eq!(store.publish_pending().unwrap(), 1);
    assert_ne!(store.find(&key("a")).unwrap().bucket, first);
    assert!(disk.image().bytes(&first.data_name()).is_none());
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b")), (Some(1), Some(2)));
    assert_eq!(store.figures().physical_bytes, 4096);
    drop(store);
    let store = open_with(relaxed(), &disk).unwrap();
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b")), (Some(1), Some(2)));
}

#[test]
fn b8_a_delete_whose_bucket_has_to_be_written_anew_is_done_in_the_new_one() {
    let disk = SimDisk::new();
    let relaxed = || builder().config(Config { durability: Durability::Relaxed, ..config() });
    let store = open_with(relaxed(), &disk).unwrap();
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    assert!(matches!(delete(&store, "b", 2), bucket_store::DeleteOutcome::Removed));
    assert_eq!(disk.faults_met(), 1);
    store.audit().unwrap();
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b")), (Some(1), None));
    let least = disk.crash_point().least();
    drop(store);
    let store = open_with(relaxed(), &SimDisk::of(&least)).unwrap();
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b")), (Some(1), None), "whatever the power takes");
    assert_eq!(store.quarantined().len(), 0, "no table of the lost bucket");
}

#[test]
fn b8_relaxed_data_that_cannot_be_written_is_gone_and_what_it_replaced_is_back() {
    let disk = SimDisk::new();
    let relaxed = || builder().config(Config { durability: Durability::Relaxed, ..config() });
    let store = open_with(relaxed(), &disk).unwrap();
    write_all(&store, &[("a", 1)]).unwrap();
    store.publish_pending().unwrap();
    write_all(&store, &[("a", 2), ("b", 3)]).unwrap();
    disk.inject(2, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    assert_eq!(code(store.publish_pending()), "IO");
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b")), (Some(1), None));
    assert_eq!(store.figures().physical_bytes, 4096);
    drop(store);
    let store = open_with(relaxed(), &disk).unwrap();
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b")), (Some(1), None), "as a restart has it");
}

#[test]
fn publishing_ends_also_while_others_go_on_writing() {
    /// Lets a write come in whenever what the last one wrote is synced.
    fn go_on(disk: &SimDisk, store: &Arc<Store>, bucket: u64) {
        let (on_disk, into) = (disk.clone(), Arc::clone(store));
        let name = format!("{bucket}.bucket");
        let sync = move |op: &Op| op.kind == OpKind::SyncData && *op.name == *name;
        disk.when(sync, move || {
            write_all(&into, &[(&format!("{bucket}"), bucket)]).unwrap();
            if bucket < 50 {
                go_on(&on_disk, &into, bucket + 1);
            }
        });
    }
    let disk = SimDisk::new();
    let relaxed = Config { durability: Durability::Relaxed, ..config() };
    let store = Arc::new(open_with(builder().config(relaxed), &disk).unwrap());
    write_all(&store, &[("a", 99)]).unwrap();
    go_on(&disk, &store, 1);
    assert_eq!(store.publish_pending().unwrap(), 1, "what came meanwhile is for the next time");
    assert_eq!(store.publish_pending().unwrap(), 1);
}

#[test]
fn b13_a_data_file_that_cannot_be_taken_away_is_counted_until_the_next_open() {
    let on_disk = |disk: &SimDisk| {
        let image = disk.image();
        let files = image.names().filter(|name| name.ends_with(".bucket"));
        files.map(|name| (image.bytes(name).unwrap().len() as u64).next_multiple_of(4096)).sum::<u64>()
    };
    for durability in [Durability::Sync, Durability::Relaxed] {
        // the first sync, both, or a write fails, and no file goes
        for (times, kind) in [(1, OpKind::SyncData), (2, OpKind::SyncData), (1, OpKind::Write)] {
            let disk = SimDisk::new();
            let with = || builder().config(Config { durability, bucket_keys: 1, ..config() });
            let store = open_with(with(), &disk).unwrap();
            write_one(&store, "before", 1, &value(1, 5000)).unwrap();
            store.publish_pending().unwrap();
            disk.inject(times, Fault::Short { written: 5000, errno: EIO }, on(kind, ".bucket"));
            disk.inject(usize::MAX, Fault::Errno(EIO), on(OpKind::Unlink, ".bucket"));
            let written = write_one(&store, "a", 2, &value(2, 9000)).and_then(|_| store.publish_pending());
            assert_eq!(written.is_ok(), times == 1 && kind == OpKind::SyncData);
            assert!(on_disk(&disk) > 8192, "something is left over");
            assert_eq!(store.figures().physical_bytes, on_disk(&disk), "{durability:?} {times} {kind:?}");
            disk.mend();
            drop(store);
            let store = open_with(with(), &disk).unwrap();
            assert_eq!(store.figures().physical_bytes, on_disk(&disk));
            assert_eq!(store.figures().buckets, 1 + u64::from(written.is_ok()));
        }
    }
}

#[test]
fn what_was_left_undurable_by_a_failure_is_durable_when_it_is_written_again() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("one", 1)]).unwrap();
    // nobody knows whether the table is in place: the object is there, and not durable
    disk.inject(2, Fault::Errno(EIO), sync_of_a_renamed_table());
    write_all(&store, &[("zero", 9)]).unwrap_err();
    let from = disk.operations();
    assert_eq!(write_all(&store, &[("zero", 9)]).unwrap_or_default(), [WriteOutcome::AlreadyStored]);
    assert!(disk.operations() > from, "the table was published again");
    assert_eq!(store.figures().suspect_buckets, 0);
}
