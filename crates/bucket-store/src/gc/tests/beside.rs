//! What GC is to everybody else: no lock is held over its I/O, its figures are told, and what came from elsewhere is collected as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::fixture::*;
use crate::config::Config;
use crate::format::names::BucketId;
use crate::gc::facts::Hold;
use crate::gc::plan::Verdict;
use crate::gc::{Evictor, GcStep};
use crate::observer::Event;
use crate::store::Adoption;
use crate::vfs::sim::{Image, OpKind, SimDisk};

#[test]
fn no_operation_of_a_round_is_done_under_the_index_lock_and_no_copy_under_a_tables() {
    let answers = Arc::new(Answers::default());
    let config = Config { capacity_bytes: 1_100_000, high_watermark: 0.9, low_watermark: 0.6, ..config() };
    let it = Fixture::with(config, Some(Arc::clone(&answers) as Arc<dyn Evictor>));
    for b in 0..10 {
        it.put(&[(b * 10, 1, 60_000), (b * 10 + 1, 1, 40_000)]);
    }
    assert!(it.delete(0, 1) && it.delete(10, 1) && it.delete(20, 1) && it.delete(21, 1));
    let (seen, copies) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let begin = it.disk.operations();
    for number in begin + 1..begin + 500 {
        let (store, seen, copies) = (Arc::downgrade(&it.store), Arc::clone(&seen), Arc::clone(&copies));
        let is_copy = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_copy);
        it.disk.when(
            move |op| {
                let copies = matches!(op.kind, OpKind::Read | OpKind::Write | OpKind::SyncData);
                told.store(copies && op.name.ends_with(".bucket"), SeqCst);
                op.number == number
            },
            move || {
                let store = store.upgrade().unwrap();
                let state = store.state.try_write().expect("the index lock is held over an operation of the disk");
                seen.fetch_add(1, SeqCst);
                if is_copy.load(SeqCst) {
                    copies.fetch_add(1, SeqCst);
                    let free = state.buckets().all(|bucket| bucket.bucket().publish.try_lock().is_some());
                    assert!(free, "a copy holds a table's lock");
                }
            },
        );
    }
    while it.store.gc_step() == GcStep::Again {}
    assert!(seen.load(SeqCst) > 40 && copies.load(SeqCst) > 3, "{seen:?}, {copies:?}");
    assert!(!answers.asked.lock().is_empty(), "nothing was evicted");
}

#[test]
fn figures_are_told_after_each_round_and_at_rest() {
    let it = Fixture::new();
    it.put(&[(1, 1, 90_000), (2, 1, 9_000)]);
    it.put(&[(3, 1, 9_000)]);
    assert!(it.delete(1, 1) && it.delete(3, 1));
    let before = it.blocks_of_data();
    it.settle();
    // One bucket is replaced, one goes: what is said to be free are the blocks of both.
    let freed = it.told.sum(|event| if let Event::GcCleaned { freed_bytes, .. } = event { *freed_bytes } else { 0 });
    assert_eq!(freed, before);
    let copied =
        it.told.sum(|event| if let Event::GcCommitted { copied_bytes, .. } = event { *copied_bytes } else { 0 });
    assert_eq!(copied.next_multiple_of(4096), it.blocks_of_data());
    let told = it.told.figures();
    let last = told.last().unwrap();
    assert_eq!((last.gc_candidates, last.gc_rounds_open, last.dead_bytes, last.buckets), (0, 0, 0, 1));
    assert_eq!(last.physical_bytes, it.blocks_of_data());
    assert!(told.iter().any(|figures| figures.gc_rounds_open == 1), "{told:?}");
    assert!(told.iter().any(|figures| figures.gc_candidates == 1 && figures.buckets == 1), "{told:?}");
}

