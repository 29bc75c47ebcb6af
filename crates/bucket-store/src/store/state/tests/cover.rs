//! Owns the tests of what covers a record: the kinds of tombstones, and that the order of loading does not matter.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::*;

/// A bucket to be loaded.
type Loaded = (u64, Vec<Slot>);

fn dead(tombstone: Tombstone, key: &str, incarnation: u8, write_number: u64) -> Slot {
    Slot { tombstone: Some(tombstone), ..slot(key, incarnation, write_number) }
}

fn load<'a>(buckets: impl IntoIterator<Item = &'a Loaded>) -> State {
    let (mut state, physical) = (State::default(), PhysicalBytes::default());
    for (id, slots) in buckets {
        state.insert(bucket(*id, &physical), slots.clone(), true);
        state.audit().unwrap();
    }
    state
}

/// What became of each record, and what its tombstone says or is to say.
fn told(state: &State) -> BTreeMap<Location, (SlotState, Tombstone)> {
    let slots = |bucket: &super::super::BucketState| {
        let id = bucket.id();
        let slots = (0..).zip(bucket.slots()).map(move |(slot, it)| (Location { bucket: id, slot }, it.clone()));
        slots.collect::<Vec<_>>()
    };
    state.buckets().flat_map(slots).map(|(at, it)| (at, (it.state(), it.tombstone()))).collect()
}

#[test]
fn b2_a_deleted_incarnation_is_gone_in_every_copy_and_a_replaced_one_only_in_the_older() {
    let twin = |tombstone| [(1, vec![dead(tombstone, "a", 1, 5)]), (2, vec![slot("a", 1, 9)])];
    for buckets in [twin(Tombstone::Deleted), {
        let [a, b] = twin(Tombstone::Deleted);
        [b, a]
    }] {
        let mut state = load(&buckets);
        assert_eq!(states(&state, "a"), [(1, SlotState::Tombstoned), (2, SlotState::Hidden)]);
        assert_eq!(state.standing(b"t\0a", inc(1)), Standing::Deleted);
        assert!(state.covers_any(BucketId(1)), "without it the other one would be back");
        assert_eq!(state.owed_tables(), [BucketId(2)].into());
        assert!(state.bucket(BucketId(2)).unwrap().suspicion().any());
        let publication = state.publication(BucketId(2)).unwrap();
        assert_eq!(publication.tombstoned, [(0, Tombstone::Deleted)], "as each copy is");
        publish(&mut state, 2);
        assert!(!state.covers_any(BucketId(1)) && state.owed_tables().is_empty());
        assert!(!state.bucket(BucketId(2)).unwrap().suspicion().any());
    }
    let state = load(&twin(Tombstone::Replaced));
    assert_eq!(states(&state, "a"), [(1, SlotState::Tombstoned), (2, SlotState::Live)]);
    assert!(!state.covers_any(BucketId(1)));
}

/// A record that is dropped without a tombstone of its own is deleted all the same once its delete was asked for.
#[test]
fn b2_what_leaves_hidden_is_noted_as_deleted_and_what_leaves_alive_is_not() {
    let mut state = load(&[(1, vec![slot("a", 1, 5), slot("b", 2, 6)])]);
    assert!(state.hide(Location { bucket: BucketId(1), slot: 0 }));
    let graves = state.graves_for(&[BucketId(1)], &HashSet::new(), |_| true).unwrap();
    assert!(graves.is_deleted(b"t\0a", inc(1)) && !graves.is_deleted(b"t\0b", inc(2)));
}

#[test]
fn a_deleted_incarnation_0_is_gone_in_every_copy_too() {
    let buckets =
        [(3, vec![dead(Tombstone::Deleted, "a", 0, 0)]), (5, vec![slot("a", 0, 0)]), (7, vec![slot("a", 1, 1)])];
    let state = load(&buckets);
    assert_eq!(states(&state, "a"), [(3, SlotState::Tombstoned), (5, SlotState::Hidden), (7, SlotState::Live)]);
}

#[test]
fn what_only_was_replaced_is_not_said_to_be_deleted() {
    // Told as deleted, the tombstone of the first would take the third with it, which was written anew and is live.
    let buckets =
        [(1, vec![slot("a", 1, 5)]), (2, vec![dead(Tombstone::Replaced, "a", 2, 7)]), (3, vec![slot("a", 1, 9)])];
    let mut state = load(&buckets);
    assert_eq!(state.owed_tables(), [BucketId(1)].into());
    let table = state.publication(BucketId(1)).unwrap().table;
    assert_eq!(table.slots[0].tombstone, Some(Tombstone::Replaced));
    publish(&mut state, 1);
    let again = load(&[(1, table.slots), buckets[1].clone(), buckets[2].clone()]);
    assert_eq!(states(&again, "a")[2], (3, SlotState::Live));
    // A delete of it says more.
    let mut state = load(&buckets);
    assert!(state.hide(at(1, 0)));
    assert_eq!(state.publication(BucketId(1)).unwrap().tombstoned, [(0, Tombstone::Deleted)]);
}

