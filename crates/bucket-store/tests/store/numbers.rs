//! Owns the tests of bucket ids and write numbers near their end: what is refused where, and that running out changes nothing.

use bucket_store::format::high_water::HighWater;
use bucket_store::format::names::BucketId;
use bucket_store::format::record::MAX_WRITE_NUMBER;
use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::{Image, SimDisk};
use bucket_store::{Adoption, Config, Durability, Store, StoreErrorKind, WriteOutcome};

use crate::kit::{builder, code, config, delete, inc, key, open, open_with, read, seed_of, value, write_all};

const HIGH_WATER: &str = ".bucket_id_high_water";

fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let crc = crc32c::crc32c(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A directory with one object, `a` of incarnation 1, that says that all numbers below these were used.
fn used_up_to(next_bucket: u64, next_write_number: u64) -> Image {
    let disk = SimDisk::new();
    write_all(&open(&disk), &[("a", 1)]).unwrap();
    let bytes = HighWater { next_bucket, next_write_number }.encode().unwrap();
    disk.image().with(HIGH_WATER, &bytes)
}

#[test]
fn numbers_that_nobody_gives_out_are_refused_where_they_stand_and_change_nothing() {
    let image = used_up_to(65, 65_537);
    for number in [1_u64 << 63, u64::MAX] {
        // a table whose checksum is right: its bucket is not served, and the others are
        let mut bytes = image.bytes("1.meta").unwrap();
        bytes[44..52].copy_from_slice(&number.to_le_bytes());
        let disk = SimDisk::of(&image.clone().with("1.meta", &with_crc(bytes)));
        let store = open(&disk);
        let reasons: Vec<_> = store.quarantined().map(|(id, reason)| (id.0, reason.to_owned())).collect();
        let reason = format!(
            "1.meta: bucket table: slots[0].write_number at byte 44: expected at most {MAX_WRITE_NUMBER}, found {number}"
        );
        assert_eq!(reasons.len(), 1);
        assert!(reasons[0].0 == 1 && reasons[0].1.starts_with(&reason), "{reasons:?}");
        write_all(&store, &[("b", 2)]).unwrap();
        assert_eq!(seed_of(&store, "b"), Some(2));
    }
    for (at, field) in [(6, "next bucket id"), (14, "next write number")] {
        let mut bytes = image.bytes(HIGH_WATER).unwrap();
        bytes[at..at + 8].copy_from_slice(&((1_u64 << 63) + 1).to_le_bytes());
        let image = image.clone().with(HIGH_WATER, &with_crc(bytes));
        let disk = SimDisk::of(&image);
        let error = open_with(builder(), &disk).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Refused, "HIGH_WATER_DAMAGED"));
        assert!(error.to_string().contains(&format!("{field} at byte {at}")), "{error}");
        assert!(error.to_string().contains("9223372036854775809"), "{error}");
        assert_eq!(disk.image(), image);
    }
}

/// Refused as that, for good, with the directory as it was and everything but writes going on.
fn is_exhausted(disk: &SimDisk, store: &Store, objects: &[(&str, u64)], what: &str) {
    let (image, figures) = (disk.image(), store.figures());
    for _ in 0..2 {
        let error = write_all(store, objects).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Refused, "NUMBERS_EXHAUSTED"));
        assert!(!error.is_retryable() && error.to_string().contains(what), "{error}");
    }
    assert_eq!(disk.image(), image);
    assert_eq!(store.figures(), figures);
    assert_eq!(store.read_only(), None);
}

