//! A directory that a store has written is seen as the store saw it, whenever the store lets go of it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::gc::GcStep;
use crate::store::{DeleteRequest, WriteObject};
use crate::vfs::sim::CrashStates;
use crate::{Durability, Store};

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<(u8, u16)>),
    Delete(Vec<u8>),
    Gc(u8),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => proptest::collection::vec((0_u8..12, 1_u16..9000), 1..6).prop_map(Step::Write),
        4 => proptest::collection::vec(0_u8..12, 1..6).prop_map(Step::Delete),
        2 => (1_u8..8).prop_map(Step::Gc),
        1 => Just(Step::Reopen),
    ]
}

fn config(durability: Durability) -> Config {
    Config {
        capacity_bytes: 200 << 10,
        bucket_size_bytes: 20 << 10,
        bucket_keys: 4,
        normal_dead_ratio: Some(0.3),
        gc_copy_share: 1.0,
        durability,
        ..Config::default()
    }
}

fn open(disk: &SimDisk, config: &Config) -> (Store, Arc<SimDir>) {
    let dir = Arc::new(disk.mount().unwrap());
    let builder = Store::builder(crate::format::test_kit::identity(), Arc::new(ManualClock::new()));
    (builder.config(config.clone()).open(Arc::clone(&dir) as _).unwrap(), dir)
}

/// Key, incarnation, length of what is served.
type Served = BTreeMap<Vec<u8>, (ObjectIncarnation, u32)>;

fn served(store: &Store) -> Served {
    let page = store.list(None, 1000).unwrap();
    page.objects.iter().map(|object| (object.key.to_vec(), (object.incarnation, object.value_len))).collect()
}

fn seen(look: &Look) -> Served {
    let contents = look.contents();
    let live = contents.buckets.iter().flat_map(|b| &b.records).filter(|r| r.state == RecordState::Live);
    live.map(|record| (record.key.to_vec(), (record.incarnation, record.value_len))).collect()
}

fn key(number: u8) -> Vec<u8> {
    format!("t\0key-{number}").into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b10_what_is_seen_is_what_the_store_served_and_its_verdicts_are_the_stores(
        steps in proptest::collection::vec(step(), 1..25),
        relaxed: bool,
    ) {
        let config = config(if relaxed { Durability::Relaxed } else { Durability::Sync });
        let disk = SimDisk::new();
        let (mut store, mut dir) = open(&disk, &config);
        let mut incarnation = 0_u128;
        for step in steps.into_iter().chain([Step::Reopen]) {
            match step {
                Step::Write(objects) => {
                    for (number, len) in objects {
                        incarnation += 1;
                        let (key, value) = (key(number), vec![number; len.into()]);
                        let incarnation = ObjectIncarnation::from_bytes(incarnation.to_be_bytes());
                        let object = WriteObject { key: &key, incarnation, value: &value, placement: None };
                        // A full store refuses, which is as good.
                        let _ = store.write(&[object]);
                    }
                }
                Step::Delete(numbers) => {
                    for number in numbers {
                        let key = key(number);
                        let Some(found) = store.find(&key) else { continue };
                        store.delete(&[DeleteRequest { key: &key, incarnation: found.incarnation }]).unwrap();
                    }
                }
                Step::Gc(steps) => {
                    for _ in 0..steps {
                        if !matches!(store.gc_step(), GcStep::Again) {
                            break;
                        }
                    }
                }
                Step::Reopen => {
                    store.publish_pending().unwrap();
                    let before = served(&store);
                    drop(store);
                    let look = look(&*dir).unwrap();
                    prop_assert_eq!(seen(&look), before);
                    let report = fsck(&*dir, &look, &FsckOptions::default(), &mut |_| {});
                    prop_assert!(report.is_sound(), "{:?}", report.faults);
                    let told = explain(&look, &look.contents(), &config, false).unwrap();
                    prop_assert!(told.refused.is_empty() && told.quarantined.is_empty());
                    drop(dir);
                    (store, dir) = open(&disk, &config);
                    let stores: Vec<_> = store.gc_explain().into_iter().map(|e| (e.id, e.verdict)).collect();
                    let foretold: Vec<_> = told.buckets.iter().map(|b| (b.facts.id, b.verdict)).collect();
                    prop_assert_eq!(foretold, stores);
                }
            }
        }
    }
}

#[test]
fn b2_b6_whatever_a_power_loss_leaves_is_foretold_and_nothing_else_happens() {
    let config = config(Durability::Sync);
    let disk = SimDisk::new();
    let mut points = Vec::new();
    {
        let (store, _dir) = open(&disk, &config);
        for number in 0..8 {
            let (key, value) = (key(number), vec![number; 3000]);
            let incarnation = ObjectIncarnation::from_bytes([number + 1; 16]);
            store.write(&[WriteObject { key: &key, incarnation, value: &value, placement: None }]).unwrap();
            points.push(disk.crash_point());
        }
        for number in [0, 2, 3, 5] {
            let key = key(number);
            let incarnation = ObjectIncarnation::from_bytes([number + 1; 16]);
            store.delete(&[DeleteRequest { key: &key, incarnation }]).unwrap();
            while matches!(store.gc_step(), GcStep::Again) {
                points.push(disk.crash_point());
            }
        }
    }
    let mut ended = 0;
    for point in points {
        let states = CrashStates { exhaustive_up_to: 5, samples: 8, seed: 7, ..CrashStates::default() };
        for image in point.images(states) {
            let disk = SimDisk::of(&image);
            let dir = Arc::new(disk.mount().unwrap());
            let look = look(&*dir).unwrap();
            let told = explain(&look, &look.contents(), &config, false).unwrap();
            assert!(told.refused.is_empty(), "{:?}", told.refused);
            let (before, rounds) = (seen(&look), told.recovery.len());
            ended += rounds;
            drop(dir);
            let (store, _dir) = open(&disk, &config);
            assert_eq!(served(&store), before);
            let left: Vec<_> = store.gc_explain().into_iter().map(|e| e.id).collect();
            assert_eq!(left, told.buckets.iter().map(|b| b.facts.id).collect::<Vec<_>>());
        }
    }
    assert!(ended > 0, "no crash fell into a round");
}
