//! Owns the tests of buckets that could not be read and can be again: nothing that was deleted or replaced meanwhile comes back with them.

use std::sync::{Arc, Mutex};

use bucket_store::format::MAX_FILE_BYTES;
use bucket_store::format::graves::{Graves, Rank};
use bucket_store::format::names::BucketId;
use bucket_store::format::table::Tombstone;
use bucket_store::format::test_kit::{TestRecord, put, put_bucket, put_identity};
use bucket_store::gc::{EvictedObject, Evictor, GcStep};
use bucket_store::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Image, OpKind, SimDisk, on};
use bucket_store::{Config, DeleteOutcome, DeleteRequest, Store, StoreErrorKind, WriteObject};
use ha_types::{ManualClock, ObjectIncarnation};

use crate::kit::{Heard, code, config, list, marker, open, open_with};

const KEY: &[u8] = b"t\0a";

/// A record of the one key: its incarnation and write number.
fn record(incarnation: u8, write_number: u64) -> TestRecord {
    TestRecord { write_number, ..TestRecord::live(KEY, incarnation, 100) }
}

fn disk(buckets: &[(u64, &[TestRecord])]) -> SimDisk {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    put_identity(&dir).unwrap();
    for (id, records) in buckets {
        put_bucket(&dir, *id, records).unwrap();
    }
    drop(dir);
    disk
}

fn hide(disk: &SimDisk, id: u64) {
    disk.make_unreadable(&format!("{id}.meta"), 0..1 << 20);
}

fn inc(n: u8) -> ObjectIncarnation {
    ObjectIncarnation::from_bytes([n; 16])
}

fn delete(store: &Store, n: u8) -> DeleteOutcome {
    store.delete(&[DeleteRequest { key: KEY, incarnation: inc(n) }]).unwrap().remove(0)
}

fn write(store: &Store, n: u8) -> Result<(), bucket_store::StoreError> {
    store.write(&[WriteObject { key: KEY, incarnation: inc(n), value: &[n; 100], placement: None }]).map(|_| ())
}

fn live(store: &Store) -> Option<ObjectIncarnation> {
    let live = list(store, 10);
    store.audit().unwrap();
    assert!(live.len() <= 1, "{live:?}");
    live.first().map(|(_, incarnation)| *incarnation)
}

/// Opens it with a clock that GC's pauses move, and lets GC run until it has nothing to do.
fn collect(disk: &SimDisk) -> Store {
    let clock = Arc::new(ManualClock::new());
    let builder = Store::builder(marker("ssd-1", "c1"), Arc::clone(&clock) as _).config(config());
    let store = open_with(builder, disk).unwrap();
    run_gc(&store, &clock);
    store
}

fn run_gc(store: &Store, clock: &ManualClock) {
    for _ in 0..1000 {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(time) => clock.advance(time),
            GcStep::Idle(_) => return,
            step => panic!("{step:?}"),
        }
    }
    panic!("GC does not end");
}

#[test]
fn b2_a_copy_that_could_not_be_read_does_not_come_back_for_the_one_that_was_deleted() {
    // Twice in one incarnation: written again because the first did not verify, or incarnation 0 after an adoption. The one that is deleted is
    // the older.
    for n in [1, 0] {
        let disk = disk(&[(1, &[record(n, 1)]), (2, &[record(n, 2)])]);
        hide(&disk, 2);
        let store = open(&disk);
        assert!(matches!(delete(&store, n), DeleteOutcome::Removed));
        drop(store);
        disk.mend();
        let store = open(&disk);
        assert_eq!(live(&store), None, "incarnation {n}");
        drop(store);
        let store = collect(&disk);
        assert_eq!(store.figures().physical_bytes, 0, "both are gone");
        drop(store);
        assert_eq!(live(&open(&disk)), None);
    }
}

#[test]
fn that_a_copy_was_replaced_is_no_reason_to_say_that_another_one_is_removed() {
    let replaced = TestRecord { tombstone: Some(Tombstone::Replaced), ..record(1, 1) };
    let disk = disk(&[(1, &[replaced]), (2, &[record(1, 2)])]);
    hide(&disk, 2);
    let store = open(&disk);
    let DeleteOutcome::Retryable(error) = delete(&store, 1) else { panic!("bucket 2 may have it") };
    assert_eq!(error.code(), "IN_QUARANTINE");
    assert_eq!(code(write(&store, 1)), "TOMBSTONED");
    drop(store);
    disk.mend();
    let store = open(&disk);
    assert_eq!(live(&store), Some(inc(1)));
    assert!(matches!(delete(&store, 1), DeleteOutcome::Removed));
    assert!(matches!(delete(&store, 1), DeleteOutcome::AlreadyRemoved));
}

