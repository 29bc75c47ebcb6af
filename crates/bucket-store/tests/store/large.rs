//! Owns the tests of lengths and offsets past 32 bits. Nothing here takes as much memory or disk: what is large is zeros that nobody touches.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bucket_store::format::high_water::HighWater;
use bucket_store::format::names::BucketId;
use bucket_store::format::record::RecordHeader;
use bucket_store::format::table::{RecordLayout, Slot, Table};
use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::SimDisk;
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Config, ReadRequest, Store, StoreErrorKind, WriteObject};
use ha_types::ObjectIncarnation;

use crate::kit::{builder, code, config, delete, inc, key, marker, open_with, read, value, write_all};

const GIB: u64 = 1 << 30;

/// Bytes of memory that this process occupies.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_value_past_32_bits_is_refused_by_its_length_and_not_looked_at() {
    let disk = SimDisk::new();
    let largest = Config { bucket_size_bytes: Config::MOST_BUCKET_BYTES, capacity_bytes: 1 << 40, ..config() };
    let store = open_with(builder().config(largest), &disk).unwrap();
    write_all(&store, &[("before", 1)]).unwrap();
    let (image, before) = (disk.image(), resident_bytes());
    // The system gives zeros without a page for them until somebody looks.
    let zeros = vec![0; (4 * GIB + 100) as usize];
    let (name, other) = (key("a"), key("b"));
    let too_long = |len: &u32| RecordHeader::record_len(name.len(), *len) > Config::MOST_BUCKET_BYTES;
    let shortest = (u32::MAX - (1 << 19)..).find(too_long).unwrap();
    for len in [shortest.into(), u64::from(u32::MAX), 4 * GIB, 4 * GIB + 1, 4 * GIB + 100] {
        let large = WriteObject { key: &name, incarnation: inc(2), value: &zeros[..len as usize], placement: None };
        let small = WriteObject { key: &other, incarnation: inc(3), value: b"x", placement: None };
        let error = store.write(&[small, large]).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "BAD_VALUE_LENGTH"));
        let text = format!("the value of key \"t\\x00a\" has {len} bytes; give 1 or more");
        assert!(error.to_string().starts_with(&text), "{error}");
        assert_eq!(disk.image(), image);
    }
    assert!(resident_bytes().saturating_sub(before) < GIB, "the value was looked at");
}

#[test]
fn a_range_past_32_bits_is_not_taken_for_the_small_one_that_its_low_bits_are() {
    let disk = SimDisk::new();
    let store = open_with(builder(), &disk).unwrap();
    write_all(&store, &[("a", 1)]).unwrap();
    let name = key("a");
    for (offset, len) in
        [(4 * GIB, 1), (4 * GIB + 1, 1), (0, 4 * GIB), (0, 4 * GIB + 50), (50, 4 * GIB), (1 << 63, 1 << 63)]
    {
        assert_eq!(code(store.read(&ReadRequest::part(&name, offset, len))), "BAD_RANGE", "{offset}+{len}");
        assert_eq!(code(store.read_into(&ReadRequest::part(&name, offset, len), &mut [0; 100])), "BAD_RANGE");
    }
}

/// A directory of the disk with one bucket, its records where the slots say.
fn directory(path: &Path, table: &Table, pieces: &[(u64, &[u8])]) {
    let put = |name: &str, bytes: &[u8]| fs::write(path.join(name), bytes).unwrap();
    put(".mooncake_local_disk_segment_id", &marker("ssd-1", "c1").encode());
    let high_water = HighWater { next_bucket: 65, next_write_number: 65_537 };
    put(".bucket_id_high_water", &high_water.encode().unwrap());
    put(&table.bucket.table_name(), &table.encode().unwrap());
    let data = File::create(path.join(table.bucket.data_name())).unwrap();
    data.set_len(table.data_len).unwrap();
    pieces.iter().for_each(|(at, bytes)| data.write_all_at(bytes, *at).unwrap());
}

fn open(path: &Path) -> Store {
    let config = Config { normal_dead_ratio: Some(0.1), gc_copy_share: 1.0, ..config() };
    builder().config(config).open(Arc::new(DiskDir::open(path, Access::Store).unwrap())).unwrap()
}

