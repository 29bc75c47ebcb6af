//! Owns random histories of the index: after every step the counters equal a recount (row B10), and what a restart would load from the
//! tables published so far agrees with what is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::ObjectIncarnation;
use proptest::prelude::*;

use super::super::{Fate, Location, Moved, Replacement, SlotState, State};
use super::bucket;
use crate::format::names::BucketId;
use crate::format::table::{Slot, Table};
use crate::store::bucket::PhysicalBytes;

#[derive(Clone, Debug)]
enum Step {
    /// Writes the keys whose bits are set.
    Write {
        keys: u8,
        published: bool,
    },
    /// Deletes a key, as far as hiding it.
    Hide {
        record: usize,
    },
    Publish {
        bucket: usize,
    },
    Damage {
        record: usize,
    },
    Lose,
    Merge {
        first: usize,
        count: usize,
        hidden_between: usize,
    },
    Evict {
        first: usize,
        count: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..=255_u8, any::<bool>()).prop_map(|(keys, published)| Step::Write { keys, published }),
        4 => (0..64_usize).prop_map(|record| Step::Hide { record }),
        4 => (0..16_usize).prop_map(|bucket| Step::Publish { bucket }),
        1 => (0..64_usize).prop_map(|record| Step::Damage { record }),
        1 => Just(Step::Lose),
        2 => (0..16_usize, 1..=8_usize, 0..64_usize)
            .prop_map(|(first, count, hidden_between)| Step::Merge { first, count, hidden_between }),
        1 => (0..16_usize, 1..=8_usize).prop_map(|(first, count)| Step::Evict { first, count }),
    ];
    prop::collection::vec(step, 1..60)
}

/// The index and the tables that are durable.
#[derive(Default)]
struct World {
    state: State,
    disk: BTreeMap<BucketId, Table>,
    physical: PhysicalBytes,
    last_id: u64,
    last_write: u64,
}

