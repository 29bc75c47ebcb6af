//! Owns the tests of deletes that meet each other, a write, a read or GC. Threads are held in place by the simulated disk, not by time.

#![allow(clippy::disallowed_methods, reason = "the tests have threads of their own and wait for them")]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::{CrashStates, OpKind, SimDisk, on};
use bucket_store::{Config, ReadRequest, Store, WriteObject};
use ha_types::{Entropy as _, SeededEntropy};

use crate::kit::{builder, config, delete, image, incarnation, key, open, open_heard, table};

const GENEROUS: Duration = Duration::from_secs(60);

fn read(store: &Store, name: &str) -> Option<Vec<u8>> {
    store.read(&ReadRequest::whole(&key(name))).ok()
}

fn write(store: &Store, names: &[String], n: u8) {
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    let object = |(key, name)| WriteObject { key, incarnation: incarnation(n), value: bytes(name), placement: None };
    let objects: Vec<_> = keys.iter().map(Vec::as_slice).zip(names).map(object).collect();
    store.write(&objects).unwrap();
}

fn bytes(name: &String) -> &[u8] {
    name.as_bytes()
}

/// Waits until a delete has hidden the object.
fn until_hidden(store: &Store, name: &str) {
    let begun = Instant::now();
    while store.find(&key(name)).is_some() {
        assert!(begun.elapsed() < GENEROUS, "{name} is still there");
        thread::yield_now();
    }
}

/// The renames of tables so far.
fn publishes(disk: &SimDisk) -> usize {
    disk.log().iter().filter(|op| op.kind == OpKind::Rename && op.to.ends_with(".meta")).count()
}

#[test]
fn deletes_that_wait_for_a_table_share_its_next_write() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2), ("c", 1, 3), ("d", 1, 4)])]));
    let store = Arc::new(open(&disk));
    disk.record();
    let (joined, results) = mpsc::channel();
    let others = Arc::clone(&store);
    disk.when(on(OpKind::SyncData, ".tmp"), move || {
        // The first delete holds the table. Three more come: of the same object, and of two others.
        for name in ["a", "b", "c"] {
            let (store, joined) = (Arc::clone(&others), joined.clone());
            thread::spawn(move || joined.send((name, delete(&store, &[(name, 1)]))).unwrap());
        }
        ["b", "c"].iter().for_each(|name| until_hidden(&others, name));
    });
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    let mut all: Vec<_> = (0..3).map(|_| results.recv_timeout(GENEROUS).unwrap()).collect();
    all.sort();
    for ((name, words), expected) in all.iter().zip(["a", "b", "c"]) {
        assert_eq!(*name, expected);
        assert!(words == &["Removed"] || (*name == "a" && words == &["AlreadyRemoved"]), "{name}: {words:?}");
    }
    assert_eq!(publishes(&disk), 2, "b and c share one");
    assert_eq!(delete(&store, &[("d", 1)]), ["Removed"]);
}

#[test]
fn a_delete_of_what_is_being_written_is_busy_and_of_what_it_replaces_is_not() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
    let store = Arc::new(open(&disk));
    let (other, seen) = (Arc::clone(&store), Arc::new(AtomicUsize::new(0)));
    let ran = Arc::clone(&seen);
    disk.when(on(OpKind::SyncData, ".bucket"), move || {
        let words = delete(&other, &[("a", 2), ("a", 3), ("a", 1), ("new", 9)]);
        assert_eq!(words, ["Retryable BUSY", "Retryable BUSY", "Removed", "Retryable BUSY"]);
        ran.store(1, SeqCst);
    });
    let keys = [key("a"), key("new")];
    let objects = [(&keys[0], 2), (&keys[1], 9)].map(|(key, n)| WriteObject {
        key,
        incarnation: incarnation(n),
        value: b"value",
        placement: None,
    });
    store.write(&objects).unwrap();
    assert_eq!(seen.load(SeqCst), 1);
    assert_eq!((read(&store, "a"), read(&store, "new")), (Some(b"value".to_vec()), Some(b"value".to_vec())));
    assert_eq!(delete(&store, &[("a", 3), ("a", 2), ("new", 9)]), ["StaleVersion", "Removed", "Removed"]);
    drop(store);
    let store = open(&disk);
    assert_eq!((read(&store, "a"), read(&store, "new")), (None, None));
}

#[test]
fn a_read_that_has_begun_gets_its_bytes_and_the_next_one_gets_nothing() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
    let store = Arc::new(open(&disk));
    let other = Arc::clone(&store);
    disk.when(on(OpKind::Read, "1.bucket"), move || {
        assert_eq!(delete(&other, &[("a", 1)]), ["Removed"]);
        // GC takes the whole bucket away under the reader.
        while other.gc_step() == GcStep::Again {}
    });
    assert_eq!(read(&store, "a"), Some("a".repeat(50).into_bytes()));
    assert!(disk.image().bytes("1.bucket").is_none(), "the bucket is gone");
    assert_eq!(read(&store, "a"), None);
}