const GRAVES: &str = ".bucket_graves";

fn graves(disk: &SimDisk) -> Option<Graves> {
    disk.image().bytes(GRAVES).map(|bytes| Graves::decode(&bytes).unwrap())
}

/// So that a copy of one of two records frees a block, and is done below the high watermark.
fn eager() -> Config {
    Config { normal_dead_ratio: Some(0.1), gc_copy_share: 1.0, ..config() }
}

fn big(key: &[u8], incarnation: u8, write_number: u64) -> TestRecord {
    TestRecord { write_number, ..TestRecord::live(key, incarnation, 5000) }
}

struct Life {
    store: Store,
    clock: Arc<ManualClock>,
    heard: Arc<Heard>,
}

impl Life {
    fn open(disk: &SimDisk, config: Config) -> Self {
        let (clock, heard) = (Arc::new(ManualClock::new()), Arc::new(Heard::default()));
        let builder = Store::builder(marker("ssd-1", "c1"), Arc::clone(&clock) as _).config(config);
        let store = open_with(builder.observer(Arc::clone(&heard) as _).evictor(Arc::new(Agrees)), disk).unwrap();
        Self { store, clock, heard }
    }

    fn gc(&self) {
        run_gc(&self.store, &self.clock);
    }

    fn quarantined(&self) -> Vec<u64> {
        self.store.quarantined().map(|(id, _)| id.0).collect()
    }
}

#[derive(Debug)]
struct Agrees;

impl Evictor for Agrees {
    fn evict(&self, _: BucketId, _: &[EvictedObject]) -> Result<(), String> {
        Ok(())
    }
}

/// Every image that a crash may leave from now on, when it is over.
fn images(disk: &SimDisk, does: impl FnOnce()) -> Vec<Image> {
    let points = Arc::new(Mutex::new(vec![disk.crash_point()]));
    let seen = Arc::clone(&points);
    disk.watch(move |_, point| seen.lock().unwrap().push(point));
    does();
    disk.unwatch();
    let points = std::mem::take(&mut *points.lock().unwrap());
    points.iter().flat_map(|point| point.images(CrashStates::default())).collect()
}

/// The bucket that could not be read can be again: nothing is back, wherever the power went, and GC leaves nothing of it.
fn stays_gone(disk: &SimDisk, images: &[Image], left_bytes: u64) {
    for image in images {
        assert_eq!(live(&open(&SimDisk::of(image))), None);
    }
    disk.mend();
    assert_eq!(live(&open(disk)), None);
    let mut store = None;
    for image in self::images(disk, || store = Some(collect(disk))) {
        assert_eq!(live(&open(&SimDisk::of(&image))), None, "on the way to its tombstone");
    }
    let store = store.unwrap();
    assert_eq!((graves(disk), store.figures().physical_bytes), (None, left_bytes), "all is done with");
    drop(store);
    assert_eq!(live(&open(disk)), None);
}

#[test]
fn b2_a_deleted_object_whose_bucket_gc_has_removed_does_not_come_back() {
    // In the bucket that cannot be read: a version that was replaced; a newer copy of the same incarnation.
    let cases = [((1, 1), (2, 2), 2), ((1, 2), (1, 1), 1), ((0, 1), (0, 0), 0)];
    for (away, here, deleted) in cases {
        let disk = disk(&[(1, &[record(here.0, here.1)]), (2, &[record(away.0, away.1)])]);
        hide(&disk, 2);
        let life = Life::open(&disk, config());
        assert_eq!(graves(&disk).unwrap().away, [BucketId(2)].into());
        assert!(matches!(delete(&life.store, deleted), DeleteOutcome::Removed));
        let images = images(&disk, || life.gc());
        assert_eq!(disk.image().bytes("1.meta"), None, "GC has removed it");
        assert_eq!(graves(&disk).unwrap().keys.len(), 1);
        if deleted > 0 {
            assert_eq!(code(write(&life.store, deleted)), "TOMBSTONED");
        }
        assert!(matches!(delete(&life.store, deleted), DeleteOutcome::AlreadyRemoved));
        drop(life);
        // A life more in which it cannot be read: what is known is kept.
        let life = Life::open(&disk, config());
        assert!(matches!(delete(&life.store, deleted), DeleteOutcome::AlreadyRemoved));
        life.gc();
        drop(life);
        stays_gone(&disk, &images, 0);
    }
}

