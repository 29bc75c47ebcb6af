//! Owns the tests of reading: every part of every value, what does not verify, and the pin of a file that is gone.

use std::sync::Arc;

use bucket_store::vfs::sim::SimDisk;
use bucket_store::{Config, ReadRequest, Store, StoreErrorKind, WriteOutcome};
use proptest::prelude::*;

use crate::kit::{
    Heard, builder, code, config, delete, inc, key, list, open, open_with, read, seed_of, value, write_all, write_one,
};

fn large() -> (SimDisk, Store) {
    let disk = SimDisk::new();
    let store = open_with(builder().config(Config { bucket_size_bytes: 4 << 20, ..config() }), &disk).unwrap();
    (disk, store)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_part_of_a_value_is_what_was_written(
        len in prop_oneof![1..2000_usize, 60_000..70_000_usize, 190_000..200_000_usize, Just(131_072_usize)],
        parts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..20),
    ) {
        let (_disk, store) = large();
        let bytes = value(len as u64, len);
        // behind another record, so that offsets in the file and in the value differ
        write_all(&store, &[("before", 1)]).unwrap();
        write_one(&store, "a", 2, &bytes).unwrap();
        for (from, until) in parts {
            let from = from.index(len);
            let until = from + 1 + until.index(len - from);
            let name = key("a");
            let request = ReadRequest::part(&name, from as u64, (until - from) as u64);
            prop_assert!(store.read(&request).unwrap() == bytes[from..until], "{from}..{until} of {len}");
            let mut buf = vec![0xaa; until - from + 3];
            prop_assert_eq!(store.read_into(&request.of(inc(2)), &mut buf).unwrap(), until - from);
            prop_assert!(buf[..until - from] == bytes[from..until] && buf[until - from..] == [0xaa; 3]);
        }
    }
}

#[test]
fn a_range_that_is_not_within_the_value_is_refused_with_its_numbers() {
    let (_disk, store) = large();
    write_all(&store, &[("a", 1)]).unwrap();
    let name = key("a");
    for (offset, len) in
        [(0, 0), (100, 1), (99, 2), (0, 101), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (50, 0)]
    {
        let error = store.read(&ReadRequest::part(&name, offset, len)).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "BAD_RANGE"));
        assert_eq!(
            error.to_string(),
            format!("range {offset}+{len} of key \"t\\x00a\" is not within its 100 bytes; ask for less")
        );
    }
    let error = store.read_into(&ReadRequest::whole(&name), &mut [0; 99]).unwrap_err();
    assert_eq!(error.to_string(), "buf is 99 bytes; give 100 bytes or more");
}

#[test]
fn one_bad_key_does_not_fail_the_others_of_a_batch() {
    let (disk, store) = large();
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3)]).unwrap();
    let (a, b, c, d) = (key("a"), key("b"), key("c"), key("d"));
    disk.make_unreadable("1.bucket", 200..201);
    let requests = [
        ReadRequest::whole(&a),
        ReadRequest::whole(&b),
        ReadRequest::whole(&d),
        ReadRequest::whole(b"no separator"),
        ReadRequest::whole(&a).of(inc(2)),
        ReadRequest::part(&c, 90, 20),
        ReadRequest::part(&c, 90, 10),
    ];
    let answers = store.read_batch(&requests).unwrap();
    let codes: Vec<_> = answers.iter().map(|answer| answer.as_ref().map_or_else(|e| e.code(), |_| "OK")).collect();
    assert_eq!(codes, ["OK", "IO", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "BAD_RANGE", "OK"]);
    assert_eq!(code(store.read_batch(&vec![ReadRequest::whole(&a); 10_001])), "ARGUMENT");
    disk.mend();
    assert_eq!(seed_of(&store, "b"), Some(2), "what could not be read is not gone");
    assert_eq!(store.figures().suspect_buckets, 1);
}

