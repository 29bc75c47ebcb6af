//! Owns the tests of opening: whose directory it is, what is refused, and that refusing changes nothing.

use std::sync::{Arc, Mutex};

use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::{CrashStates, EIO, Fault, Image, Op, OpKind, SimDisk, on};
use bucket_store::{Adoption, Config, DeleteOutcome, Store, StoreBuilder, StoreError, StoreErrorKind};
use ha_types::ManualClock;

use crate::kit::{Heard, builder, code, config, delete, list, marker, open, open_with, read, seed_of, write_all};

const MARKER: &str = ".mooncake_local_disk_segment_id";

/// Refused with this code, and not a byte of the directory has changed.
fn refused(builder: StoreBuilder, image: &Image, expected: &str) -> StoreError {
    let disk = SimDisk::of(image);
    disk.record();
    let error = open_with(builder, &disk).expect_err(expected);
    assert_eq!(error.code(), expected, "{error}");
    assert_eq!(disk.image(), *image, "{expected}");
    let changed: Vec<_> = disk.log().into_iter().filter(|op: &Op| op.kind.changes()).collect();
    assert!(changed.is_empty(), "{changed:?}");
    error
}

fn written() -> Image {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]).unwrap();
    delete(&store, "b", 2);
    drop(store);
    disk.image()
}

/// A directory as Mooncake leaves it: two objects, the bytes of their table as its documentation shows them.
fn mooncakes() -> Image {
    let table = [
        &b"\x08\xbf\x02\x12\x09default\0a\x12\x0adefault\0bb\x1a\x04\x10\x09\x18\x64"[..],
        b"\x1a\x07\x08\x6d\x10\x0a\x18\xc8\x01",
    ];
    let data = [&b"default\0a"[..], &[b'x'; 100], b"default\0bb", &[b'y'; 200]];
    Image::default().with("7.meta", &table.concat()).with("7.bucket", &data.concat())
}

#[test]
fn an_empty_directory_is_marked_and_opens_again() {
    let disk = SimDisk::new();
    drop(open(&disk));
    let bytes = disk.image().bytes(MARKER).unwrap();
    assert!(bytes.starts_with(b"plimsoll-local-disk 1\nsegment ssd-1\ncluster c1\n"));
    drop(open(&disk));
    assert_eq!(disk.image().bytes(MARKER).unwrap(), bytes);
}

#[test]
fn another_storages_directory_is_refused_and_not_touched() {
    let image = written();
    for (segment, cluster, code) in [("ssd-2", "c1", "OTHER_SEGMENT"), ("ssd-1", "c2", "OTHER_CLUSTER")] {
        let other = Store::builder(marker(segment, cluster), Arc::new(ManualClock::new())).adoption(Adoption::OneWay);
        let error = refused(other, &image, code);
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.to_string().starts_with(&format!("{MARKER}: {} is ", code[6..].to_lowercase())), "{error}");
    }
    assert_eq!(seed_of(&open(&SimDisk::of(&image)), "a"), Some(1));
}

#[test]
fn a_marker_that_is_missing_or_damaged_is_refused_and_not_touched() {
    let image = written();
    let error = refused(builder(), &image.clone().without(MARKER), "MARKER_MISSING");
    assert!(error.to_string().contains("adopt the directory"), "{error}");
    for bytes in [&b""[..], b"plimsoll-local-disk 1\nsegment ssd-1\n", b"ssd-2\n", &[0; 5000]] {
        refused(builder(), &image.clone().with(MARKER, bytes), "MARKER_DAMAGED");
        refused(builder().adoption(Adoption::OneWay), &image.clone().with(MARKER, bytes), "MARKER_DAMAGED");
    }
}