#[test]
fn b2_nor_one_that_a_merge_left_behind() {
    let records = [big(KEY, 2, 2), big(b"t\0b", 9, 3)];
    let disk = disk(&[(1, &[record(1, 1)]), (2, &records)]);
    hide(&disk, 1);
    let life = Life::open(&disk, eager());
    assert!(matches!(delete(&life.store, 2), DeleteOutcome::Removed));
    let images = images(&disk, || life.gc());
    assert_eq!(life.heard.of("GcCommitted { sources: [BucketId(2)], target: Some(").len(), 1);
    assert_eq!(list(&life.store, 10).len(), 1, "the other one is there");
    drop(life);
    for image in &images {
        let store = open(&SimDisk::of(image));
        assert_eq!(list(&store, 10), [(b"t\0b".to_vec(), inc(9))]);
    }
    disk.mend();
    drop(collect(&disk));
    assert_eq!(graves(&disk), None);
    assert_eq!(list(&open(&disk), 10), [(b"t\0b".to_vec(), inc(9))]);
}

#[test]
fn b2_nor_what_was_replaced_by_one_that_was_evicted() {
    let disk = disk(&[(1, &[big(KEY, 1, 1)]), (2, &[big(KEY, 2, 2)])]);
    hide(&disk, 1);
    let full = Config {
        capacity_bytes: 12 << 10,
        bucket_size_bytes: 8 << 10,
        high_watermark: 0.5,
        low_watermark: 0.4,
        ..config()
    };
    let life = Life::open(&disk, full);
    assert_eq!(live(&life.store), Some(inc(2)));
    let images = images(&disk, || {
        for _ in 0..20 {
            life.store.gc_step();
        }
    });
    assert_eq!(life.heard.of("Evicted").len(), 1);
    drop(life);
    for image in &images {
        assert_ne!(live(&open(&SimDisk::of(image))), Some(inc(1)));
    }
    disk.mend();
    assert_eq!(live(&open(&disk)), None);
    drop(collect(&disk));
    assert_eq!((graves(&disk), live(&open(&disk))), (None, None));
}

#[test]
fn a_delete_that_comes_while_its_bucket_leaves_is_told_to_come_again() {
    let disk = disk(&[(1, &[big(KEY, 1, 1)]), (2, &[big(KEY, 2, 2), big(b"t\0b", 9, 3)]), (3, &[big(KEY, 3, 4)])]);
    hide(&disk, 1);
    let life = Life::open(&disk, eager());
    let store = Arc::new(life.store);
    let (asked, answers) = (Arc::downgrade(&store), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&answers);
    // The replaced version is not copied, and its table is not written any more: a delete of it would leave no trace.
    disk.when(
        |op| op.kind == OpKind::Rename && &*op.to == GRAVES,
        move || {
            if let Some(store) = asked.upgrade() {
                told.lock().unwrap().push(delete(&store, 2));
            }
        },
    );
    run_gc(&store, &life.clock);
    let answers = std::mem::take(&mut *answers.lock().unwrap());
    let [DeleteOutcome::Retryable(error)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.code(), "BUSY");
    assert_eq!(life.heard.of("GcCommitted").len(), 1);
    assert_eq!(list(&store, 10), [(KEY.to_vec(), inc(3)), (b"t\0b".to_vec(), inc(9))]);
}

#[test]
fn b2_what_one_bucket_knows_of_another_counts_also_if_they_cannot_be_read_by_turns() {
    let disk = disk(&[(1, &[record(1, 1)]), (2, &[record(2, 2)])]);
    hide(&disk, 1);
    let store = open(&disk);
    assert!(matches!(delete(&store, 2), DeleteOutcome::Removed));
    drop(store);
    // The first can be read again, and the second one not, which has the only tombstone.
    disk.mend();
    hide(&disk, 2);
    let life = Life::open(&disk, config());
    assert_eq!((live(&life.store), life.quarantined()), (None, vec![1, 2]));
    let reasons: Vec<_> = life.store.quarantined().map(|(_, reason)| reason.to_owned()).collect();
    assert!(reasons[0].contains("others cannot be read now"), "{reasons:?}");
    assert!(matches!(delete(&life.store, 1), DeleteOutcome::Retryable(_)));
    assert_eq!(graves(&disk).unwrap().away, [BucketId(1), BucketId(2)].into());
    drop(life);
    stays_gone(&disk, &[], 0);
}

#[test]
fn a_bucket_that_can_be_read_again_is_served_and_the_file_goes_with_the_open() {
    let disk = disk(&[(1, &[record(1, 1)])]);
    hide(&disk, 1);
    drop(open(&disk));
    assert_eq!(graves(&disk), Some(Graves { away: [BucketId(1)].into(), ..Graves::default() }));
    disk.mend();
    let image = disk.image();
    for image in images(&disk, || assert_eq!(live(&open(&disk)), Some(inc(1)))) {
        assert_eq!(live(&open(&SimDisk::of(&image))), Some(inc(1)));
    }
    assert_eq!(graves(&disk), None);
    // A removal that fails is tried again.
    let disk = SimDisk::of(&image);
    disk.inject(1, Fault::Errno(EIO), on(OpKind::Unlink, GRAVES));
    let refused = open_with(crate::kit::builder(), &disk);
    assert_eq!(code(refused), "IO");
    assert_eq!(live(&open(&disk)), Some(inc(1)));
    assert_eq!(graves(&disk), None);
}

