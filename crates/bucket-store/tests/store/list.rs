//! Owns the tests of the walk over live objects.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::SimDisk;
use bucket_store::{Config, DeleteRequest, Store, StoreErrorKind, WriteObject};

use crate::kit::{builder, config, delete, inc, key, list, open, open_with, value, write_all};

#[test]
fn pages_of_every_size_give_every_live_object_once() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let names: Vec<_> = (0..23).map(|n| format!("{n:02}")).collect();
    let objects: Vec<_> = names.iter().zip(1..).map(|(name, seed)| (&**name, seed)).collect();
    write_all(&store, &objects).unwrap();
    for n in [0, 5, 22] {
        delete(&store, &names[n], n as u64 + 1);
    }
    let live: Vec<_> = (0..23).filter(|n| ![0, 5, 22].contains(n)).map(|n| key(&names[n])).collect();
    for most in [1, 2, 3, 7, 20, 21, 100] {
        let listed: Vec<_> = list(&store, most).into_iter().map(|(key, _)| key).collect();
        assert_eq!(listed, live, "in pages of {most}");
    }
    assert_eq!(list(&open(&SimDisk::new()), 5), []);
}

#[test]
fn a_page_of_none_or_too_many_is_refused() {
    let store = open(&SimDisk::new());
    for most in [0, 10_001] {
        let error = store.list(None, most).unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "ARGUMENT"));
        assert_eq!(error.to_string(), format!("most is {most}; give 1 to max_list_page, which is 10000"));
    }
}

#[test]
fn what_lives_throughout_is_met_whatever_gc_moves_meanwhile() {
    let mut moved = false;
    for steps_between in 1..30 {
        let disk = SimDisk::new();
        let eager = Config { normal_dead_ratio: Some(0.1), gc_copy_share: 1.0, ..config() };
        let store = open_with(builder().config(eager), &disk).unwrap();
        let names: Vec<_> = (0..40).map(|n| key(&format!("{n:02}"))).collect();
        let bytes = value(1, 5000);
        let object = |(key, n)| WriteObject { key, incarnation: inc(n), value: &bytes, placement: None };
        let objects: Vec<_> = names.iter().map(Vec::as_slice).zip(1..).map(object).collect();
        store.write(&objects).unwrap();
        let dead = |n: &usize| n.is_multiple_of(2);
        let doomed: Vec<_> =
            (0..40).filter(dead).map(|n| DeleteRequest { key: &names[n], incarnation: inc(n as u64 + 1) }).collect();
        store.delete(&doomed).unwrap();
        let lives: BTreeSet<_> = (0..40).filter(|n| !dead(n)).map(|n| names[n].clone()).collect();
        let first = store.find(&names[1]).unwrap().bucket;
        let (mut met, mut after) = (BTreeSet::new(), None);
        loop {
            let page = store.list(after, 3).unwrap();
            met.extend(page.objects.into_iter().map(|object| object.key.to_vec()));
            for _ in 0..steps_between {
                assert!(matches!(store.gc_step(), GcStep::Again | GcStep::Idle(_)));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        moved |= store.find(&names[1]).unwrap().bucket != first;
        assert_eq!(met, lives, "after {steps_between} steps a page");
    }
    assert!(moved, "GC moved nothing in any of these");
}

/// Raises these flags when it is dropped.
struct Raises<'a>([&'a AtomicBool; 2]);

impl Drop for Raises<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, SeqCst));
    }
}

/// Writes objects of more than a block into one bucket: smaller ones are not worth a copy.
fn write_large(store: &Store, objects: &[(&str, u64)]) {
    let made: Vec<_> = objects.iter().map(|(name, n)| (key(name), inc(*n), value(*n, 5000))).collect();
    let objects: Vec<_> = made
        .iter()
        .map(|(key, incarnation, value)| WriteObject { key, incarnation: *incarnation, value, placement: None })
        .collect();
    store.write(&objects).unwrap();
}

#[test]
fn what_lives_throughout_is_met_while_others_write_replace_delete_and_collect() {
    let (mut moved, mut grown) = (0, 0);
    for round in 0..100 {
        let eager = Config { normal_dead_ratio: Some(0.1), gc_copy_share: 1.0, ..config() };
        let store = open_with(builder().config(eager), &SimDisk::new()).unwrap();
        let name = |what: &str, n: u64| format!("{what}{n:02}");
        // Each bucket has one that stays, one that goes before anybody looks, and one that is replaced again and again.
        for n in 0..20 {
            let names = [name("stays", n), name("gone", n), name("changes", n)];
            write_large(&store, &[(&names[0], 3 * n + 1), (&names[1], 3 * n + 2), (&names[2], 3 * n + 3)]);
            delete(&store, &names[1], 3 * n + 2);
        }
        let stays: BTreeSet<_> = (0..20).map(|n| key(&name("stays", n))).collect();
        let places = || stays.iter().map(|key| store.find(key).unwrap().bucket).collect::<Vec<_>>();
        let (ends, seen, steps) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            // Also when something below does not hold: the threads wait for these.
            let _guard = Raises([&ends, &seen]);
            let collector = scope.spawn(|| {
                while !ends.load(SeqCst) {
                    if store.gc_step() != GcStep::Again {
                        std::thread::yield_now();
                    }
                    steps.fetch_add(1, SeqCst);
                }
            });
            let writer = scope.spawn(|| {
                for n in 0..60 {
                    let (old, new) = (name("changes", n % 20), name("new", n));
                    write_large(&store, &[(&old, 1_000 + n), (&new, 2_000 + n)]);
                    if n % 3 == 0 {
                        assert!(delete(&store, &new, 2_000 + n).is_terminal());
                    }
                    // Neither side is through before the other has begun.
                    while n == 5 && !seen.load(SeqCst) {
                        std::thread::yield_now();
                    }
                }
            });
            while !writer.is_finished() || !seen.load(SeqCst) {
                let first = places();
                let (mut met, mut after) = (BTreeSet::new(), None);
                loop {
                    let page = store.list(after, 7).unwrap();
                    assert!(page.objects.len() <= 7);
                    // Between two pages GC does something, however the threads are put on processors.
                    let done = steps.load(SeqCst);
                    while steps.load(SeqCst) == done && !collector.is_finished() {
                        std::thread::yield_now();
                    }
                    met.extend(page.objects.into_iter().map(|object| object.key.to_vec()));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                seen.store(true, SeqCst);
                assert!(met.is_superset(&stays), "in round {round}: {:?}", stays.difference(&met).next());
                assert!(!met.iter().any(|key| key.starts_with(b"t\0gone")), "what was deleted before is listed");
                moved += u32::from(places() != first);
                grown += u32::from(met.iter().any(|key| key.starts_with(b"t\0new")));
            }
        });
        store.audit().unwrap();
        if moved >= 3 && grown >= 3 && round >= 2 {
            return;
        }
    }
    panic!("in a walk GC moved something {moved} times, and {grown} times a new object was met");
}
