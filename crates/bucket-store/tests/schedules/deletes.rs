//! Owns deletes beside merges, evictions, writes and each other: an answer that ends a delete is the truth for ever.

use bucket_store::DeleteOutcome;
use shuttle::thread;

use crate::SCHEDULES;
use crate::world::World;

#[test]
fn a_delete_beside_a_merge_and_a_reader() {
    const SITUATIONS: &[&str] = &[
        "the reader saw it",
        "the reader saw nothing",
        "what was deleted had been moved",
        "what was deleted was never moved",
        "the other one was moved",
    ];
    SCHEDULES.explore("delete_and_merge", SITUATIONS, |reached| {
        let world = World::new();
        world.write(&[("a", 1), ("b", 2), ("c", 3), ("d", 4)]).expect("room");
        world.delete_until_done("b", 2);
        world.delete_until_done("d", 4);
        let before = (world.bucket_of("a"), world.bucket_of("c"));
        let collector = spawn(&world, World::collect);
        let reader = {
            let reached = reached.clone();
            spawn(&world, move |world| {
                for _ in 0..2 {
                    let seen = world.read("a");
                    reached.mark(if seen.is_some() { "the reader saw it" } else { "the reader saw nothing" });
                    assert_eq!(world.read("c"), Some(3), "nobody touches it");
                }
            })
        };
        let moved = world.bucket_of("a") != before.0;
        let outcome = world.delete_until_done("a", 1);
        assert!(matches!(outcome, DeleteOutcome::Removed), "{outcome:?}");
        assert_eq!(world.read("a"), None);
        collector.join().expect("the collector");
        reader.join().expect("the reader");
        reached.mark(if moved { "what was deleted had been moved" } else { "what was deleted was never moved" });
        reached.mark_if(world.bucket_of("c") != before.1, "the other one was moved");
        assert_eq!(world.close(&["a", "b", "c", "d"]), [None, None, Some(3), None]);
    });
}

#[test]
fn two_deletes_of_one_object_beside_gc() {
    const SITUATIONS: &[&str] = &["both removed it", "one removed it, one found it removed", "one found it gone"];
    SCHEDULES.explore("delete_twice", SITUATIONS, |reached| {
        let world = World::new();
        world.write(&[("a", 1), ("b", 2)]).expect("room");
        let collector = spawn(&world, World::collect);
        let other = spawn(&world, |world| world.delete_until_done("a", 1));
        let mine = world.delete_until_done("a", 1);
        let other = other.join().expect("the other delete");
        collector.join().expect("the collector");
        let removed = [&mine, &other].iter().filter(|outcome| matches!(outcome, DeleteOutcome::Removed)).count();
        let already = [&mine, &other].iter().filter(|outcome| matches!(outcome, DeleteOutcome::AlreadyRemoved)).count();
        assert!(removed > 0, "{mine:?} {other:?}");
        reached.mark_if(removed == 2, "both removed it");
        reached.mark_if(already == 1, "one removed it, one found it removed");
        reached.mark_if(removed + already == 1, "one found it gone");
        assert_eq!(world.close(&["a", "b"]), [None, Some(2)]);
    });
}

#[test]
fn a_delete_beside_the_write_that_replaces_its_object() {
    const SITUATIONS: &[&str] =
        &["removed before it was replaced", "removed when it was replaced", "merged on the way"];
    SCHEDULES.explore("delete_and_write", SITUATIONS, |reached| {
        let world = World::new();
        world.write(&[("a", 1), ("b", 2)]).expect("room");
        let before = world.bucket_of("b");
        let writer = spawn(&world, |world| world.write(&[("a", 3)]).map(drop));
        let collector = spawn(&world, World::collect);
        let replaced = world.read("a") == Some(3);
        let outcome = world.delete_until_done("a", 1);
        assert!(outcome.is_terminal());
        writer.join().expect("the writer").expect("nobody else writes");
        collector.join().expect("the collector");
        reached.mark(if replaced { "removed when it was replaced" } else { "removed before it was replaced" });
        reached.mark_if(world.bucket_of("b") != before, "merged on the way");
        assert_eq!(world.close(&["a", "b"]), [Some(3), Some(2)], "incarnation 3 is none of this delete's");
    });
}

#[test]
fn a_delete_of_the_newest_buries_what_it_replaced() {
    const SITUATIONS: &[&str] = &["in sync", "relaxed"];
    SCHEDULES.explore("bury_first", SITUATIONS, |reached| {
        for relaxed in [false, true] {
            let world = if relaxed { World::relaxed() } else { World::new() };
            world.write(&[("a", 1), ("b", 2)]).expect("room");
            world.store.publish_pending().expect("the disk works");
            world.write(&[("a", 3), ("c", 4)]).expect("room");
            let collector = spawn(&world, World::collect);
            let publisher = spawn(&world, |world| world.store.publish_pending().expect("the disk works"));
            world.delete_until_done("a", 3);
            collector.join().expect("the collector");
            publisher.join().expect("the publisher");
            reached.mark(if relaxed { "relaxed" } else { "in sync" });
            assert_eq!(world.close(&["a", "b", "c"]), [None, Some(2), Some(4)], "the older one does not come back");
        }
    });
}

/// A task with the world in its hands.
pub(crate) fn spawn<T: Send + 'static>(
    world: &World,
    task: impl FnOnce(&World) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let world = world.clone();
    thread::spawn(move || task(&world))
}
