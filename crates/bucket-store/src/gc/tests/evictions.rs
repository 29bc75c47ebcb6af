//! Live buckets go when nothing dead is left, whoever embeds the store agreeing, and what happens to usage in the long run. V4, V5.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use proptest::prelude::*;

use super::fixture::*;
use crate::config::Config;
use crate::error::{DiskOp, StoreErrorKind};
use crate::format::names::BucketId;
use crate::gc::plan::{Idle, Verdict};
use crate::gc::{Evictor, GcStep};
use crate::observer::Event;
use crate::store::ReadRequest;
use crate::vfs::sim::{EIO, ENOSPC, Fault, Op, OpKind, nth, on};

/// Ten live buckets of 100 KiB fill the capacity.
fn full(answers: &Arc<Answers>) -> Fixture {
    let config = Config {
        capacity_bytes: 1_100_000,
        high_watermark: 0.9,
        low_watermark: 0.6,
        normal_dead_ratio: None,
        ..config()
    };
    let it = Fixture::with(config, Some(Arc::clone(answers) as Arc<dyn Evictor>));
    for b in 0..10 {
        it.put(&[(b * 10, 1, 60_000), (b * 10 + 1, 1, 40_000)]);
    }
    it
}

fn asked(answers: &Answers) -> Vec<u64> {
    answers.asked.lock().iter().map(|(id, _)| *id).collect()
}

#[test]
fn v4_live_buckets_go_oldest_first_down_to_the_low_watermark_and_not_one_more() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    let buckets = it.buckets();
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom));
    assert_eq!(asked(&answers), buckets[..4]);
    assert_eq!(it.buckets(), buckets[4..]);
    assert!(it.physical_bytes() <= 660_000 && it.physical_bytes() > 560_000);
    let objects = &answers.asked.lock()[0].1;
    assert_eq!(
        objects.iter().map(|o| (o.incarnation, o.value_len)).collect::<Vec<_>>(),
        [(inc(1), 60_000), (inc(1), 40_000)]
    );
    assert_eq!((it.read(0), it.read(40)), (None, Some(value(40, 1, 60_000))));
    let it = it.reopen();
    assert_eq!((it.read(0), it.read(31), it.read(40)), (None, None, Some(value(40, 1, 60_000))));
}

#[test]
fn an_object_that_did_not_verify_does_not_go_without_a_word() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    let first = it.buckets()[0];
    it.disk.flip_bit(&format!("{first}.bucket"), 30_000, 1).unwrap();
    let read = it.store.read(&ReadRequest::whole(&storage_key(0)));
    assert_eq!(read.map(|_| ()).unwrap_err().kind(), StoreErrorKind::Damaged);
    it.settle();
    let asked = answers.asked.lock();
    let (_, objects) = asked.iter().find(|(id, _)| *id == first).expect("the oldest bucket stays");
    assert_eq!(objects.iter().map(|object| object.value_len).collect::<Vec<_>>(), [60_000, 40_000]);
}

#[test]
fn v4_dead_space_is_reclaimed_before_anything_live_goes() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    for b in 3..10 {
        assert!(it.delete(b * 10, 1));
    }
    it.settle();
    assert_eq!(asked(&answers), []);
    for b in 0..10 {
        assert_eq!(it.read(b * 10 + 1), Some(value(b * 10 + 1, 1, 40_000)));
    }
}

#[test]
fn a_refused_eviction_leaves_the_bucket_live_and_is_asked_for_again() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    let buckets = it.buckets();
    answers.refuse.lock().push(buckets[0]);
    it.step_while_again();
    assert_eq!(asked(&answers), buckets[..5], "one refusal holds up the others");
    assert_eq!(it.read(0), Some(value(0, 1, 60_000)));
    assert_eq!(it.told.count(|event| matches!(event, Event::EvictionRefused { reason, .. } if reason == "not now")), 1);
    assert!(it.delete(0, 1), "it cannot be deleted any more");
    // It is asked again when usage is too high again and its pause is over.
    for b in 0..4 {
        it.put(&[(200 + b, 1, 100_000)]);
    }
    assert!(
        matches!(it.store.gc_explain()[0].verdict, Verdict::SetAside { .. } | Verdict::Candidate),
        "{:?}",
        it.store.gc_explain()
    );
    answers.refuse.lock().clear();
    it.clock.advance(Duration::from_secs(2));
    it.settle();
    assert!(!it.buckets().contains(&buckets[0]));
    assert_eq!(it.read(0), None);
}

