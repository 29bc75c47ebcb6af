//! GC beside buckets that could not be read at open, and files that could not be taken away: their blocks count, and do not come back. V4.

use std::sync::Arc;

use super::fixture::*;
use crate::config::Config;
use crate::error::StoreErrorKind;
use crate::format::names::BucketId;
use crate::gc::plan::{Idle, Plan};
use crate::gc::{Evictor, GcStep};
use crate::inspect::{explain, look};
use crate::observer::Event;
use crate::vfs::sim::{EIO, Fault, OpKind, SimDisk, on};

/// Blocks of a bucket with 60,000 and 40,000 bytes.
const BLOCKS: u64 = 25 * 4096;

fn config_for(capacity_bytes: u64) -> Config {
    Config {
        capacity_bytes,
        bucket_size_bytes: 200_000,
        high_watermark: 0.8,
        low_watermark: 0.5,
        normal_dead_ratio: None,
        ..config()
    }
}

/// Ten live buckets of [`BLOCKS`], of which the first `unreadable` ones have tables that cannot be read at the next open.
fn disk(unreadable: u64) -> (SimDisk, Vec<u64>) {
    let it = Fixture::with(config_for(1 << 30), None);
    for b in 0..10 {
        it.put(&[(b * 10, 1, 60_000), (b * 10 + 1, 1, 40_000)]);
    }
    let buckets = it.buckets();
    assert_eq!(it.physical_bytes(), 10 * BLOCKS);
    for id in buckets.iter().take(unreadable as usize) {
        it.disk.make_unreadable(&BucketId(*id).table_name(), 0..1 << 30);
    }
    let Fixture { disk, store, .. } = it;
    drop(store);
    (disk, buckets)
}

fn open(disk: SimDisk, capacity_bytes: u64, answers: Option<&Arc<Answers>>) -> Fixture {
    let evictor = answers.map(|answers| Arc::clone(answers) as Arc<dyn Evictor>);
    Fixture::on(disk, config_for(capacity_bytes), evictor).unwrap()
}

fn asked(answers: &Answers) -> Vec<u64> {
    answers.asked.lock().iter().map(|(id, _)| *id).collect()
}

fn quarantined(it: &Fixture, buckets: &[u64]) {
    let apart: Vec<_> = it.store.quarantined().map(|(id, _)| id.0).collect();
    assert_eq!(apart, buckets);
    let figures = it.store.figures();
    assert_eq!(figures.out_of_reach_bytes, buckets.len() as u64 * BLOCKS);
    assert_eq!(figures.physical_bytes, it.blocks_of_data());
}

#[test]
fn v4_with_half_of_the_disk_in_quarantine_live_buckets_still_go_and_only_as_many_as_must() {
    let (disk, buckets) = disk(5);
    let before = disk.image();
    let answers = Arc::new(Answers::default());
    let it = open(disk, 1_100_000, Some(&answers));
    quarantined(&it, &buckets[..5]);
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom));
    // 588,000 bytes are out of quarantine: half of them may stay, which is two buckets.
    assert_eq!(asked(&answers), buckets[5..8]);
    assert_eq!(it.buckets(), buckets[8..]);
    quarantined(&it, &buckets[..5]);
    for id in &buckets[..5] {
        for name in [BucketId(*id).data_name(), BucketId(*id).table_name()] {
            assert_eq!(it.disk.image().bytes(&name), before.bytes(&name), "{name} is not left alone");
        }
    }
    // What could not be read is there again: GC works by the settings as they are.
    it.disk.mend();
    let Fixture { disk, store, .. } = it;
    drop(store);
    let it = open(disk, 1_100_000, Some(&answers));
    quarantined(&it, &[]);
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom), "seven buckets are below the high watermark");
    assert_eq!((it.read(0), it.read(50), it.read(80)), (Some(value(0, 1, 60_000)), None, Some(value(80, 1, 60_000))));
}