#[test]
fn b16_every_bit_of_a_record_counts_and_damage_is_an_error() {
    let disk = SimDisk::new();
    drop(open(&disk));
    write_one(&open(&disk), "a", 1, &value(1, 30)).unwrap();
    let image = disk.image();
    let len = image.bytes("1.bucket").unwrap().len();
    assert_eq!(len, 40 + 3 + 4 + 30);
    for bit in 0..8 * len {
        let disk = SimDisk::of(&image);
        disk.flip_bit("1.bucket", bit as u64 / 8, (bit % 8) as u8).unwrap();
        let store = open(&disk);
        let error = read(&store, "a").unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Damaged, "DAMAGED"), "bit {bit}: {error}");
        assert!(error.to_string().starts_with("1.bucket: the record is "), "{error}");
        assert_eq!(code(read(&store, "a")), "NOT_FOUND", "dropped from what is served");
    }
}

#[test]
fn b16_a_listed_key_with_an_empty_or_short_file_is_an_error_and_never_empty_bytes() {
    let disk = SimDisk::new();
    write_one(&open(&disk), "a", 1, &value(1, 5000)).unwrap();
    let image = disk.image();
    let whole = image.bytes("1.bucket").unwrap();
    for kept in [0, 1, 39, 40, 47, 48, 4096, whole.len() - 1] {
        // shorter than its table says: not served at all
        let disk = SimDisk::of(&image.clone().with("1.bucket", &whole[..kept]));
        let store = open(&disk);
        assert_eq!(code(read(&store, "a")), "NOT_FOUND", "{kept}");
        let (bucket, reason) = store.quarantined().next().unwrap();
        assert_eq!(bucket.0, 1);
        assert!(reason.starts_with("1.meta: bucket table: data_len at byte "), "{reason}");
        // as long as it says, and full of nothing
        let mut zeros = whole[..kept].to_vec();
        zeros.resize(whole.len(), 0);
        let disk = SimDisk::of(&image.clone().with("1.bucket", &zeros));
        let store = open(&disk);
        assert_eq!(code(read(&store, "a")), "DAMAGED", "{kept}");
    }
}

#[test]
fn b11_bytes_of_another_record_at_the_right_offset_are_never_served() {
    let disk = SimDisk::new();
    let store = open(&disk);
    // two buckets whose records are equal in every length, and all else differs: key, incarnation, write number, value
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    write_all(&store, &[("c", 3), ("d", 4)]).unwrap();
    drop(store);
    let image = disk.image();
    let (one, two) = (image.bytes("1.bucket").unwrap(), image.bytes("2.bucket").unwrap());
    let half = one.len() / 2;
    let mixed = [&two[..half], &one[half..]].concat();
    let disk = SimDisk::of(&image.with("1.bucket", &mixed));
    let heard = Arc::new(Heard::default());
    let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
    let error = read(&store, "a").unwrap_err();
    assert_eq!(error.code(), "DAMAGED");
    assert!(error.to_string().contains("write_number"), "{error}");
    assert_eq!(code(read(&store, "a")), "NOT_FOUND");
    let damaged = heard.of("ObjectDamaged");
    assert_eq!(damaged.len(), 1);
    assert!(damaged[0].contains("BucketId(1)"), "{damaged:?}");
    let served: Vec<_> = ["b", "c", "d"].map(|name| seed_of(&store, name)).into_iter().flatten().collect();
    assert_eq!(served, [2, 3, 4], "the others are kept");
    let figures = store.figures();
    assert_eq!((figures.suspect_buckets, figures.live_objects), (1, 3));
    // what replaces it is served, and the damaged one does not come back for it
    assert_eq!(write_all(&store, &[("a", 1)]).unwrap(), [WriteOutcome::Stored]);
    assert_eq!(seed_of(&store, "a"), Some(1));
    drop(store);
    assert_eq!(seed_of(&open(&disk), "a"), Some(1));
}

