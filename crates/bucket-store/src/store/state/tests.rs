//! Owns the tests of the index: each rule alone. Whole histories are `history`'s.

mod cover;
mod history;

use std::io;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use super::{Fate, Location, Moved, Replacement, SlotState, Standing, State};
use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Slot, Tombstone};
use crate::store::bucket::{Bucket, BucketFile, PhysicalBytes};
use crate::vfs::VfsFile;

/// A file that nothing is done with.
#[derive(Debug)]
struct NoFile;

impl VfsFile for NoFile {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn len(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn allocated_bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn bucket(id: u64, physical: &PhysicalBytes) -> Arc<Bucket> {
    let file = BucketFile::new(Arc::new(NoFile), 4096, physical);
    Bucket::new((BucketId(id), RecordLayout::Checksummed, id, 1000), file, true)
}

fn inc(n: u8) -> ObjectIncarnation {
    ObjectIncarnation::from_bytes([n; 16])
}

fn slot(key: &str, incarnation: u8, write_number: u64) -> Slot {
    let key = format!("t\0{key}").into_bytes().into();
    Slot {
        key,
        incarnation: inc(incarnation),
        write_number,
        offset: write_number * 100,
        value_len: 50,
        tombstone: None,
    }
}

fn at(bucket: u64, slot: u32) -> Location {
    Location { bucket: BucketId(bucket), slot }
}

/// A record by its key, incarnation and write number.
type Written<'a> = (&'a str, u8, u64);

/// A state with these buckets, published.
fn state(buckets: &[(u64, &[Written<'_>])]) -> State {
    let (mut state, physical) = (State::default(), PhysicalBytes::default());
    for (id, slots) in buckets {
        let slots = slots.iter().map(|(key, incarnation, number)| slot(key, *incarnation, *number)).collect();
        state.insert(bucket(*id, &physical), slots, true);
    }
    state.audit().unwrap();
    state
}

fn publish(state: &mut State, id: u64) -> Vec<u32> {
    let tombstoned = state.publication(BucketId(id)).unwrap().tombstoned;
    state.published(BucketId(id), &tombstoned);
    state.audit().unwrap();
    tombstoned.into_iter().map(|(slot, _)| slot).collect()
}

fn states(state: &State, key: &str) -> Vec<(u64, SlotState)> {
    let key = format!("t\0{key}");
    state.records(key.as_bytes()).map(|record| (record.at.bucket.0, record.state())).collect()
}

#[test]
fn the_highest_write_number_of_a_key_is_live_whatever_the_order_of_loading() {
    let rising = state(&[(1, &[("a", 1, 5)]), (2, &[("a", 2, 7)])]);
    let falling = state(&[(2, &[("a", 2, 7)]), (1, &[("a", 1, 5)])]);
    let expected = [(1, SlotState::Superseded), (2, SlotState::Live)];
    assert_eq!(states(&rising, "a"), expected);
    assert_eq!(states(&falling, "a"), expected);
}

#[test]
fn equal_write_numbers_are_told_apart_by_the_bucket() {
    let state = state(&[(3, &[("a", 0, 0)]), (1, &[("a", 0, 0)]), (2, &[("a", 0, 0)])]);
    let expected = [(1, SlotState::Superseded), (2, SlotState::Superseded), (3, SlotState::Live)];
    assert_eq!(states(&state, "a"), expected);
}

#[test]
fn an_incarnation_in_two_buckets_is_detected_and_incarnation_0_is_not_meant() {
    let (mut state, physical) = (State::default(), PhysicalBytes::default());
    assert_eq!(state.insert(bucket(1, &physical), vec![slot("a", 1, 5), slot("b", 0, 0)], true), []);
    let twice = state.insert(bucket(2, &physical), vec![slot("a", 1, 5), slot("b", 0, 0)], true);
    assert_eq!(twice, [(at(1, 0), at(2, 0))]);
}

#[test]
fn a_durable_tombstone_is_found_and_never_live() {
    let (mut state, physical) = (State::default(), PhysicalBytes::default());
    state.insert(bucket(1, &physical), vec![Slot { tombstone: Some(Tombstone::Deleted), ..slot("a", 1, 5) }], true);
    assert!(state.live(b"t\0a").is_none());
    assert_eq!(state.standing(b"t\0a", inc(1)), Standing::Deleted);
    assert_eq!(state.standing(b"t\0a", inc(2)), Standing::Unknown);
    assert!(!state.hide(at(1, 0)));
    assert_eq!(state.totals().dead().records, 1);
}

#[test]
fn a_hidden_record_is_dead_at_once_and_tombstoned_by_the_next_publish() {
    let mut state = state(&[(1, &[("a", 1, 1), ("b", 2, 2)])]);
    assert!(state.hide(at(1, 0)));
    assert!(state.hide(at(1, 0)));
    assert!(state.live(b"t\0a").is_none());
    assert_eq!(state.totals().dead().bytes, 40 + 3 + 4 + 50);
    assert_eq!(publish(&mut state, 1), [0]);
    assert_eq!(states(&state, "a"), [(1, SlotState::Tombstoned)]);
    assert_eq!(publish(&mut state, 1), Vec::<u32>::new());
}

#[test]
fn an_older_record_is_buried_before_the_newest_is_tombstoned() {
    let mut state = state(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2)])]);
    state.hide(at(2, 0));
    assert_eq!(state.next_publish(at(2, 0)), Some(BucketId(1)));
    assert_eq!(publish(&mut state, 2), Vec::<u32>::new(), "bucket 1 would bring the older one back");
    assert_eq!(publish(&mut state, 1), [0]);
    assert_eq!(state.next_publish(at(2, 0)), Some(BucketId(2)));
    assert_eq!(publish(&mut state, 2), [0]);
    assert_eq!(state.next_publish(at(2, 0)), None);
}