#[test]
fn b15_graves_that_cannot_be_read_refuse_the_open_and_nothing_is_touched() {
    let disk = disk(&[(1, &[record(1, 1)])]);
    hide(&disk, 1);
    drop(open(&disk));
    let image = disk.image();
    let bytes = image.bytes(GRAVES).unwrap();
    let mut newer = bytes.clone();
    newer[4] = 2;
    for (bytes, expected) in [(&bytes[..9], "GRAVES_DAMAGED"), (b"", "GRAVES_DAMAGED"), (&newer, "UNKNOWN_VERSION")] {
        let image = image.clone().with(GRAVES, bytes);
        let disk = SimDisk::of(&image);
        let error = open_with(crate::kit::builder(), &disk).unwrap_err();
        assert_eq!((error.code(), error.kind()), (expected, StoreErrorKind::Refused), "{error}");
        assert_eq!(disk.image(), image);
    }
    let disk = SimDisk::of(&image);
    disk.make_unreadable(GRAVES, 0..1 << 20);
    assert_eq!(code(open_with(crate::kit::builder(), &disk)), "IO");
    assert_eq!(disk.image(), image);
}

#[test]
fn what_is_written_is_above_what_is_in_a_grave_also_without_a_high_water_mark() {
    let disk = disk(&[(1, &[record(1, 1)]), (7, &[record(2, 900)])]);
    hide(&disk, 1);
    let life = Life::open(&disk, config());
    assert!(matches!(delete(&life.store, 2), DeleteOutcome::Removed));
    life.gc();
    drop(life);
    let image = disk.image().without(".bucket_id_high_water");
    let disk = SimDisk::of(&image);
    write(&open(&disk), 3).unwrap();
    let store = open(&disk);
    assert_eq!(live(&store), Some(inc(3)));
    assert!(store.find(KEY).unwrap().bucket.0 > 7);
}

#[test]
fn b2_nothing_leaves_before_it_is_noted() {
    for errno in [EIO, ENOSPC] {
        let disk = disk(&[(1, &[record(1, 1)]), (2, &[record(2, 2)])]);
        hide(&disk, 1);
        let life = Life::open(&disk, config());
        assert!(matches!(delete(&life.store, 2), DeleteOutcome::Removed));
        let before = graves(&disk);
        disk.inject(2, Fault::Errno(errno), |op| op.kind == OpKind::Write && op.name.contains("bucket_graves"));
        assert!(matches!(life.store.gc_step(), GcStep::Again));
        assert_eq!(life.heard.of("GcSetAside").len(), 1);
        assert!(life.heard.of("GcCommitted").is_empty() && disk.image().bytes("2.bucket").is_some());
        assert_eq!(graves(&disk), before);
        // It is no longer on its way out.
        assert!(matches!(delete(&life.store, 2), DeleteOutcome::AlreadyRemoved));
        life.gc();
        assert_eq!(life.heard.of("GcCommitted").len(), 1);
        drop(life);
        stays_gone(&disk, &[], 0);
    }
}

#[test]
fn b14_a_file_that_is_full_stops_what_would_need_more_of_it_and_says_what_to_do() {
    let disk = disk(&[(1, &[record(1, 1)]), (2, &[record(2, 2)])]);
    hide(&disk, 1);
    drop(open(&disk));
    let mut full = graves(&disk).unwrap();
    let rank = Rank { write_number: 1, bucket: BucketId(1) };
    for number in 0_u32.. {
        // What is left must not be enough for a key of three bytes with an incarnation.
        let left = MAX_FILE_BYTES - full.encoded_len();
        if left < 24 + 3 + 16 {
            break;
        }
        let rest = vec![b'x'; (left.min(4096) - 24 - 6) as usize];
        full.add(&[b"t\0", &number.to_be_bytes()[..], &rest].concat().into(), rank, None);
    }
    put(&disk.mount().unwrap(), GRAVES, &full.encode().unwrap()).unwrap();
    let life = Life::open(&disk, config());
    assert!(matches!(delete(&life.store, 2), DeleteOutcome::Removed));
    for _ in 0..10 {
        life.store.gc_step();
    }
    let aside = life.heard.of("GcSetAside");
    assert!(!aside.is_empty() && aside[0].contains("buckets in quarantine"), "{aside:?}");
    assert!(disk.image().bytes("2.bucket").is_some());
    assert_eq!(graves(&disk), Some(full));
}