#[test]
fn with_half_of_the_disk_in_quarantine_what_is_dead_comes_back() {
    let (disk, buckets) = disk(5);
    let it = open(disk, 1_100_000, None);
    for b in 5..10 {
        assert!(it.delete(b * 10, 1));
    }
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom));
    quarantined(&it, &buckets[..5]);
    let low = 5 * BLOCKS + (1_100_000 - 5 * BLOCKS) / 2;
    assert!(it.physical_bytes() <= low && it.buckets().len() < 5, "{:?}", it.told.names());
    for b in 5..10 {
        assert_eq!((it.read(b * 10), it.read(b * 10 + 1)), (None, Some(value(b * 10 + 1, 1, 40_000))));
    }
}

#[test]
fn beside_a_quarantine_gc_says_that_it_can_do_nothing_and_does_not_wait_for_it() {
    let (disk, buckets) = disk(5);
    let it = open(disk, 1_100_000, None);
    assert_eq!(it.settle(), GcStep::Idle(Idle::NoCandidate));
    let told = it.told.figures();
    let last = told.last().unwrap();
    assert_eq!((last.quarantined_buckets, last.out_of_reach_bytes), (5, 5 * BLOCKS));
    assert_eq!(it.buckets(), buckets[5..]);
    // Who looks at the directory from outside is told the same, and why.
    let Fixture { disk, store, .. } = it;
    drop(store);
    let dir = disk.mount().unwrap();
    let seen = look(&dir).unwrap();
    let told = explain(&seen, &seen.contents(), &config_for(1_100_000), false).unwrap();
    assert_eq!(told.plan, Plan::Nothing(Idle::NoCandidate));
    assert_eq!((told.room.out_of_reach_bytes, told.room.physical_bytes), (5 * BLOCKS, 10 * BLOCKS));
}

#[test]
fn a_quarantine_larger_than_the_capacity_costs_no_live_object() {
    let (disk, buckets) = disk(9);
    let answers = Arc::new(Answers::default());
    let it = open(disk, 9 * BLOCKS, Some(&answers));
    quarantined(&it, &buckets[..9]);
    assert_eq!(it.settle(), GcStep::Idle(Idle::NoCandidate));
    assert_eq!(asked(&answers), []);
    let refused = it.try_put(&[(1_000, 1, 10)]).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::NoSpace);
    // What is dead goes all the same.
    assert!(it.delete(90, 1));
    it.settle();
    assert_eq!(it.physical_bytes(), 9 * BLOCKS + 10 * 4096, "{:?}", it.told.names());
    assert!(it.delete(91, 1));
    assert_eq!(it.settle(), GcStep::Idle(Idle::NoCandidate), "there is nothing to wait for");
    assert_eq!((it.physical_bytes(), it.buckets().len()), (9 * BLOCKS, 0));
    assert_eq!(it.told.count(|event| matches!(event, Event::Evicted { .. })), 0);
}

#[test]
fn a_data_file_that_cannot_be_taken_away_is_no_room_on_its_way_either() {
    let answers = Arc::new(Answers::default());
    let evictor = |answers: &Arc<Answers>| Arc::clone(answers) as Arc<dyn Evictor>;
    for evicts in [false, true] {
        let it = Fixture::with(config_for(450_000), evicts.then(|| evictor(&answers)));
        it.put(&[(1, 1, 60_000), (2, 1, 40_000)]);
        it.put(&[(3, 1, 60_000), (4, 1, 40_000)]);
        // Its data cannot be synced, also not when it is written anew, and neither file goes.
        it.disk.inject(2, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
        it.disk.inject(usize::MAX, Fault::Errno(EIO), on(OpKind::Unlink, ".bucket"));
        it.try_put(&[(5, 1, 60_000), (6, 1, 40_000)]).unwrap_err();
        it.disk.mend();
        let figures = it.store.figures();
        assert_eq!((figures.physical_bytes, figures.out_of_reach_bytes), (4 * BLOCKS, 2 * BLOCKS));
        let idle = if evicts { Idle::EnoughRoom } else { Idle::NoCandidate };
        assert_eq!(it.settle(), GcStep::Idle(idle), "{:?}", it.told.names());
        assert_eq!(it.buckets().len(), if evicts { 1 } else { 2 });
        assert_eq!(it.physical_bytes(), it.blocks_of_data());
    }
}