#[test]
fn b7_b15_an_unknown_version_of_any_file_is_refused_with_the_directory_byte_identical() {
    let image = written();
    let newer = |name: &str, at: usize| {
        let mut bytes = image.bytes(name).unwrap();
        bytes[at] += 1;
        image.clone().with(name, &bytes)
    };
    // the version: behind the four letters of each file, and the digit of the marker
    for (name, at, version) in [("1.meta", 4, 3), ("2.meta", 4, 3), (".bucket_id_high_water", 4, 2), (MARKER, 20, 2)] {
        let error = refused(builder(), &newer(name, at), "UNKNOWN_VERSION");
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.to_string().starts_with(&format!("{name} has version {version}")), "{error}");
    }
    let intents = b"PLBI\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    refused(builder(), &image.clone().with(".bucket_gc_intent", intents), "UNKNOWN_VERSION");
}

#[test]
fn strange_names_are_refused_by_name_and_not_touched() {
    let image = written();
    for name in ["notes.txt", "007.bucket", "x.meta", "0.bucket", ".hidden", "1.bucket.bak", "9223372036854775808.meta"]
    {
        let error = refused(builder(), &image.clone().with(name, b"x"), "STRANGE_FILE");
        assert!(error.to_string().starts_with(&format!("{name}: the name is ")), "{error}");
    }
}

#[test]
fn intents_that_no_store_writes_are_refused_by_name_and_not_touched() {
    let image = written();
    let signed = |body: &[u8]| {
        let mut bytes = [b"PLBI\x01\0\x01\0\0\0", body].concat();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    };
    let ids = |ids: std::ops::RangeInclusive<u64>| ids.flat_map(u64::to_le_bytes).collect::<Vec<_>>();
    let cases = [
        ("INTENT_DAMAGED", "rounds[0].sources", signed(&[&[3, 2][..], &ids(1..=1), &ids(1..=1)].concat())),
        ("INTENT_DAMAGED", "count of sources", signed(&[&[3, 9][..], &ids(1..=9)].concat())),
        ("INTENT_DAMAGED", "count of sources", signed(&[&[3, 0][..], &ids(1..=1)].concat())),
        ("INTENT_BUCKET_UNKNOWN", "bucket id", signed(&[&[3, 1][..], &ids(900..=900)].concat())),
    ];
    for (code, field, bytes) in cases {
        let error = refused(builder(), &image.clone().with(".bucket_gc_intent", &bytes), code);
        assert!(error.to_string().contains(field), "{field}: {error}");
        assert!(error.place().starts_with(".bucket_gc_intent: "), "{error}");
    }
}

#[test]
fn settings_that_are_not_allowed_are_refused_before_anything_is_looked_at() {
    let disk = SimDisk::new();
    let bad = Config { low_watermark: 0.95, ..config() };
    let error = open_with(builder().config(bad), &disk).unwrap_err();
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "CONFIG"));
    assert_eq!(disk.operations(), 0);
}

#[test]
fn b2_data_without_a_table_is_removed_and_counted() {
    // Without the high-water mark only what is on disk tells which ids were used.
    let image = written().without(".bucket_id_high_water");
    let disk = SimDisk::of(&image.with("9.bucket", &[7; 5000]).with(".9.meta.0.tmp", b"half"));
    let heard = Arc::new(Heard::default());
    let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
    assert_eq!(heard.of("OrphansRemoved"), ["OrphansRemoved { files: 1, bytes: 8192 }"]);
    let mut names: Vec<_> = disk.image().names().map(str::to_owned).collect();
    names.sort_unstable();
    assert_eq!(names, [".bucket_reserve", MARKER, "1.bucket", "1.meta", "2.bucket", "2.meta"]);
    assert_eq!(store.figures().physical_bytes, 2 * 4096);
    // its id is not given out again
    write_all(&store, &[("f", 6)]).unwrap();
    assert!(store.find(b"t\0f").unwrap().bucket.0 > 9);
    // nor are the write numbers: what is written now is newer than what is there
    write_all(&store, &[("e", 11)]).unwrap();
    assert_eq!(seed_of(&store, "e"), Some(11));
}

