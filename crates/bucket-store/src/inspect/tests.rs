//! Tests of what is seen in a directory, what is found wrong with it, and what is foretold and repaired, on the simulated disk.

use std::sync::Arc;

use ha_types::{ManualClock, ObjectIncarnation};

use super::*;
use crate::config::Config;
use crate::format::high_water::HighWater;
use crate::format::intent::Round;
use crate::format::names::{BucketId, GC_INTENT, ID_HIGH_WATER, MARKER};
use crate::format::test_kit::{TestRecord, bucket, put, put_bucket, put_identity, put_intents, put_mooncake_bucket};
use crate::gc::plan::{Plan, Verdict};
use crate::recovery::Action;
use crate::vfs::Vfs;
use crate::vfs::sim::{EIO, Fault as SimFault, Image, OpKind, SimDir, SimDisk, on};

mod agrees;
mod every_fault;
mod faults;
mod forecast;
mod hostile;

struct Place {
    disk: SimDisk,
    dir: Arc<SimDir>,
}

impl Place {
    /// A marked directory without buckets.
    fn new() -> Self {
        let place = Self::unmarked();
        put_identity(&*place.dir).unwrap();
        place
    }

    fn unmarked() -> Self {
        let disk = SimDisk::new();
        let dir = Arc::new(disk.mount().unwrap());
        Self { disk, dir }
    }

    /// Two buckets: `a` superseded in 1 and live in 2, `b` dead in 1, `c` live in 2.
    fn usual() -> Self {
        let place = Self::new();
        place.put(1, &[TestRecord::live(b"t\0a", 1, 100), TestRecord::dead(b"t\0b", 2, 200)]);
        place.put(2, &[TestRecord::live(b"t\0a", 3, 300), TestRecord::live(b"t\0c", 4, 70_000)]);
        place
    }

    fn put(&self, id: u64, records: &[TestRecord]) {
        put_bucket(&*self.dir, id, records).unwrap();
    }

    fn intents(&self, rounds: &[Round]) {
        put_intents(&*self.dir, rounds).unwrap();
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.dir.open(name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        let read = file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(read, bytes.len());
        bytes
    }

    /// Rewrites a file.
    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.bytes(name);
        change(&mut bytes);
        put(&*self.dir, name, &bytes).unwrap();
    }

    fn image(&self) -> Image {
        self.disk.image()
    }

    fn look(&self) -> Look {
        look(&*self.dir).unwrap()
    }

    fn fsck(&self) -> FsckReport {
        fsck(&*self.dir, &self.look(), &FsckOptions::default(), &mut |_| {})
    }

    /// `kind file field` of every fault.
    fn faults(&self) -> Vec<String> {
        let before = self.image();
        let report = self.fsck();
        assert_eq!(self.image(), before, "looking changes nothing");
        report.faults.listed().iter().map(|f| format!("{} {} {}", f.kind.name(), f.file, f.field)).collect()
    }
}

fn ids(ids: &[u64]) -> Vec<BucketId> {
    ids.iter().copied().map(BucketId).collect()
}

#[test]
fn what_is_served_and_what_is_dead_is_what_the_stores_index_says() {
    let place = Place::usual();
    let contents = place.look().contents();
    let states: Vec<_> =
        contents.buckets.iter().flat_map(|b| &b.records).map(|r| (r.bucket.0, &*r.key, r.state)).collect();
    let expected: [(u64, &[u8], RecordState); 4] = [
        (1, b"t\0a", RecordState::Superseded),
        (1, b"t\0b", RecordState::Tombstoned),
        (2, b"t\0a", RecordState::Live),
        (2, b"t\0c", RecordState::Live),
    ];
    assert_eq!(states, expected);
    assert_eq!(contents.live().records, 2);
    assert_eq!(contents.live().bytes, 43 + 4 + 300 + 43 + 8 + 70_000);
    assert_eq!(contents.buckets[0].dead_bytes(), contents.buckets[0].data_len);
    assert_eq!(contents.buckets[1].dead_bytes(), 0);
    assert!(contents.twice.is_empty());
}

#[test]
fn a_sound_directory_is_read_to_the_last_record_and_found_sound() {
    let place = Place::usual();
    let seen = place.look();
    let mut told = Vec::new();
    let report = fsck(&*place.dir, &seen, &FsckOptions::default(), &mut |progress| told.push(progress));
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!((report.buckets, report.records, report.verified_records), (2, 4, 4));
    let all: u64 = seen.contents().buckets.iter().map(|b| b.data_len).sum();
    assert_eq!(report.read_bytes, all);
    assert_eq!(told.len(), 4);
    assert_eq!(told[3], FsckProgress { bytes: all, expected_bytes: all, faults: 0 });
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn a_directory_of_mooncakes_is_shown_with_the_highest_bucket_winning() {
    let place = Place::unmarked();
    put_mooncake_bucket(&*place.dir, 3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]).unwrap();
    put_mooncake_bucket(&*place.dir, 7, &[(b"t\0a", b"newer")]).unwrap();
    put(&*place.dir, MARKER, b"ssd-9\n").unwrap();
    let seen = place.look();
    assert!(matches!(&seen.marker, MarkerLook::Mooncakes(segment) if segment.as_str() == "ssd-9"));
    let contents = seen.contents();
    let live: Vec<_> =
        contents.buckets.iter().flat_map(|b| &b.records).filter(|r| r.state == RecordState::Live).collect();
    assert_eq!(live.iter().map(|r| (r.bucket.0, &*r.key)).collect::<Vec<_>>(), [(3, &b"t\0b"[..]), (7, b"t\0a")]);
    assert!(live.iter().all(|r| r.incarnation == ObjectIncarnation::LEGACY));
    let report = place.fsck();
    assert!(report.is_sound(), "{:?}", report.faults);
    assert_eq!((report.verified_records, report.unverifiable_records), (0, 3));
    assert!(report.notes[0].contains("adopt"), "{:?}", report.notes);
}