#[test]
fn a_covered_record_keeps_its_rank_and_nothing_older_is_served_for_it() {
    let deleted = (1, vec![dead(Tombstone::Deleted, "a", 1, 3)]);
    let (older, newer) = ((2, vec![slot("a", 2, 5)]), (3, vec![slot("a", 1, 9)]));
    for order in [[&deleted, &older, &newer], [&older, &newer, &deleted], [&newer, &deleted, &older]] {
        let mut state = load(order);
        let expected = [(1, SlotState::Tombstoned), (2, SlotState::Superseded), (3, SlotState::Hidden)];
        assert_eq!(states(&state, "a"), expected);
        assert_eq!(publish(&mut state, 3), Vec::<u32>::new(), "the older one first");
        assert_eq!(state.owed_tables(), [BucketId(2)].into());
        publish(&mut state, 2);
        assert_eq!(publish(&mut state, 3), [0]);
    }
}

#[test]
fn a_delete_that_came_after_its_table_was_made_waits_for_another() {
    let mut state = state(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2)])]);
    let publication = state.publication(BucketId(1)).unwrap();
    assert_eq!(publication.tombstoned, [(0, Tombstone::Replaced)]);
    state.hide(at(1, 0));
    state.published(BucketId(1), &publication.tombstoned);
    state.audit().unwrap();
    assert_eq!(states(&state, "a")[0], (1, SlotState::Hidden), "on disk it is only replaced");
    assert_eq!(state.next_publish(at(1, 0)), Some(BucketId(1)));
    assert_eq!(state.publication(BucketId(1)).unwrap().tombstoned, [(0, Tombstone::Deleted)]);
    publish(&mut state, 1);
    assert_eq!(states(&state, "a")[0], (1, SlotState::Tombstoned));

    // Likewise where GC has made the table.
    let mut state = self::state(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2)])]);
    let to = state.record(at(1, 0)).unwrap().slot.to_slot(true);
    assert_eq!(to.tombstone, Some(Tombstone::Replaced));
    state.hide(at(1, 0));
    let replacement =
        Replacement { bucket: bucket(3, &PhysicalBytes::default()), slots: vec![Moved { from: at(1, 0), to }] };
    state.swap(&[BucketId(1)], Some(replacement));
    state.audit().unwrap();
    assert_eq!(states(&state, "a")[0], (3, SlotState::Hidden));
    assert_eq!(state.publication(BucketId(3)).unwrap().tombstoned, [(0, Tombstone::Deleted)]);
}

/// Each bucket has an older record of one key and a newer one of the next, all covered: each table is owed twice.
fn tangle(buckets: u64) -> Vec<Loaded> {
    let mut loaded: Vec<Loaded> = (1..=buckets).map(|id| (id, Vec::new())).collect();
    for key in 0..buckets {
        let name = format!("k{key}");
        let (older, newer) = (key as usize, ((key + 1) % buckets) as usize);
        loaded[older].1.push(slot(&name, 1, 10 + key));
        loaded[newer].1.push(slot(&name, 2, 20 + key));
        loaded.push((100 + key, vec![dead(Tombstone::Deleted, &name, 3, 30 + key)]));
    }
    loaded
}

#[test]
fn b2_covered_records_that_wait_for_each_others_tables_all_get_their_tombstones() {
    for buckets in [2, 3, 5] {
        let mut state = load(&tangle(buckets));
        let mut published = 0;
        while let Some(id) = state.owed_tables().first() {
            assert!(!publish(&mut state, id.0).is_empty(), "no table is published for nothing");
            published += 1;
        }
        assert!(published > buckets, "a table was owed again, or it was no tangle: {published}");
        assert!(state.buckets().flat_map(|it| it.slots()).all(|it| it.state() == SlotState::Tombstoned));
        assert!(!state.buckets().any(|it| it.suspicion().any()));
    }
}

fn some_buckets() -> impl Strategy<Value = Vec<Loaded>> {
    let kind = prop::sample::select(vec![None, None, Some(Tombstone::Replaced), Some(Tombstone::Deleted)]);
    let record = (1..=6_u64, 0..4_u8, 1..9_u64, kind);
    prop::collection::vec(record, 1..10).prop_map(|records| {
        let mut buckets: BTreeMap<u64, Vec<Slot>> = BTreeMap::new();
        for (id, incarnation, number, tombstone) in records {
            let slots = buckets.entry(id).or_default();
            if slots.iter().all(|it| it.incarnation != inc(incarnation)) {
                slots.push(Slot { tombstone, ..slot("a", incarnation, number) });
            }
        }
        buckets.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_loading_does_not_matter_and_what_is_owed_ends(
        (buckets, shuffled) in some_buckets().prop_flat_map(|it| (Just(it.clone()), Just(it).prop_shuffle())),
    ) {
        let (mut state, other) = (load(&buckets), load(&shuffled));
        prop_assert_eq!(told(&state), told(&other));
        let live = state.live(b"t\0a").map(|it| it.at);
        while let Some(id) = state.owed_tables().first() {
            prop_assert!(!publish(&mut state, id.0).is_empty(), "no table is published for nothing");
            prop_assert_eq!(state.live(b"t\0a").map(|it| it.at), live, "what is live stays so");
        }
prop_assert!(told(&state).values().all(|(state, _)| *state != SlotState::Hidden), "{:?}", told(&state));
        let tables = state.buckets().map(|it| (it.id().0, state.publication(it.id()).unwrap().table.slots));
        let again = load(&tables.collect::<Vec<_>>());
        prop_assert_eq!(again.live(b"t\0a").map(|it| it.at), live, "a restart serves the same");
    }
}