#[test]
fn b2_a_crash_at_every_operation_of_a_write_leaves_whole_objects_or_none_and_no_orphan() {
    use bucket_store::vfs::sim::CrashStates;
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1)]).unwrap();
    let images = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&images);
    disk.watch(move |_, point| kept.lock().unwrap().extend(point.images(CrashStates::default())));
    write_all(&store, &[("a", 2), ("b", 3), ("c", 4), ("d", 5), ("e", 6)]).unwrap();
    disk.unwatch();
    let images = std::mem::take(&mut *images.lock().unwrap());
    let (mut old, mut new) = (0, 0);
    for image in &images {
        let disk = SimDisk::of(image);
        let store = open(&disk);
        assert!(store.quarantined().len() == 0, "a table is alone");
        match seed_of(&store, "a") {
            Some(1) => old += 1,
            Some(2) => new += 1,
            other => panic!("neither the old nor the new one: {other:?}"),
        }
        for (name, seed) in [("b", 3), ("c", 4), ("d", 5), ("e", 6)] {
            assert!(seed_of(&store, name).is_none_or(|found| found == seed), "{name}");
        }
        assert_eq!(store.figures().physical_bytes, 4096 * store.figures().buckets, "no orphan is left");
    }
    assert!(old > 100 && new > 10, "{old} with the old one, {new} with the new one");
}

#[test]
fn a_table_without_data_or_one_that_is_damaged_is_set_apart_and_nothing_of_it_is_deleted() {
    let image = written();
    let mut flipped = image.bytes("1.meta").unwrap();
    flipped[30] ^= 1;
    let cases = [
        (image.clone().without("1.bucket"), "there is no 1.bucket"),
        (image.clone().with("1.meta", &flipped), "1.meta: bucket table"),
        (image.clone().with("1.meta", b""), "1.meta: "),
        (image.clone().with("1.bucket", b"short"), "1.meta: bucket table: data_len at byte "),
    ];
    for (image, expected) in cases {
        let disk = SimDisk::of(&image);
        let heard = Arc::new(Heard::default());
        let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
        let quarantined: Vec<_> = store.quarantined().map(|(id, reason)| (id.0, reason.to_owned())).collect();
        assert_eq!(quarantined.len(), 1);
        assert!(quarantined[0].0 == 1 && quarantined[0].1.starts_with(expected), "{quarantined:?}");
        assert_eq!(heard.of("BucketQuarantined").len(), 1);
        assert_eq!((code(read(&store, "a")), seed_of(&store, "e")), ("NOT_FOUND", Some(5)));
        // whatever happens then, these files stay, and their id is not used
        write_all(&store, &[("x", 10)]).unwrap();
        delete(&store, "e", 5);
        for _ in 0..50 {
            store.gc_step();
        }
        for name in ["1.bucket", "1.meta"] {
            assert_eq!(disk.image().bytes(name), image.bytes(name));
        }
    }
}

#[test]
fn a_table_that_cannot_be_read_is_set_apart_and_served_again_when_it_can() {
    let image = written();
    let disk = SimDisk::of(&image);
    disk.make_unreadable("1.meta", 0..1 << 20);
    let store = open(&disk);
    assert_eq!(store.quarantined().len(), 1);
    assert_eq!((code(read(&store, "a")), seed_of(&store, "e")), ("NOT_FOUND", Some(5)));
    drop(store);
    disk.mend();
    assert_eq!(seed_of(&open(&disk), "a"), Some(1));
}

