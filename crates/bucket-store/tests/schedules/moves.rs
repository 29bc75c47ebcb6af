//! Owns evictions and writes beside each other and beside readers.

use bucket_store::StoreErrorKind;
use shuttle::thread;

use crate::deletes::spawn;
use crate::explore::explore;
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
    explore("evict", SITUATIONS, |reached| {
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
    explore("write_twice", SITUATIONS, |reached| {
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
    explore("publish", SITUATIONS, |reached| {
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