#[test]
fn a_superseded_record_waits_until_the_newer_one_is_durable() {
    let mut state = state(&[(1, &[("a", 1, 1)])]);
    state.insert(bucket(2, &PhysicalBytes::default()), vec![slot("a", 2, 2)], false);
    assert_eq!(publish(&mut state, 1), Vec::<u32>::new());
    state.hide(at(2, 0));
    assert_eq!(
        state.next_publish(at(2, 0)),
        Some(BucketId(2)),
        "first it must be durable, then the older one goes, then it"
    );
    assert_eq!(publish(&mut state, 2), Vec::<u32>::new());
    assert_eq!(state.next_publish(at(2, 0)), Some(BucketId(1)));
    assert_eq!(publish(&mut state, 1), [0]);
    assert_eq!(publish(&mut state, 2), [0]);
}

#[test]
fn what_a_lost_bucket_superseded_is_live_again() {
    let mut state = state(&[(1, &[("a", 1, 1), ("b", 1, 2)])]);
    state.insert(bucket(2, &PhysicalBytes::default()), vec![slot("a", 2, 3), slot("b", 2, 4)], false);
    state.hide(at(1, 1));
    assert!(state.lose_unpublished(BucketId(2)).is_some());
    state.audit().unwrap();
    assert_eq!(states(&state, "a"), [(1, SlotState::Live)]);
    assert_eq!(states(&state, "b"), [(1, SlotState::Hidden)]);
}

#[test]
fn a_damaged_record_is_dropped_from_what_is_served_and_is_not_dead() {
    let mut state = state(&[(1, &[("a", 1, 1), ("b", 1, 2)])]);
    assert!(state.damage(at(1, 0)));
    assert!(!state.damage(at(1, 0)));
    assert!(state.live(b"t\0a").is_none() && state.live(b"t\0b").is_some());
    assert_eq!(state.totals().dead().records, 0);
    assert_eq!(state.fate(at(1, 0)), Fate::Keep);
    assert!(state.bucket(BucketId(1)).unwrap().suspicion().any());
    assert_eq!(state.standing(b"t\0a", inc(1)), Standing::Unknown, "it may be written again");
    state.insert(bucket(2, &PhysicalBytes::default()), vec![slot("a", 1, 3)], true);
    assert_eq!(states(&state, "a"), [(1, SlotState::Superseded), (2, SlotState::Live)]);
}

