//! Power losses at every operation of a round, and what a restart then finds. Rows B1, B4, B5, B6, B8.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::fixture::*;
use crate::format::names::GC_INTENT;
use crate::gc::GcStep;
use crate::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Image, OpKind, SimDisk};

/// What a restart must find: by key, the incarnation and length that is live for certain, or nothing for certain. A key that is not named may
/// be either.
#[derive(Clone, Debug, Default)]
struct Promised {
    live: BTreeMap<u64, (u64, usize)>,
    dead: Vec<u64>,
}

impl Promised {
    fn check(&self, it: &Fixture, when: &dyn Fn() -> String) {
        it.audit();
        for (key, (incarnation, len)) in &self.live {
            assert!(it.read(*key) == Some(value(*key, *incarnation, *len)), "key {key} is lost: {}", when());
        }
        for key in &self.dead {
            assert!(it.read(*key).is_none(), "key {key} is back: {}", when());
        }
    }

    /// A restart on this image, and another after GC has gone on from there.
    fn check_restart(&self, image: &Image, when: &str) {
        let describe = || format!("{when}, {image:?}");
        let it = Fixture::restarted(image).unwrap_or_else(|error| panic!("{error}: {}", describe()));
        self.check(&it, &describe);
        it.settle();
        self.check(&it, &describe);
        let it = it.reopen();
        self.check(&it, &describe);
    }
}

/// Two buckets: keys 1 to 5, of which 1 and 5 are deleted for certain. Every value is more than a unit of the disk, and few units in all.
fn two_buckets() -> (Fixture, Promised) {
    let it = Fixture::new();
    it.put(&[(1, 1, 5_000), (2, 1, 700)]);
    it.put(&[(3, 1, 5_000), (4, 1, 600), (5, 1, 4_500)]);
    assert!(it.delete(1, 1) && it.delete(5, 1));
    let live = [(2, (1, 700)), (3, (1, 5_000)), (4, (1, 600))].into();
    (it, Promised { live, dead: vec![1, 5] })
}

/// Every distinct image that a power loss during `run` may leave, with what was promised at that moment.
fn images_during(
    it: &Fixture,
    promised: &Arc<Mutex<Promised>>,
    run: impl FnOnce(&Fixture),
) -> Vec<(String, Image, Promised)> {
    let found = Arc::new(Mutex::new((HashSet::new(), Vec::new())));
    let (sink, now) = (Arc::clone(&found), Arc::clone(promised));
    it.disk.watch(move |op, point| {
        let (seen, images) = &mut *sink.lock();
        let promised = now.lock().clone();
        // Units of a file that no table names yet are many and say nothing: a sample of their subsets is enough.
        for image in point.images(CrashStates { exhaustive_up_to: 8, samples: 8, ..CrashStates::default() }) {
            if seen.insert((image.fingerprint(), promised.dead.len())) {
                images.push((op.to_string(), image, promised.clone()));
            }
        }
    });
    run(it);
    it.disk.unwatch();
    std::mem::take(&mut found.lock().1)
}

#[test]
fn b1_b3_b6_power_loss_at_every_operation_of_a_round() {
    let (it, promised) = two_buckets();
    let promised = Arc::new(Mutex::new(promised));
    let images = images_during(&it, &promised, |it| assert_ne!(it.settle(), GcStep::Busy));
    assert_eq!(it.buckets().len(), 1);
    assert!(images.len() > 60, "only {} images", images.len());
    let mut with = [0; 3];
    for (when, image, promised) in &images {
        with[match image.bytes(GC_INTENT).map(|bytes| crate::format::intent::Intents::decode(&bytes).unwrap().rounds) {
            None => 0,
            Some(rounds) if matches!(rounds[0], crate::format::intent::Round::Prepared { .. }) => 1,
            Some(_) => 2,
        }] += 1;
        promised.check_restart(image, when);
    }
    assert!(with.iter().all(|count| *count > 0), "no intent, PREPARED, COMMITTED: {with:?}");
}

#[test]
fn b5_a_delete_between_copy_and_commit_is_dead_in_the_target_at_every_crash_point() {
    // The last bytes are copied: the sync of the target is next.
    let (it, promised) = two_buckets();
    let promised = Arc::new(Mutex::new(promised));
    let (store, told) = (Arc::clone(&it.store), Arc::clone(&promised));
    it.disk.when(
        |op| op.kind == OpKind::SyncData && op.name.ends_with(".bucket"),
        move || {
            told.lock().live.remove(&3);
            assert!(delete(&store, 3, 1));
            told.lock().dead.push(3);
        },
    );
    let images = images_during(&it, &promised, |it| assert_ne!(it.settle(), GcStep::Busy));
    assert_eq!(promised.lock().dead, [1, 5, 3], "the delete never came");
    assert_eq!(it.read(3), None);
    for (when, image, promised) in &images {
        promised.check_restart(image, when);
    }
}

