//! Owns evictions and writes beside each other and beside readers.

use bucket_store::vfs::sim::{EIO, Fault, OpKind, on};
use bucket_store::{DeleteOutcome, StoreErrorKind};
use shuttle::thread;

use crate::SCHEDULES;
use crate::deletes::spawn;
use crate::world::World;

#[test]
fn an_eviction_beside_a_delete_a_write_and_a_reader() {
    const SITUATIONS: &[&str] = &[
        "the reader saw it",
        "the reader saw nothing",
        "the write waited for the eviction",
        "the new one was evicted too",
        "the new one stayed",
    ];
    SCHEDULES.explore("evict", SITUATIONS, |reached| {
        let world = World::under_pressure();
        world.write(&[("a", 1), ("b", 2)]).expect("room");
        let evictor = spawn(&world, |world| {
            for _ in 0..6 {
                world.store.gc_step();
            }
        });
        let reader = {
            let reached = reached.clone();
            spawn(&world, move |world| {
                for _ in 0..20 {
                    let seen = world.read("b");
                    assert!(matches!(seen, None | Some(2)));
                    reached.mark(if seen.is_some() { "the reader saw it" } else { "the reader saw nothing" });
                    thread::yield_now();
                }
            })
        };
        let writer = {
            let reached = reached.clone();
            spawn(&world, move |world| {
                while let Err(error) = world.write(&[("a", 3)]) {
                    assert_eq!(error.kind(), StoreErrorKind::Busy, "{error}");
                    reached.mark("the write waited for the eviction");
                    thread::yield_now();
                }
            })
        };
        world.delete_until_done("a", 1);
        evictor.join().expect("the evictor");
        reader.join().expect("the reader");
        writer.join().expect("the writer");
        let kept = world.read("a");
        reached.mark(if kept.is_some() { "the new one stayed" } else { "the new one was evicted too" });
        assert!(matches!(kept, None | Some(3)), "what was deleted or evicted does not come back: {kept:?}");
        assert_eq!(world.close(&["a", "b"]), [None, None], "there is room for nothing");
    });
}

#[test]
fn two_writes_of_one_key_beside_a_delete() {
    const SITUATIONS: &[&str] = &["one was refused as busy", "one after the other", "the last one is the newer one"];
    SCHEDULES.explore("write_twice", SITUATIONS, |reached| {
        let world = World::new();
        let other = spawn(&world, |world| world.write(&[("b", 9), ("a", 1)]));
        let mine = world.write(&[("a", 2)]);
        let deleted = world.delete_until_done("a", 7);
        assert!(matches!(deleted, bucket_store::DeleteOutcome::StaleVersion), "{deleted:?}");
        let other = other.join().expect("the other write");
        for result in [&mine, &other] {
            assert!(result.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Busy) || result.is_ok());
        }
        assert!(mine.is_ok() || other.is_ok(), "one of them has the key");
        reached.mark(if mine.is_ok() && other.is_ok() { "one after the other" } else { "one was refused as busy" });
        let served = world.read("a");
        reached.mark_if(served == Some(2), "the last one is the newer one");
        assert!(served == Some(2) && mine.is_ok() || served == Some(1) && other.is_ok(), "{served:?}");
        let after = world.close(&["a", "b"]);
        assert_eq!(after, [served, other.is_ok().then_some(9)]);
    });
}

#[test]
fn what_is_published_beside_a_delete_of_it() {
    const SITUATIONS: &[&str] = &["published before it was deleted", "deleted before it was published"];
    SCHEDULES.explore("publish", SITUATIONS, |reached| {
        let world = World::relaxed();
        world.write(&[("a", 1), ("b", 2)]).expect("room");
        let publisher = spawn(&world, |world| world.store.publish_pending().expect("the disk works"));
        let pending = world.store.figures().pending_bytes > 0;
        world.delete_until_done("a", 1);
        publisher.join().expect("the publisher");
        reached.mark(if pending { "deleted before it was published" } else { "published before it was deleted" });
        assert_eq!(world.close(&["a", "b"]), [None, Some(2)]);
    });
}

#[test]
fn a_delete_and_a_reader_beside_the_writing_anew_of_their_bucket() {
    const SITUATIONS: &[&str] = &[
        "the delete came while it was copied",
        "the delete found the sync failed and copied",
        "the delete came before the sync failed",
        "the delete came when it was swapped",
        "the reader read the old one",
        "the reader read the new one",
    ];
    SCHEDULES.explore("write_anew", SITUATIONS, |reached| {
        let world = World::relaxed();
        world.write(&[("a", 1), ("b", 2)]).expect("room");
        let lost = world.bucket_of("b");
        world.disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
        let publisher = spawn(&world, |world| {
            while let Err(error) = world.store.publish_pending() {
                assert_eq!(error.code(), "DATA_BUSY", "{error}");
                thread::yield_now();
            }
        });
        let reader = {
            let reached = reached.clone();
            spawn(&world, move |world| {
                for _ in 0..6 {
                    let is_old = world.bucket_of("b") == lost;
                    assert_eq!(world.read("b"), Some(2), "nobody touches it");
                    reached.mark(if is_old { "the reader read the old one" } else { "the reader read the new one" });
                    thread::yield_now();
                }
            })
        };
        let failed_before = world.disk.faults_met() > 0;
        let swapped_before = world.bucket_of("b") != lost;
        let mut waited = false;
        loop {
            match world.delete("a", 1) {
                DeleteOutcome::Retryable(error) => {
                    assert_eq!(error.code(), "DATA_BUSY", "{error}");
                    assert_eq!(world.read("a"), None, "hidden for good");
                    waited = true;
                    thread::yield_now();
                }
                outcome => {
                    assert!(outcome.is_terminal(), "{outcome:?}");
                    break;
                }
            }
        }
        let swapped = world.bucket_of("b") != lost;
        publisher.join().expect("the publisher");
        reader.join().expect("the reader");
        reached.mark_if(waited, "the delete came while it was copied");
        reached.mark_if(!failed_before && !waited && swapped, "the delete found the sync failed and copied");
        reached.mark_if(!failed_before, "the delete came before the sync failed");
        reached.mark_if(swapped_before, "the delete came when it was swapped");
        assert_ne!(world.bucket_of("b"), lost, "the lost one is gone");
        assert_eq!(world.close(&["a", "b"]), [None, Some(2)]);
    });
}