#[test]
fn records_that_begin_past_32_bits_are_read_moved_and_deleted() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let record = |name: &str, n: u64, offset| {
        let (key, value, incarnation) = (key(name), value(n, 20_000), inc(n));
        let mut bytes = Vec::new();
        let value_len = value.len() as u32;
        RecordHeader { key: &key, incarnation, write_number: n, value_len }.encode_into(&value, &mut bytes);
        bytes.extend_from_slice(&value);
        (Slot { key: key.into(), incarnation, write_number: n, offset, value_len, tombstone: None }, bytes)
    };
    // The second lies across the bound.
    let places = [0, 4 * GIB - 10_000, 5 * GIB + 1];
    let records: Vec<_> =
        ["a", "b", "c"].into_iter().zip(1..).zip(places).map(|((name, n), at)| record(name, n, at)).collect();
    let table = Table {
        bucket: BucketId(1),
        layout: RecordLayout::Checksummed,
        age: 1,
        data_len: 6 * GIB,
        slots: records.iter().map(|(slot, _)| slot.clone()).collect(),
    };
    let pieces: Vec<_> = records.iter().map(|(slot, bytes)| (slot.offset, &bytes[..])).collect();
    directory(folder.path(), &table, &pieces);
    let store = open(folder.path());
    let check = |store: &Store, names: &[(&str, u64)]| {
        for (name, n) in names {
            assert!(read(store, name).unwrap() == value(*n, 20_000), "{name}");
            let part = store.read(&ReadRequest::part(&key(name), 19_990, 10)).unwrap();
            assert_eq!(part, value(*n, 20_000)[19_990..], "{name}");
        }
    };
    check(&store, &[("a", 1), ("b", 2), ("c", 3)]);
    assert!(delete(&store, "a", 1).is_terminal());
    while store.gc_step() == GcStep::Again {}
    assert_ne!(store.find(&key("c")).unwrap().bucket, BucketId(1), "GC has moved them");
    check(&store, &[("b", 2), ("c", 3)]);
    assert!(delete(&store, "c", 3).is_terminal());
    drop(store);
    let store = open(folder.path());
    check(&store, &[("b", 2)]);
    assert_eq!((code(read(&store, "a")), code(read(&store, "c"))), ("NOT_FOUND", "NOT_FOUND"));
    assert_eq!(store.quarantined().len(), 0);
}

#[test]
fn a_value_of_mooncakes_of_all_32_bits_is_read_in_parts_and_so_is_what_comes_behind_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let slot = |name: &str, offset, value_len| {
        let incarnation = ObjectIncarnation::LEGACY;
        Slot { key: key(name).into(), incarnation, write_number: 0, offset, value_len, tombstone: None }
    };
    let (first, second) = (slot("a", 0, u32::MAX), slot("b", 3 + u64::from(u32::MAX), 5));
    let table = Table {
        bucket: BucketId(1),
        layout: RecordLayout::MooncakeRaw,
        age: 1,
        data_len: second.offset + 3 + 5,
        slots: vec![first, second.clone()],
    };
    let end = 3 + u64::from(u32::MAX);
    directory(folder.path(), &table, &[(0, b"t\0a"), (end - 4, b"last"), (second.offset, b"t\0bvalue")]);
    let store = open(folder.path());
    let most = u64::from(u32::MAX);
    assert_eq!(store.read(&ReadRequest::part(&key("a"), most - 6, 6)).unwrap(), b"\0\0last");
    assert_eq!(store.read(&ReadRequest::part(&key("a"), 1 << 31, 3)).unwrap(), [0; 3]);
    assert_eq!(code(store.read(&ReadRequest::part(&key("a"), most - 6, 7))), "BAD_RANGE");
    assert_eq!(read(&store, "b").unwrap(), b"value");
    // More than a bucket may hold by now: GC leaves it alone.
    assert!(
        store
            .delete(&[bucket_store::DeleteRequest { key: &key("b"), incarnation: ObjectIncarnation::LEGACY }])
            .unwrap()[0]
            .is_terminal()
    );
    while store.gc_step() == GcStep::Again {}
    assert_eq!(store.find(&key("a")).unwrap().bucket, BucketId(1));
}