#[test]
fn b2_what_was_replaced_in_a_bucket_that_could_not_be_read_does_not_come_back_for_what_was_deleted_meanwhile() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1)]).unwrap();
    write_all(&store, &[("a", 2)]).unwrap();
    drop(store);
    disk.make_unreadable("1.meta", 0..1 << 20);
    let store = open(&disk);
    assert_eq!(store.quarantined().len(), 1, "the older one is not known");
    assert!(matches!(delete(&store, "a", 2), DeleteOutcome::Removed));
    drop(store);
    disk.mend();
    let clock = Arc::new(ManualClock::new());
    let builder = Store::builder(marker("ssd-1", "c1"), clock.clone()).config(config());
    let store = open_with(builder, &disk).unwrap();
    assert_eq!((code(read(&store, "a")), list(&store, 10).len()), ("NOT_FOUND", 0));
    store.audit().unwrap();
    assert_eq!(store.figures().suspect_buckets, 1, "its table does not say so yet");
    assert_eq!(code(write_all(&store, &[("a", 1)])), "TOMBSTONED");
    // GC writes its table anew, and then takes both. Wherever the power goes, it stays gone.
    // Also if its first attempt fails.
    let met = disk.faults_met();
    disk.inject(1, Fault::Errno(EIO), on(OpKind::Rename, "1.meta"));
    let points = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&points);
    disk.watch(move |_, point| seen.lock().unwrap().push(point));
    loop {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(time) => clock.advance(time),
            _ => break,
        }
    }
    disk.unwatch();
    assert_eq!(disk.faults_met(), met + 1);
    for image in points.lock().unwrap().iter().flat_map(|point| point.images(CrashStates::default())) {
        assert_eq!(list(&open(&SimDisk::of(&image)), 10).len(), 0);
    }
    assert_eq!(store.figures().physical_bytes, 0);
    drop(store);
    let store = open(&disk);
    assert_eq!((code(read(&store, "a")), store.figures().physical_bytes), ("NOT_FOUND", 0));
}

#[test]
fn a_disk_that_fails_while_it_is_opened_is_an_error_or_costs_one_bucket_and_the_next_open_is_whole() {
    let image = written().with("9.bucket", &[7; 5000]).with(".9.meta.0.tmp", b"half");
    let operations = {
        let disk = SimDisk::of(&image);
        drop(open(&disk));
        disk.operations()
    };
    let (mut failed, mut apart) = (0, 0);
    for number in 1..=operations {
        let disk = SimDisk::of(&image);
        disk.fail_at(number, Fault::Errno(EIO));
        match open_with(builder(), &disk) {
            Err(_) => failed += 1,
            Ok(store) => apart += store.quarantined().len(),
        }
        disk.mend();
        let store = open(&disk);
        assert_eq!(list(&store, 10).len(), 4, "after a failure of operation {number}");
        assert_eq!(store.figures().physical_bytes, 2 * 4096);
    }
    assert!(failed >= 8 && apart >= 8, "{failed} failed and {apart} set apart of {operations}");
}

#[test]
fn mooncakes_directory_opens_only_when_it_is_adopted_and_then_for_good() {
    let image = mooncakes();
    refused(builder(), &image, "MARKER_MISSING");
    refused(builder(), &image.clone().with(MARKER, b"ssd-1"), "MARKER_DAMAGED");
    refused(builder().adoption(Adoption::OneWay), &image.clone().with(MARKER, b"ssd-2"), "MARKER_DAMAGED");
    for image in [image.clone(), image.with(MARKER, b"ssd-1\n")] {
        let disk = SimDisk::of(&image);
        let store = open_with(builder().adoption(Adoption::OneWay), &disk).unwrap();
        let read = |store: &Store, key: &[u8]| store.read(&bucket_store::ReadRequest::whole(key));
        assert_eq!(read(&store, b"default\0a").unwrap(), [b'x'; 100]);
        assert_eq!(read(&store, b"default\0bb").unwrap(), [b'y'; 200]);
        let part = bucket_store::ReadRequest::part(b"default\0bb", 198, 2);
        assert_eq!(store.read(&part).unwrap(), *b"yy");
        drop(store);
        // from now on it is ours, and needs no word any more
        let store = open(&disk);
        assert_eq!(read(&store, b"default\0a").unwrap(), [b'x'; 100]);
        let legacy = ha_types::ObjectIncarnation::LEGACY;
        let request = bucket_store::DeleteRequest { key: b"default\0a", incarnation: legacy };
        assert!(store.delete(&[request]).unwrap()[0].is_terminal());
        drop(store);
        let store = open(&disk);
        assert_eq!(code(read(&store, b"default\0a")), "NOT_FOUND");
        assert_eq!(read(&store, b"default\0bb").unwrap(), [b'y'; 200]);
        write_all(&store, &[("new", 1)]).unwrap();
        assert!(store.find(b"t\0new").unwrap().bucket.0 > 7);
    }
}