#[test]
fn the_callback_of_an_eviction_may_use_the_store() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    let store = Arc::downgrade(&it.store);
    *answers.meanwhile.lock() = Some(Box::new(move || {
        let store = store.upgrade().unwrap();
        assert_eq!(read(&store, 1), Some(value(1, 1, 40_000)), "what is about to go is still served");
        assert!(delete(&store, 90, 1), "a delete waits for the eviction");
        assert!(delete(&store, 0, 1), "a delete in the bucket that goes waits for the eviction");
        assert_eq!(store.gc_step(), GcStep::Busy);
        assert_eq!(store.gc_explain().len(), 10);
    }));
    while asked(&answers).is_empty() {
        assert_eq!(it.store.gc_step(), GcStep::Again);
    }
    *answers.meanwhile.lock() = None;
    it.settle();
    assert_eq!((it.read(90), it.read(0), it.read(1), it.read(91)), (None, None, None, Some(value(91, 1, 40_000))));
    let it = it.reopen();
    assert_eq!((it.read(90), it.read(0), it.read(1), it.read(91)), (None, None, None, Some(value(91, 1, 40_000))));
}

#[test]
fn b1_the_older_record_of_an_evicted_key_does_not_come_back_at_any_crash_point() {
    let answers = Arc::new(Answers::default());
    let config = Config {
        capacity_bytes: 300_000,
        bucket_size_bytes: 200_000,
        high_watermark: 0.5,
        low_watermark: 0.3,
        normal_dead_ratio: None,
        ..config()
    };
    let it = Fixture::with(config, Some(Arc::clone(&answers) as Arc<dyn Evictor>));
    // The older version of key 1 is too little of its bucket for a copy, and that bucket may not go; the newer version's may.
    let older = it.put(&[(1, 1, 4_000), (2, 1, 140_000)]);
    let newer = it.put(&[(1, 2, 60_000)]);
    answers.refuse.lock().push(older.0);
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    it.disk.watch(move |_, point| sink.lock().extend(point.images(Default::default())));
    it.step_while_again();
    it.disk.unwatch();
    assert!(asked(&answers).contains(&newer.0), "{:?}", it.told.names());
    assert_eq!(it.read(1), None);
    for image in seen.lock().iter() {
        let it = Fixture::restarted(image).unwrap();
        let found = it.read(1);
        assert!(found.is_none() || found == Some(value(1, 2, 60_000)), "version 1 of key 1 is back: {image:?}");
    }
}

#[test]
fn an_eviction_whose_commit_fails_is_final_and_repeated() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    let first = it.buckets()[0];
    it.disk.inject(2, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket_gc_intent.0.tmp"));
    let GcStep::Wait(_) = it.step_while_again() else { panic!("{:?}", it.told.names()) };
    assert!(!it.delete(0, 1), "a delete was answered although nobody knows whether the bucket is gone");
    it.settle();
    assert_eq!(asked(&answers)[0], first);
    assert_eq!(asked(&answers).iter().filter(|id| **id == first).count(), 1, "asked again although it was agreed");
    assert_eq!(it.read(0), None);
}

#[test]
fn without_anybody_to_agree_nothing_live_goes() {
    let config = Config { capacity_bytes: 1_100_000, high_watermark: 0.9, low_watermark: 0.6, ..config() };
    let it = Fixture::with(config, None);
    for b in 0..10 {
        it.put(&[(b, 1, 100_000)]);
    }
    assert_eq!(it.settle(), GcStep::Idle(Idle::NoCandidate));
    assert_eq!(it.buckets().len(), 10);
}