#[test]
fn a_swap_carries_over_what_happened_since_the_copy() {
    let keys: &[_] = &[("live", 1, 1), ("hidden", 1, 2), ("gone", 1, 3), ("newer", 1, 4)];
    let mut state = state(&[(1, keys)]);
    let physical = PhysicalBytes::default();
    state.insert(bucket(2, &physical), vec![slot("newer", 2, 9)], false);
    state.hide(at(1, 1));
    let moved =
        |from, key, number, tombstone| Moved { from: at(1, from), to: Slot { tombstone, ..slot(key, 1, number) } };
    let slots = vec![
        moved(0, "live", 1, None),
        moved(1, "hidden", 2, None),
        moved(2, "gone", 3, Some(Tombstone::Replaced)),
        moved(3, "newer", 4, None),
    ];
    state.swap(&[BucketId(1)], Some(Replacement { bucket: bucket(3, &physical), slots }));
    state.audit().unwrap();
    assert_eq!(states(&state, "live"), [(3, SlotState::Live)]);
    assert_eq!(states(&state, "hidden"), [(3, SlotState::Hidden)]);
    assert_eq!(states(&state, "gone"), [(3, SlotState::Tombstoned)]);
    assert_eq!(states(&state, "newer"), [(3, SlotState::Superseded), (2, SlotState::Live)]);
    assert_eq!(state.retired().map(|bucket| bucket.id).collect::<Vec<_>>(), [BucketId(1)]);
}

#[test]
fn an_eviction_waits_for_the_burial_of_what_its_objects_superseded() {
    let mut state = state(&[(1, &[("a", 1, 1), ("b", 1, 2)]), (2, &[("a", 2, 3)]), (3, &[("b", 2, 4)])]);
    assert_eq!(state.publish_before_leaving(&[BucketId(2)]), [BucketId(1)].into());
    assert!(state.publish_before_leaving(&[BucketId(1), BucketId(2)]).is_empty(), "both leave at once");
    assert!(state.publish_before_leaving(&[BucketId(1)]).is_empty());
    publish(&mut state, 1);
    assert!(state.publish_before_leaving(&[BucketId(2)]).is_empty());
    state.swap(&[BucketId(2)], None);
    state.audit().unwrap();
    assert_eq!(states(&state, "a"), [(1, SlotState::Tombstoned)]);
}

#[test]
fn physical_bytes_fall_when_the_last_pin_goes_and_not_before() {
    let physical = PhysicalBytes::default();
    let mut state = State::default();
    state.insert(bucket(1, &physical), vec![slot("a", 1, 1)], true);
    let pin = Arc::clone(&state.live(b"t\0a").unwrap().bucket.bucket().file);
    state.swap(&[BucketId(1)], None);
    assert_eq!(physical.get(), 4096, "retired, and not unlinked");
    state.forget_retired(BucketId(1));
    assert_eq!(physical.get(), 4096, "a reader has it");
    pin.set_allocated_bytes(8192);
    assert_eq!(physical.get(), 8192);
    drop(pin);
    assert_eq!(physical.get(), 0);
}

#[test]
fn a_key_is_in_the_hands_of_one_write_at_a_time() {
    let mut state = State::default();
    let keys = |keys: &[&str]| keys.iter().map(|key| key.as_bytes().into()).collect::<Vec<_>>();
    assert_eq!(state.begin_write(&keys(&["a", "b"])), Ok(()));
    assert_eq!(state.begin_write(&keys(&["c", "b"])), Err(1));
    assert!(state.is_in_flight(b"a") && !state.is_in_flight(b"c"));
    state.end_write(&keys(&["a", "b"]));
    assert_eq!(state.begin_write(&keys(&["c", "b"])), Ok(()));
}

#[test]
fn b1_the_last_durable_record_of_a_key_stays_until_the_newer_one_is_durable() {
    let mut state = state(&[(1, &[("a", 1, 1), ("b", 1, 2)])]);
    state.insert(bucket(2, &PhysicalBytes::default()), vec![slot("a", 2, 3)], false);
    let first =
        |state: &State| state.publish_before_leaving(&[BucketId(1)]).into_iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(first(&state), [2], "a power loss would take both");
    publish(&mut state, 2);
    assert!(first(&state).is_empty());
}