#[test]
fn d5_two_incarnations_deleted_at_once_never_bring_the_older_back() {
    for round in 0..50 {
        let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2)]), (3, &[("b", 1, 3)])]));
        let store = open(&disk);
        disk.watch(move |op, point| {
            for image in point.images(CrashStates::default()) {
                let (older, newer) = (table(&image, 1)[0].1, table(&image, 2)[0].1);
                assert!(older || !newer, "round {round}, {op}: incarnation 1 would be back");
            }
        });
        let barrier = Barrier::new(3);
        thread::scope(|threads| {
            for object in [("a", 1), ("a", 2), ("b", 1)] {
                let (store, barrier) = (&store, &barrier);
                threads.spawn(move || {
                    barrier.wait();
                    let words = delete(store, &[object]);
                    // What is replaced is tombstoned on the way to the tombstone of what replaced it.
                    let buried = object == ("a", 1) && words == ["AlreadyRemoved"];
                    assert!(buried || words == ["Removed"], "{object:?} in round {round}: {words:?}");
                });
            }
        });
        assert!([1, 2, 3].iter().flat_map(|id| table(&disk.image(), *id)).all(|(_, dead)| dead));
    }
}

#[test]
fn many_threads_write_delete_and_collect_and_every_answer_holds_after_a_restart() {
    const THREADS: usize = 6;
    let disk = SimDisk::new();
    let config = Config { bucket_size_bytes: 2048, bucket_keys: 4, normal_dead_ratio: Some(0.25), ..config() };
    let store = builder().config(config.clone()).open(Arc::new(disk.mount().unwrap())).unwrap();
    let rounds_of_gc = AtomicUsize::new(0);
    let running = AtomicUsize::new(THREADS);
    let kept: Vec<Vec<String>> = thread::scope(|threads| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (store, running) = (&store, &running);
                threads.spawn(move || {
                    let _runs = Runs(running);
                    one_thread(store, thread)
                })
            })
            .collect();
        threads.spawn(|| {
            while running.load(SeqCst) > 0 {
                if store.gc_step() == GcStep::Again {
                    rounds_of_gc.fetch_add(1, SeqCst);
                }
                thread::yield_now();
            }
        });
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(rounds_of_gc.load(SeqCst) > 10, "GC never had anything to do");
    drop(store);
    let store = builder().config(config).open(Arc::new(disk.mount().unwrap())).unwrap();
    for (thread, kept) in kept.iter().enumerate() {
        for at in 0..ROUNDS * 4 {
            let name = format!("{thread}-{at}");
            let expected = kept.contains(&name).then(|| name.clone().into_bytes());
            assert_eq!(read(&store, &name), expected, "{name}");
        }
    }
}

/// Counts a thread that ends, also by a panic.
struct Runs<'a>(&'a AtomicUsize);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

const ROUNDS: usize = 40;

/// Writes objects of its own and deletes most of them, some of them twice at once. Gives those that it kept.
fn one_thread(store: &Store, thread: usize) -> Vec<String> {
    let entropy = SeededEntropy::new(thread as u64 + 1);
    let mut kept: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let names: Vec<_> = (0..4).map(|at| format!("{thread}-{}", round * 4 + at)).collect();
        write(store, &names, 1);
        kept.extend(names);
        let doomed: Vec<_> = (0..3).map(|_| kept.swap_remove(entropy.next_u64() as usize % kept.len())).collect();
        let mut requests: Vec<_> = doomed.iter().map(|name| (name.as_str(), 1)).collect();
        requests.push(requests[0]);
        requests.push((requests[1].0, 2));
        let begun = Instant::now();
        loop {
            let words = delete(store, &requests);
            if words[..4].iter().all(|word| word == "Removed" || word == "AlreadyRemoved" || word == "StaleVersion") {
                assert_eq!(words[4], "StaleVersion");
                break;
            }
            // A commit that is not certain yet, at worst.
            assert!(words.iter().all(|word| !word.starts_with("Retryable") || word.ends_with("BUSY")), "{words:?}");
            assert!(begun.elapsed() < GENEROUS, "{words:?}");
        }
        assert!(doomed.iter().all(|name| read(store, name).is_none()));
        assert!(kept.iter().all(|name| read(store, name).is_some()));
    }
    kept
}

#[test]
fn the_events_tell_one_publish_for_all_who_share_it() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2), ("c", 1, 3)])]));
    let (store, heard) = open_heard(&disk);
    assert_eq!(delete(&store, &[("a", 1), ("b", 1)]), ["Removed"; 2]);
    assert_eq!(heard.count("TombstonesPublished { bucket: BucketId(1), tombstones: 2,"), 1);
    assert_eq!(heard.count("TombstonesPublished"), 1);
}
