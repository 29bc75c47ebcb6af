//! What a tombstone covers in another bucket: it does not keep the tombstone's own bucket for ever.

use super::fixture::*;
use crate::format::names::BucketId;
use crate::gc::GcStep;
use crate::observer::Event;
use crate::store::state::SlotState;

/// Three versions of key 1, the second's tombstone durable and the first's not: the first is a small part of its bucket, which GC leaves alone.
fn covering(beside: &[(u64, u64, usize)]) -> (Fixture, BucketId, BucketId) {
    let it = Fixture::new();
    let first = it.put(&[(1, 1, 100), (2, 1, 90_000)]);
    let second = it.put(&[&[(1, 2, 60_000)], beside].concat());
    it.put(&[(1, 3, 100), (4, 1, 90_000)]);
    it.store.publish_table(second).unwrap();
    let states: Vec<_> =
        it.store.state.read().records(&storage_key(1)).map(|record| (record.at.bucket, record.state())).collect();
    assert_eq!(states[..2], [(first, SlotState::Superseded), (second, SlotState::Tombstoned)]);
    (it, first, second)
}

fn goes(it: Fixture, first: BucketId, second: BucketId) {
    assert!(matches!(it.settle(), GcStep::Idle(_)));
    assert!(it.buckets().contains(&first.0) && !it.buckets().contains(&second.0), "{:?}", it.buckets());
    assert_eq!(it.told.count(|event| matches!(event, Event::GcSetAside { .. })), 0);
    it.audit();
    let it = it.reopen();
    assert_eq!(it.read(1), Some(value(1, 3, 100)));
    assert_eq!(it.read(2), Some(value(2, 1, 90_000)));
}

#[test]
fn v4_a_source_that_covers_a_record_elsewhere_is_merged_once_that_has_its_own_tombstone() {
    let (it, first, second) = covering(&[(3, 1, 30_000)]);
    goes(it, first, second);
}

#[test]
fn v4_a_dead_bucket_that_covers_a_record_elsewhere_goes_once_that_has_its_own_tombstone() {
    let (it, first, second) = covering(&[]);
    goes(it, first, second);
}

#[test]
fn b2_maintenance_tombstones_what_is_covered_as_well_as_what_is_replaced() {
    let (it, ..) = covering(&[(3, 1, 30_000)]);
    // What lies below a tombstone is hidden from the start of the next life on.
    let it = it.reopen();
    assert_eq!(it.store.bury_superseded(8).unwrap(), 1);
    assert_eq!(it.store.bury_superseded(8).unwrap(), 0);
    assert!(it.store.state.read().owed_tables().is_empty());
}