#[test]
fn what_runs_out_of_numbers_is_refused_for_good_and_changes_nothing() {
    let most = BucketId::MAX.0;
    // Two bucket ids are left.
    let disk = SimDisk::of(&used_up_to(most - 1, 65_537));
    let store = open(&disk);
    let three_buckets: Vec<_> = ["b", "c", "d", "e", "f", "g", "h", "i", "j"].into_iter().zip(2..).collect();
    is_exhausted(&disk, &store, &three_buckets, "3 bucket ids are needed and 2 are left");
    assert_eq!(write_all(&store, &three_buckets[..5]).unwrap(), [WriteOutcome::Stored; 5]);
    assert_eq!(store.find(&key("f")).unwrap().bucket, BucketId::MAX);
    is_exhausted(&disk, &store, &three_buckets[5..], "1 bucket ids are needed and 0 are left");
    drop(store);
    // A new life finds the same, and what needs no number goes on.
    let store = open(&disk);
    is_exhausted(&disk, &store, &three_buckets[5..], "0 are left");
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "f")), (Some(1), Some(6)));
    assert!(delete(&store, "f", 6).is_terminal() && delete(&store, "a", 1).is_terminal());
    while store.gc_step() == GcStep::Again {}
    assert_eq!(store.figures().buckets, 1, "what is dead goes without a number");
    drop(store);
    assert_eq!(seed_of(&open(&disk), "f"), None);

    // Three write numbers are left.
    let disk = SimDisk::of(&used_up_to(65, MAX_WRITE_NUMBER - 2));
    let store = open(&disk);
    is_exhausted(&disk, &store, &three_buckets[..4], "4 write numbers are needed and 3 are left");
    write_all(&store, &three_buckets[..3]).unwrap();
    is_exhausted(&disk, &store, &[("z", 99)], "1 write numbers are needed and 0 are left");
    drop(store);
    let store = open(&disk);
    assert_eq!((seed_of(&store, "b"), seed_of(&store, "d")), (Some(2), Some(4)), "the highest is a number like others");
    is_exhausted(&disk, &store, &[("z", 99)], "0 are left");
}

#[test]
fn a_merge_that_finds_no_bucket_id_is_undone_and_tried_again_after_a_pause() {
    let copies = || builder().config(Config { normal_dead_ratio: Some(0.1), ..config() });
    let half = value(2, 5000);
    // one bucket of two objects, of which one is dead
    let disk = SimDisk::new();
    let store = open_with(copies(), &disk).unwrap();
    let objects = [(key("b"), 2), (key("c"), 3)];
    let objects: Vec<_> = objects
        .iter()
        .map(|(key, n)| bucket_store::WriteObject { key, incarnation: inc(*n), value: &half, placement: None })
        .collect();
    store.write(&objects).unwrap();
    drop(store);
    let all_used = HighWater { next_bucket: BucketId::MAX.0 + 1, next_write_number: 65_537 }.encode().unwrap();
    let disk = SimDisk::of(&disk.image().with(HIGH_WATER, &all_used));
    let store = open_with(copies(), &disk).unwrap();
    assert!(delete(&store, "b", 2).is_terminal());
    let steps: Vec<_> = (0..10).map(|_| store.gc_step()).collect();
    assert!(matches!(steps[9], GcStep::Wait(_)), "{steps:?}");
    assert_eq!(read(&store, "c").unwrap(), half);
    assert_eq!(code(read(&store, "b")), "NOT_FOUND");
    assert!(disk.image().bytes(".bucket_gc_intent").is_none());
}

#[test]
fn ids_of_mooncakes_kind_are_taken_over_and_new_ones_are_above_them() {
    // milliseconds with twelve bits of a sequence behind them, nanoseconds, and the highest of all but one
    for id in [(1_764_547_200_123 << 12) | 7, 1_764_547_200_123_456_789, BucketId::MAX.0 - 1] {
        let table = b"\x08\x6d\x12\x09default\0a\x1a\x04\x10\x09\x18\x64";
        let data = [&b"default\0a"[..], &[b'x'; 100]].concat();
        let image = Image::default().with(&format!("{id}.meta"), table).with(&format!("{id}.bucket"), &data);
        let disk = SimDisk::of(&image);
        let store = open_with(builder().adoption(Adoption::OneWay), &disk).unwrap();
        assert_eq!(store.find(b"default\0a").unwrap().bucket, BucketId(id));
        write_all(&store, &[("new", 1)]).unwrap();
        assert_eq!(store.find(&key("new")).unwrap().bucket, BucketId(id + 1));
        drop(store);
        assert_eq!(seed_of(&open(&disk), "new"), Some(1));
    }
}

#[test]
fn relaxed_writes_run_out_the_same_way() {
    let disk = SimDisk::of(&used_up_to(BucketId::MAX.0, MAX_WRITE_NUMBER));
    let relaxed = Config { durability: Durability::Relaxed, ..config() };
    let store = open_with(builder().config(relaxed), &disk).unwrap();
    write_all(&store, &[("b", 2)]).unwrap();
    is_exhausted(&disk, &store, &[("c", 3)], "0 are left");
    assert_eq!(store.publish_pending().unwrap(), 1);
    drop(store);
    assert_eq!(seed_of(&open(&disk), "b"), Some(2));
}