#[test]
fn a_bucket_with_a_damaged_record_goes_by_eviction_only() {
    let answers = Arc::new(Answers::default());
    let config = Config {
        capacity_bytes: 500_000,
        bucket_size_bytes: 200_000,
        high_watermark: 0.6,
        low_watermark: 0.3,
        ..config()
    };
    let it = Fixture::with(config, Some(Arc::clone(&answers) as Arc<dyn Evictor>));
    let bad = it.put(&[(1, 1, 100_000), (2, 1, 9_000), (5, 1, 900)]);
    assert!(it.delete(1, 1));
    it.disk.flip_bit(&bad.data_name(), 105_000, 1).unwrap();
    it.step_while_again();
    assert!(matches!(it.store.gc_explain()[0].verdict, Verdict::Held(Hold::Suspect)), "{:?}", it.told.names());
    assert_eq!(it.buckets(), [bad.0]);
    it.put(&[(3, 1, 110_000)]);
    it.put(&[(4, 1, 110_000)]);
    it.clock.advance(it.store.config().gc_retry_max);
    it.settle();
    assert!(!it.buckets().contains(&bad.0), "{:?}", it.told.names());
    assert_eq!(answers.asked.lock()[0].0, bad.0);
}

/// Two buckets of Mooncake's: keys a and b in bucket 1, b (newer) and c in bucket 2.
fn mooncakes() -> Image {
    let (mut image, key) = (Image::default(), |key: &str| format!("default\0{key}"));
    for (id, objects) in [(1_u64, [("a", 70_000), ("b", 500)]), (2, [("b", 600), ("c", 90_000)])] {
        let (mut data, mut keys, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (name, len) in objects {
            let key = key(name);
            // proto3: field 1 offset (left out where 0), field 2 length of the key, field 3 length of the value.
            let mut place = if data.is_empty() { Vec::new() } else { [vec![0x08], varint(data.len() as u64)].concat() };
            place.extend([vec![0x10], varint(key.len() as u64), vec![0x18], varint(len)].concat());
            keys.extend([vec![0x12], varint(key.len() as u64), key.clone().into_bytes()].concat());
            places.extend([vec![0x1a], varint(place.len() as u64), place].concat());
            data.extend(key.into_bytes());
            data.extend((0..len).map(|i| (i * 3 + id) as u8));
        }
        let table = [vec![0x08], varint(data.len() as u64), keys, places].concat();
        image = image.with(&BucketId(id).data_name(), &data).with(&BucketId(id).table_name(), &table);
    }
    image
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

#[test]
fn an_adopted_directory_is_collected_into_buckets_of_ours() {
    let adopt = |disk: &SimDisk| {
        let builder = crate::Store::builder(marker(), Arc::new(ha_types::ManualClock::new())).config(config());
        builder.adoption(Adoption::OneWay).open(Arc::new(disk.mount().unwrap())).unwrap()
    };
    let read = |store: &crate::Store, key: &str| {
        let key = format!("default\0{key}").into_bytes();
        store.read(&crate::ReadRequest::whole(&key)).ok()
    };
    let bytes = |id: u64, len: u64| (0..len).map(|i| (i * 3 + id) as u8).collect::<Vec<u8>>();
    let disk = SimDisk::of(&mooncakes());
    let store = adopt(&disk);
    assert_eq!(read(&store, "b"), Some(bytes(2, 600)));
    let request = crate::DeleteRequest { key: b"default\0c", incarnation: ha_types::ObjectIncarnation::LEGACY };
    assert!(store.delete(&[request]).unwrap()[0].is_terminal());
    while store.gc_step() == GcStep::Again {
        store.audit().unwrap();
    }
    // Of bucket 2 only b is alive; bucket 1 is nearly all alive and stays as it is.
    let buckets: Vec<_> = store.state.read().buckets().map(|bucket| (bucket.id().0, bucket.bucket().layout)).collect();
    assert!(buckets.len() == 2 && buckets[0].0 == 1, "{buckets:?}");
    assert_eq!(buckets[1].1, crate::format::table::RecordLayout::Checksummed);
    drop(store);
    let store = adopt(&disk);
    assert_eq!(
        (read(&store, "a"), read(&store, "b"), read(&store, "c")),
        (Some(bytes(1, 70_000)), Some(bytes(2, 600)), None)
    );
}