#[test]
fn of_a_key_in_several_of_mooncakes_buckets_the_highest_bucket_counts() {
    let image = mooncakes();
    let (table, data) = (image.bytes("7.meta").unwrap(), image.bytes("7.bucket").unwrap());
    let newer: Vec<u8> = data.iter().map(|byte| if *byte == b'x' { b'z' } else { *byte }).collect();
    let image = image.with("12.meta", &table).with("12.bucket", &newer).with("9.meta", &table).with("9.bucket", &data);
    let disk = SimDisk::of(&image);
    let store = open_with(builder().adoption(Adoption::OneWay), &disk).unwrap();
    let read = |store: &Store, key: &[u8]| store.read(&bucket_store::ReadRequest::whole(key));
    assert_eq!(read(&store, b"default\0a").unwrap(), [b'z'; 100]);
    assert_eq!((list(&store, 10).len(), store.figures().live_objects), (2, 2));
    let legacy = ha_types::ObjectIncarnation::LEGACY;
    let request = bucket_store::DeleteRequest { key: b"default\0a", incarnation: legacy };
    assert!(matches!(store.delete(&[request]).unwrap()[0], bucket_store::DeleteOutcome::Removed));
    drop(store);
    assert_eq!(code(read(&open(&disk), b"default\0a")), "NOT_FOUND", "no older one comes back");
}

#[test]
fn what_is_no_regular_file_is_refused_by_name_on_a_real_disk() {
    use bucket_store::vfs::{Access, DiskDir};
    let open = |path: &std::path::Path| builder().open(Arc::new(DiskDir::open(path, Access::Store).unwrap()));
    let path = tempfile::tempdir().unwrap();
    let path = path.path();
    std::fs::create_dir(path.join("lost+found")).unwrap();
    write_all(&open(path).unwrap(), &[("a", 1)]).unwrap();
    type Make = fn(&std::path::Path);
    let marker = std::fs::read(path.join(MARKER)).unwrap();
    std::fs::remove_file(path.join(MARKER)).unwrap();
    let made: [(&str, Make); 6] = [
        (MARKER, |at| std::fs::create_dir(at).unwrap()),
        (MARKER, |at| std::os::unix::fs::symlink("1.meta", at).unwrap()),
        ("sub", |at| std::fs::create_dir(at).unwrap()),
        ("7.bucket", |at| std::fs::create_dir(at).unwrap()),
        ("7.meta", |at| std::os::unix::fs::symlink("1.meta", at).unwrap()),
        ("9.bucket", |at| drop(std::os::unix::net::UnixListener::bind(at).unwrap())),
    ];
    for (name, make) in made {
        let at = path.join(name);
        make(&at);
        let error = open(path).unwrap_err();
        assert_eq!(error.code(), "STRANGE_FILE");
        assert!(error.to_string().starts_with(&format!("{name}: the name is ")), "{error}");
        assert!(at.symlink_metadata().is_ok(), "it is left alone");
        if at.is_dir() { std::fs::remove_dir(&at).unwrap() } else { std::fs::remove_file(&at).unwrap() }
    }
    std::fs::write(path.join(MARKER), marker).unwrap();
    assert_eq!(seed_of(&open(path).unwrap(), "a"), Some(1));
}