#[test]
fn a_store_that_is_read_only_collects_nothing() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    for _ in 0..it.store.config().read_only_after_failures {
        it.store.health.failed(DiskOp::Sync, "x", &std::io::Error::other("gone"), &crate::NoObserver);
    }
    it.disk.record();
    assert_eq!(it.store.gc_step(), GcStep::ReadOnly);
    assert_eq!(it.disk.log(), []);
}

#[test]
fn gc_is_never_inline_in_another_call() {
    let answers = Arc::new(Answers::default());
    let it = full(&answers);
    assert!(it.delete(90, 1));
    it.disk.record();
    // Usage is above the high watermark all the time, and candidates abound.
    assert!(it.delete(80, 1) && it.delete(80, 7));
    let written = it.put(&[(91, 2, 30_000)]);
    let key = storage_key(91);
    let request = ReadRequest::whole(&key);
    assert_eq!(it.store.read(&request).unwrap(), value(91, 2, 30_000));
    assert!(it.store.read_batch(&[request]).unwrap()[0].is_ok());
    assert_eq!(it.store.list(None, 100).unwrap().objects.len(), 18);
    assert!(it.store.find(&key).is_some());
    it.store.publish_table(BucketId(it.buckets()[0])).unwrap();
    it.store.publish_pending().unwrap();
    it.store.bury_superseded(10).unwrap();
    it.audit();
    assert!(it.store.gc_explain().iter().any(|it| it.verdict == Verdict::Candidate));
    assert!(it.store.figures().gc_candidates > 0);
    let buckets = it.buckets();
    let it = it.reopen();
    let is_gcs = |op: &Op| {
        let of_data = op.name.ends_with(".bucket") && *op.name != *written.data_name();
        op.name.contains("bucket_gc_intent") && op.kind.changes() || of_data && op.kind.changes()
    };
    let gcs: Vec<_> = it.disk.log().into_iter().filter(is_gcs).collect();
    assert_eq!(gcs, []);
    assert_eq!((asked(&answers), it.buckets()), (vec![], buckets));
}