impl World {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Write { keys, published } => self.write(keys, published),
            Step::Hide { record } => {
                self.record(record, SlotState::ALL.as_slice()).map(|at| self.state.hide(at));
            }
            Step::Publish { bucket } => {
                let id = self.state.buckets().nth(bucket).map(|state| state.id());
                id.into_iter().for_each(|id| self.publish(id));
            }
            Step::Damage { record } => {
                self.record(record, &[SlotState::Live]).map(|at| self.state.damage(at));
            }
            Step::Lose => {
                let id = self.state.unpublished().next();
                id.map(|id| self.state.lose_unpublished(id));
            }
            Step::Merge { first, count, hidden_between } => self.merge(first, count, hidden_between),
            Step::Evict { first, count } => self.evict(first, count),
        }
    }

    fn write(&mut self, keys: u8, published: bool) {
        self.last_id += 1;
        let mut slots = Vec::new();
        for key in (0..8_u8).filter(|key| keys & (1 << key) != 0) {
            self.last_write += 1;
            let (write_number, offset) = (self.last_write, 100 * slots.len() as u64);
            let incarnation = ObjectIncarnation::from_bytes(u128::from(self.last_write).to_be_bytes());
            let key = Arc::from([b't', 0, key]);
            slots.push(Slot {
                key,
                incarnation,
                write_number,
                offset,
                value_len: 10 + u32::from(keys),
                tombstone: None,
            });
        }
        let bucket = bucket(self.last_id, &self.physical);
        self.state.insert(bucket, slots, published);
        if published {
            let table = self.state.publication(BucketId(self.last_id)).unwrap().table;
            self.disk.insert(BucketId(self.last_id), table);
        }
    }

    fn record(&self, nth: usize, states: &[SlotState]) -> Option<Location> {
        let all = self.state.buckets().flat_map(|state| {
            (0u32..).zip(state.slots()).map(|(slot, entry)| (Location { bucket: state.id(), slot }, entry.state()))
        });
        all.filter(|(_, state)| states.contains(state)).map(|(at, _)| at).nth(nth)
    }

    fn publish(&mut self, id: BucketId) {
        let publication = self.state.publication(id).unwrap();
        self.disk.insert(id, publication.table);
        self.state.published(id, &publication.tombstoned);
    }

    fn sources(&self, first: usize, count: usize) -> Vec<BucketId> {
        let fit = self.state.buckets().filter(|state| state.is_published() && !state.suspicion().any());
        fit.map(|state| state.id()).skip(first).take(count).collect()
    }

    fn merge(&mut self, first: usize, count: usize, hidden_between: usize) {
        let sources = self.sources(first, count);
        let places = sources.iter().flat_map(|id| {
            let slots = self.state.bucket(*id).unwrap().slots().len() as u32;
            (0..slots).map(|slot| Location { bucket: *id, slot })
        });
        let copied: Vec<_> = places.filter(|at| self.state.fate(*at) == Fate::Copy).collect();
        // what happens during the copy: a delete begins, and some of its publishes succeed
        self.record(hidden_between, SlotState::ALL.as_slice()).map(|at| self.state.hide(at));
        if hidden_between.is_multiple_of(2) {
            let id = self.state.buckets().nth(hidden_between / 2).map(|state| state.id());
            id.into_iter().for_each(|id| self.publish(id));
        }
        let target = (!copied.is_empty()).then(|| {
            self.last_id += 1;
            let id = BucketId(self.last_id);
            let slots = copied.into_iter().map(|from| {
                let entry = self.state.record(from).unwrap().slot;
                let tombstoned = entry.state() == SlotState::Tombstoned || self.state.may_tombstone(from);
                Moved { from, to: entry.to_slot(tombstoned) }
            });
            let slots: Vec<_> = slots.collect();
            let bucket = bucket(id.0, &self.physical);
            let slots_on_disk = slots.iter().map(|moved| moved.to.clone()).collect();
            let (layout, age, data_len) = (bucket.layout, bucket.age, bucket.data_len);
            self.disk.insert(id, Table { bucket: id, layout, age, data_len, slots: slots_on_disk });
            Replacement { bucket, slots }
        });
        self.leave(&sources, target);
    }

    fn evict(&mut self, first: usize, count: usize) {
        let sources = self.sources(first, count);
        loop {
            let first = self.state.publish_before_leaving(&sources);
            if first.is_empty() {
                break;
            }
            first.into_iter().for_each(|id| self.publish(id));
        }
        self.leave(&sources, None);
    }

    fn leave(&mut self, sources: &[BucketId], target: Option<Replacement>) {
        self.state.swap(sources, target);
        for id in sources {
            self.disk.remove(id);
            self.state.forget_retired(*id).unwrap();
        }
    }

    /// What a restart would serve is what is served now, but for what is not durable yet: deletes that have only begun, and
    /// newer records whose table is not published.
    fn check_a_restart(&self) {
        let mut again = State::default();
        for (id, table) in &self.disk {
            again.insert(bucket(id.0, &PhysicalBytes::default()), table.slots.clone(), true);
        }
        again.audit().unwrap();
        let served = again.buckets().flat_map(|state| state.slots()).filter(|slot| slot.state() == SlotState::Live);
        for slot in served {
            let newest_durable = self
                .state
                .records(&slot.key)
                .rfind(|record| record.bucket.is_published() && record.state() != SlotState::Tombstoned);
            let newest_durable = newest_durable.expect("a restart serves what memory knows as tombstoned or gone");
            assert_eq!(newest_durable.slot.write_number, slot.write_number, "of {:?}", slot.key);
        }
        for slot in self.state.buckets().filter(|state| state.is_published()).flat_map(|state| state.slots()) {
            let kept = slot.state() != SlotState::Live
                || again.live(&slot.key).is_some_and(|live| live.slot.write_number == slot.write_number);
            assert!(kept, "a restart does not serve {slot:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b10_counters_equal_a_recount_after_any_history(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            world.step(&step);
            world.state.audit().unwrap();
            world.check_a_restart();
            let held = world.state.buckets().len() as u64;
            prop_assert_eq!(world.physical.get(), 4096 * held);
        }
    }
}