#[test]
fn b5_deletes_at_every_moment_of_a_round() {
    let operations = {
        let (it, _) = two_buckets();
        let before = it.disk.operations();
        it.settle();
        it.disk.operations() - before
    };
    let mut acted = 0;
    for moment in 1..=operations {
        let (it, promised) = two_buckets();
        let promised = Arc::new(Mutex::new(promised));
        let number = it.disk.operations() + moment;
        let (store, told) = (Arc::clone(&it.store), Arc::clone(&promised));
        let in_commit = Arc::new(Mutex::new(false));
        let waits = Arc::clone(&in_commit);
        it.disk.when(
            move |op| op.number == number,
            move || {
                // In the commit section the delete would wait for this very thread; that is row B4.
                let state = store.state.read();
                let locked = state.buckets().any(|bucket| bucket.bucket().publish.try_lock().is_none());
                drop(state);
                if locked {
                    *waits.lock() = true;
                    return;
                }
                told.lock().live.remove(&3);
                assert!(delete(&store, 3, 1));
                told.lock().dead.push(3);
            },
        );
        let images = images_during(&it, &promised, |it| assert_ne!(it.settle(), GcStep::Busy));
        if *in_commit.lock() {
            continue;
        }
        acted += 1;
        assert_eq!(it.read(3), None);
        for (when, image, promised) in images.iter().step_by(5) {
            promised.check_restart(image, &format!("delete at {moment}, {when}"));
        }
    }
    assert!(acted > 8, "{acted} of {operations}");
}

#[test]
fn b8_whatever_operation_of_a_round_fails_nothing_is_lost_and_gc_ends() {
    let operations = {
        let (it, _) = two_buckets();
        let before = it.disk.operations();
        it.settle();
        it.disk.operations() - before
    };
    for (moment, errno) in (1..=operations).flat_map(|moment| [(moment, EIO), (moment, ENOSPC)]) {
        let (it, promised) = two_buckets();
        it.disk.fail_at(it.disk.operations() + moment, Fault::Errno(errno));
        let promised = Arc::new(Mutex::new(promised));
        let images = images_during(&it, &promised, |it| {
            // Twice: a step that cannot learn how much room there is has nothing to do.
            it.settle();
            it.settle();
        });
        let promised = promised.lock().clone();
        let when = format!("operation {moment} fails with {errno}");
        promised.check(&it, &|| when.clone());
        let dead = it.store.state.read().totals().dead();
        assert_eq!(dead.records, 0, "{when}: GC did not end: {:?}", it.told.names());
        assert_eq!(it.physical_bytes(), it.blocks_of_data(), "{when}");
        assert!(it.disk.image().bytes(GC_INTENT).is_none(), "{when}: an intent is left");
        for (at, image, promised) in &images {
            promised.check_restart(image, &format!("{when}, {at}"));
        }
    }
}

#[test]
fn b6_a_crash_between_the_two_publishes_of_a_commit_goes_back_and_after_both_forward() {
    // 1: PREPARED; 2: the target's table; 3: COMMITTED; each by its rename, durable by the sync that follows.
    let (it, promised) = two_buckets();
    let sources = it.buckets();
    let moments = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&moments);
    let renamed = Mutex::new(false);
    it.disk.watch(move |op, point| {
        let mut renamed = renamed.lock();
        if op.kind == OpKind::SyncDir && std::mem::take(&mut *renamed) {
            sink.lock().push(point.least());
        }
        *renamed |= op.kind == OpKind::Rename;
    });
    it.settle();
    it.disk.unwatch();
    let moments = std::mem::take(&mut *moments.lock());
    assert_eq!(moments.len(), 3);
    for (image, forward) in moments.iter().zip([false, false, true]) {
        let it = Fixture::restarted(image).unwrap();
        promised.check(&it, &|| format!("{image:?}"));
        if forward {
            assert!(it.buckets().iter().all(|id| !sources.contains(id)), "went back from COMMITTED");
        } else {
            assert_eq!(it.buckets(), sources, "did not go back from PREPARED");
        }
        let again = SimDisk::of(&it.disk.image());
        drop(it);
        let it = Fixture::on(again, config(), None).unwrap();
        promised.check(&it, &|| format!("a second restart on {image:?}"));
    }
}