/// A store that is used at random under pressure.
#[derive(Clone, Debug)]
enum Deed {
    Put(Vec<(u64, usize)>),
    Delete(u64),
    Steps(u8),
    Fault(u8, bool),
    Reopen,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let object = (0_u64..40, prop_oneof![1_usize..300, 5_000_usize..12_000]);
    let deed = prop_oneof![
        4 => proptest::collection::vec(object, 1..5).prop_map(Deed::Put),
        6 => (0_u64..40).prop_map(Deed::Delete),
        3 => (1_u8..40).prop_map(Deed::Steps),
        2 => (1_u8..60, any::<bool>()).prop_map(|(after, full)| Deed::Fault(after, full)),
        1 => Just(Deed::Reopen),
    ];
    proptest::collection::vec(deed, 1..50)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn v4_v5_b10_random_use_under_pressure_keeps_every_promise_and_ends_below_the_low_watermark(deeds in deeds(), evicts: bool) {
        let answers = Arc::new(Answers::default());
        let config = Config {
            capacity_bytes: 160_000,
            bucket_size_bytes: 40_000,
            high_watermark: 0.8,
            low_watermark: 0.5,
            normal_dead_ratio: None,
            read_only_after_failures: 1_000,
            ..config()
        };
        let evictor = || evicts.then(|| Arc::clone(&answers) as Arc<dyn Evictor>);
        let mut it = Fixture::with(config.clone(), evictor());
        // By key: incarnation and length of what was put last, and whether it must be there, must not, or may.
        let mut model: std::collections::BTreeMap<u64, (u64, usize, Option<bool>)> = Default::default();
        let mut incarnation = 1;
        let checking = Arc::new(AtomicBool::new(false));
        for deed in deeds {
            match deed {
                Deed::Put(objects) => {
                    it.disk.mend();
                    let objects: std::collections::BTreeMap<_, _> = objects.into_iter().collect();
                    incarnation += 1;
                    let put: Vec<_> = objects.iter().map(|(key, len)| (*key, incarnation, *len)).collect();
                    match it.try_put(&put) {
                        Ok(_) => model.extend(objects.into_iter().map(|(key, len)| (key, (incarnation, len, Some(true))))),
                        Err(error) => prop_assert_eq!(error.kind(), StoreErrorKind::NoSpace, "{}", error),
                    }
                }
                Deed::Delete(key) => {
                    if let Some((incarnation, _, there)) = model.get_mut(&key) {
                        let acknowledged = it.delete(key, *incarnation);
                        *there = if acknowledged || *there == Some(false) { Some(false) } else { None };
                    }
                }
                Deed::Steps(steps) => {
                    for _ in 0..steps {
                        if let GcStep::Wait(pause) = it.store.gc_step() {
                            it.clock.advance(pause);
                        }
                        it.audit();
                    }
                }
                Deed::Fault(after, full) => {
                    let (errno, checking) = (if full { ENOSPC } else { EIO }, Arc::clone(&checking));
                    let not_a_check = move |_: &Op| !checking.load(SeqCst);
                    it.disk.inject(1, Fault::Errno(errno), nth(after.into(), not_a_check));
                }
                Deed::Reopen => {
                    it.disk.mend();
                    let Fixture { disk, store, .. } = it;
                    drop(store);
                    it = Fixture::on(disk, config.clone(), evictor()).unwrap();
                }
            }
            for (_, objects) in answers.asked.lock().drain(..) {
                for object in objects {
                    let key: u64 = String::from_utf8_lossy(&object.key[3..]).parse().unwrap();
                    let (newest, _, there) = model.get_mut(&key).unwrap();
                    if inc(*newest) == object.incarnation && *there != Some(false) {
                        *there = None;
                    }
                }
            }
            checking.store(true, SeqCst);
            for (key, (incarnation, len, there)) in &model {
                let found = it.read(*key);
                let right = found == Some(value(*key, *incarnation, *len));
                prop_assert!(found.is_none() || right, "key {} has other bytes", key);
                prop_assert!(there.is_none() || *there == Some(right), "key {} should be there: {:?}, events {:?}", key, there, it.told.names());
            }
            checking.store(false, SeqCst);
        }
        it.disk.mend();
        // Faults have stopped: every table can be told what is dead.
        for (key, (incarnation, ..)) in model.iter().filter(|(_, (_, _, there))| *there != Some(true)) {
            prop_assert!(it.delete(*key, *incarnation) || it.settle() == GcStep::Busy || it.delete(*key, *incarnation));
        }
        let last = it.settle();
        prop_assert_eq!(it.store.gc.open_rounds(), 0, "a round is left");
        prop_assert_eq!(it.physical_bytes(), it.blocks_of_data(), "accounted bytes are not the blocks used");
        let candidates = it.store.gc_explain().into_iter().filter(|it| matches!(it.verdict, Verdict::Dead | Verdict::Candidate));
        prop_assert_eq!(candidates.count(), 0, "{:?}", last);
        if evicts {
            prop_assert!(it.physical_bytes() < 128_000, "{} bytes, {:?}", it.physical_bytes(), last);
        }
        // What a failed sync left for the next process to see is swept by that.
        let Fixture { disk, store, .. } = it;
        drop(store);
        let it = Fixture::on(disk, config, evictor()).unwrap();
        prop_assert_eq!(it.physical_bytes(), it.blocks_of_data());
        let left = |name: &&str| name.ends_with(".tmp") || name.contains("gc_intent");
        let names: Vec<_> = it.disk.image().names().filter(left).map(str::to_owned).collect();
        prop_assert!(names.is_empty(), "{:?}", names);
    }
}