#[test]
fn b12_one_incarnation_in_two_buckets_is_detected_and_one_of_them_served() {
    let disk = SimDisk::new();
    write_all(&open(&disk), &[("a", 1)]).unwrap();
    // a copy of the bucket under another id, as no protocol here makes one
    let image = disk.image();
    let mut table = bucket_store::format::table::Table::decode(
        &image.bytes("1.meta").unwrap(),
        bucket_store::format::names::BucketId(1),
        u64::MAX,
    )
    .unwrap();
    table.bucket = bucket_store::format::names::BucketId(2);
    let copied = image.bytes("1.bucket").unwrap();
    let disk = SimDisk::of(&image.with("2.bucket", &copied).with("2.meta", &table.encode().unwrap()));
    let heard = Arc::new(Heard::default());
    let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
    let twice = heard.of("ObjectTwice");
    assert_eq!(twice.len(), 1);
    assert!(twice[0].contains("kept: BucketId(2), other: BucketId(1)"), "{twice:?}");
    assert_eq!((seed_of(&store, "a"), list(&store, 10).len(), store.figures().live_objects), (Some(1), 1, 1));
    assert!(matches!(delete(&store, "a", 1), bucket_store::DeleteOutcome::Removed));
    drop(store);
    assert_eq!(code(read(&open(&disk), "a")), "NOT_FOUND", "and the other one does not come back");
}

#[test]
fn b9_b13_a_reader_keeps_a_retired_bucket_and_its_blocks_count_until_it_lets_go() {
    let disk = SimDisk::new();
    let store = Arc::new(open(&disk));
    let bytes = value(1, 50_000);
    write_one(&store, "a", 1, &bytes).unwrap();
    let before = store.figures().physical_bytes;
    let (name, reader) = (key("a"), Arc::clone(&store));
    // in the middle of the read of its value, the object is deleted and its bucket removed
    let collected = {
        let store = Arc::clone(&store);
        let seen = Arc::new(std::sync::Mutex::new(None));
        let during = Arc::clone(&seen);
        disk.when(bucket_store::vfs::sim::on(bucket_store::vfs::sim::OpKind::Read, "1.bucket"), move || {
            assert!(delete(&store, "a", 1).is_terminal());
            while !matches!(store.gc_step(), bucket_store::gc::GcStep::Idle(_)) {}
            *during.lock().unwrap() = Some(store.figures());
        });
        seen
    };
    assert!(reader.read(&ReadRequest::whole(&name)).unwrap() == bytes, "the right bytes");
    let during = collected.lock().unwrap().take().expect("GC went on");
    assert_eq!((during.buckets, during.gc_rounds_open), (0, 0));
    assert_eq!(during.physical_bytes, before, "unlinked, and not free");
    assert!(disk.image().bytes("1.bucket").is_none());
    assert_eq!(store.figures().physical_bytes, 0);
}

#[test]
fn what_is_replaced_or_deleted_while_its_damaged_bytes_are_read_is_looked_for_again() {
    for replaced in [true, false] {
        let disk = SimDisk::new();
        let store = Arc::new(open(&disk));
        write_all(&store, &[("a", 1)]).unwrap();
        disk.flip_bit("1.bucket", 60, 0).unwrap();
        let other = Arc::clone(&store);
        disk.when(bucket_store::vfs::sim::on(bucket_store::vfs::sim::OpKind::Read, "1.bucket"), move || {
            if replaced {
                write_all(&other, &[("a", 2)]).unwrap();
            } else {
                assert!(delete(&other, "a", 1).is_terminal());
            }
        });
        let found = read(&store, "a");
        if replaced {
            assert_eq!(found.unwrap(), value(2, 100), "what is asked for is not damaged");
        } else {
            assert_eq!(code(found), "NOT_FOUND");
        }
        assert_eq!(store.figures().suspect_buckets, 1);
    }
}

#[test]
fn events_say_what_happened_once() {
    let disk = SimDisk::new();
    write_all(&open(&disk), &[("a", 1), ("b", 2)]).unwrap();
    disk.flip_bit("1.bucket", 60, 0).unwrap();
    let heard = Arc::new(Heard::default());
    let store = open_with(builder().observer(heard.clone()), &disk).unwrap();
    disk.make_unreadable("1.bucket", 0..1 << 20);
    for _ in 0..3 {
        assert_eq!(code(read(&store, "b")), "IO");
    }
    assert_eq!((heard.of("ObjectDamaged").len(), heard.of("BucketSuspect").len()), (0, 1));
    disk.mend();
    for _ in 0..3 {
        let _ = read(&store, "a");
        let _ = read(&store, "b");
    }
    assert_eq!(heard.of("Opened"), ["Opened { buckets: 1, objects: 2 }"]);
    assert_eq!((heard.of("ObjectDamaged").len(), heard.of("BucketSuspect").len()), (1, 1));
}