/// A fully dead bucket, one that is worth a copy, and live ones over the high watermark: every kind of round, in that order.
fn every_kind(answers: &Arc<Answers>) -> Fixture {
    let config = Config {
        capacity_bytes: 100_000,
        bucket_size_bytes: 40_000,
        high_watermark: 0.5,
        low_watermark: 0.25,
        normal_dead_ratio: None,
        read_only_after_failures: 1_000,
        ..config()
    };
    let it = Fixture::with(config, Some(Arc::clone(answers) as Arc<dyn Evictor>));
    it.put(&[(1, 1, 12_000)]);
    it.put(&[(2, 1, 12_000), (3, 1, 5_000)]);
    for b in 1..5 {
        it.put(&[(b * 10, 1, 12_000)]);
    }
    assert!(it.delete(1, 1) && it.delete(2, 1));
    it
}

/// What is neither deleted nor was asked for by an eviction is there, and what was deleted is not.
fn promises_hold(it: &Fixture, asked: &[u64], when: &dyn Fn() -> String) {
    it.audit();
    assert!(it.read(1).is_none() && it.read(2).is_none(), "a deleted object is back: {}", when());
    for (key, len) in [(3, 5_000), (10, 12_000), (20, 12_000), (30, 12_000), (40, 12_000)] {
        let found = it.read(key);
        let is_there = found == Some(value(key, 1, len));
        assert!(is_there || found.is_none() && asked.contains(&key), "key {key}: {}", when());
    }
}

fn keys_asked(answers: &Answers) -> Vec<u64> {
    let asked = answers.asked.lock();
    let keys = asked.iter().flat_map(|(_, objects)| objects);
    keys.map(|object| String::from_utf8_lossy(&object.key[3..]).parse().unwrap()).collect()
}

#[test]
fn b8_whatever_operation_fails_of_rounds_of_every_kind_nothing_more_is_lost_and_gc_ends() {
    let (operations, kinds) = {
        let it = every_kind(&Arc::default());
        let before = it.disk.operations();
        it.settle();
        let kinds = |target: bool| {
            it.told.count(|e| matches!(e, Event::GcCommitted { target: t, .. } if t.is_some() == target))
        };
        (
            it.disk.operations() - before,
            (kinds(true), kinds(false), it.told.count(|e| matches!(e, Event::Evicted { .. }))),
        )
    };
    assert!(kinds.0 >= 1 && kinds.2 >= 1 && kinds.1 > kinds.2, "{kinds:?}");
    for (moment, errno) in (1..=operations).flat_map(|moment| [(moment, EIO), (moment, ENOSPC)]) {
        let answers = Arc::new(Answers::default());
        let it = every_kind(&answers);
        it.disk.fail_at(it.disk.operations() + moment, Fault::Errno(errno));
        let last = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let (sink, asked) = (Arc::clone(&last), Arc::clone(&answers));
        it.disk.watch(move |op, point| {
            if matches!(op.kind, OpKind::SyncDir | OpKind::Unlink) {
                sink.lock().push((keys_asked(&asked), point.least(), point.most()));
            }
        });
        it.settle();
        it.settle();
        it.disk.unwatch();
        let when = || format!("operation {moment} of {operations} fails with {errno}: {:?}", it.told.names());
        promises_hold(&it, &keys_asked(&answers), &when);
        assert!(it.physical_bytes() <= 25_000 && it.physical_bytes() == it.blocks_of_data(), "{}", when());
        assert_eq!(it.store.gc.open_rounds(), 0, "{}", when());
        for (asked, least, most) in last.lock().iter().step_by(2) {
            for image in [least, most] {
                let restarted = Fixture::restarted(image).unwrap_or_else(|error| panic!("{error}: {}", when()));
                promises_hold(&restarted, asked, &|| format!("{image:?}, {}", when()));
            }
        }
    }
}
