//! What changes under a round while it is under way, and what its callback does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use super::fixture::*;
use crate::config::{Config, Durability};
use crate::error::StoreErrorKind;
use crate::gc::facts::Hold;
use crate::gc::plan::{Idle, Verdict};
use crate::gc::{Evictor, GcStep};
use crate::observer::Event;
use crate::vfs::sim::{EIO, Fault, OpKind, nth, on};

/// Half of the capacity is used by two live buckets, and a third of it may.
fn two_live(answers: &Arc<Answers>, durability: Durability) -> Fixture {
    let config = Config {
        capacity_bytes: 300_000,
        bucket_size_bytes: 200_000,
        high_watermark: 0.5,
        low_watermark: 0.35,
        normal_dead_ratio: None,
        durability,
        ..config()
    };
    let it = Fixture::with(config, Some(Arc::clone(answers) as Arc<dyn Evictor>));
    it.put(&[(1, 1, 60_000), (2, 1, 20_000)]);
    it.put(&[(3, 1, 80_000)]);
    it.store.publish_pending().unwrap();
    it
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

/// The first bucket is evicted in one step, while a write of its key 1, which had the key in its hands before, is done. `then` is called in the
/// callback when the write has returned.
fn evict_beside_a_write(it: &Fixture, answers: &Answers, mut then: impl FnMut() + Send + 'static) {
    let flag = || Arc::new(AtomicBool::new(false));
    let (writing, asked, written) = (flag(), flag(), flag());
    it.disk.when(on(OpKind::Write, ".bucket"), {
        let (writing, asked) = (Arc::clone(&writing), Arc::clone(&asked));
        move || {
            writing.store(true, SeqCst);
            wait_for(&asked);
        }
    });
    *answers.meanwhile.lock() = Some(Box::new({
        let (asked, written) = (Arc::clone(&asked), Arc::clone(&written));
        move || {
            asked.store(true, SeqCst);
            wait_for(&written);
            then();
        }
    }));
    thread::scope(|scope| {
        scope.spawn(|| {
            write(&it.store, &[(1, 2, 9_000)]).unwrap();
            written.store(true, SeqCst);
        });
        wait_for(&writing);
        assert_eq!(it.store.gc_step(), GcStep::Again);
    });
    *answers.meanwhile.lock() = None;
}

#[test]
fn b1_an_agreed_eviction_buries_again_what_a_write_that_began_before_has_brought() {
    let answers = Arc::new(Answers::default());
    let it = two_live(&answers, Durability::Relaxed);
    let first = it.buckets()[0];
    evict_beside_a_write(&it, &answers, || {});
    assert!(!it.buckets().contains(&first), "what was agreed to was put off: {:?}", it.told.names());
    assert_eq!(it.told.count(|event| matches!(event, Event::GcSetAside { .. })), 0);
    // The older version has left for good, so the newer one must be durable.
    let restarted = Fixture::restarted(&it.disk.crash_point().least()).unwrap();
    assert_eq!((restarted.read(1), restarted.read(2)), (Some(value(1, 2, 9_000)), None));
    assert_eq!(it.step_while_again(), GcStep::Idle(Idle::EnoughRoom));
    assert_eq!(answers.asked.lock().len(), 1);
}

#[test]
fn b8_an_agreed_eviction_that_fails_before_its_commit_is_final_too() {
    let answers = Arc::new(Answers::default());
    let it = two_live(&answers, Durability::Relaxed);
    let first = it.buckets()[0];
    let disk = it.disk.clone();
    evict_beside_a_write(&it, &answers, move || disk.inject(1, Fault::Errno(EIO), on(OpKind::Rename, ".meta")));
    assert_eq!(it.told.count(|event| matches!(event, Event::GcSetAside { .. })), 1, "{:?}", it.told.names());
    assert!(it.buckets().contains(&first), "its newer version is not durable yet");
    // Nobody may count on it any more, whether or not there is pressure now.
    assert_eq!(it.try_put(&[(2, 1, 20_000)]).unwrap_err().kind(), StoreErrorKind::Busy);
    assert!(it.delete(3, 1));
    assert!(matches!(it.step_while_again(), GcStep::Wait(_)), "{:?}", it.told.names());
    assert!(it.buckets().contains(&first) && it.physical_bytes() < 105_000);
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom));
    assert!(!it.buckets().contains(&first), "what was agreed to is served again: {:?}", it.told.names());
    assert_eq!((it.read(1), it.read(2)), (Some(value(1, 2, 9_000)), None));
    assert_eq!(answers.asked.lock().len(), 1, "it was asked for again");
}

#[test]
fn b11_a_target_with_a_record_that_was_found_damaged_as_it_was_committed_is_suspect() {
    let it = Fixture::new();
    it.put(&[(1, 1, 70_000), (2, 1, 70_000), (3, 1, 60_000)]);
    assert!(it.delete(1, 1));
    let store = Arc::clone(&it.store);
    // In the commit section the copy is verified and the target's table published: a reader finds the source's record damaged.
    it.disk.when(nth(2, on(OpKind::Create, ".bucket_gc_intent.0.tmp")), move || {
        let mut state = store.state.write();
        let at = state.live(&storage_key(2)).unwrap().at;
        assert!(state.damage(at));
    });
    it.step_while_again();
    assert_eq!(it.told.count(|event| matches!(event, Event::GcCommitted { .. })), 1, "{:?}", it.told.names());
    let explained = it.store.gc_explain();
    assert!(matches!(explained[..], [ref e] if e.verdict == Verdict::Held(Hold::Suspect)), "{explained:?}");
    assert_eq!(it.store.figures().suspect_buckets, 1);
    // It is no source, whatever dies in it, and nobody tries.
    let target = it.buckets();
    assert!(it.delete(3, 1));
    it.clock.advance(Duration::from_secs(3_600));
    assert_eq!(it.step_while_again(), GcStep::Idle(Idle::EnoughRoom));
    assert_eq!((it.buckets(), it.read(2)), (target, None));
    assert_eq!(it.told.count(|event| matches!(event, Event::GcSetAside { .. })), 0);
    // The target's own copy was verified, and is served after a restart.
    assert_eq!(it.reopen().read(2), Some(value(2, 1, 70_000)));
}

#[test]
fn b14_a_pause_begins_when_the_callback_has_refused_and_not_when_it_was_called() {
    let answers = Arc::new(Answers::default());
    let it = two_live(&answers, Durability::Sync);
    let buckets = it.buckets();
    answers.refuse.lock().push(buckets[0]);
    let (clock, takes) = (Arc::clone(&it.clock), it.store.config().gc_retry_max * 2);
    *answers.meanwhile.lock() = Some(Box::new(move || clock.advance(takes)));
    assert_eq!((it.store.gc_step(), it.store.gc_step()), (GcStep::Again, GcStep::Again));
    let asked: Vec<_> = answers.asked.lock().iter().map(|(id, _)| *id).collect();
    assert_eq!(asked, buckets, "the one that has just refused is asked again at once");
}

#[test]
fn a_callback_that_panics_has_refused() {
    let answers = Arc::new(Answers::default());
    let it = two_live(&answers, Durability::Sync);
    *answers.meanwhile.lock() = Some(Box::new(|| panic!("the registry is gone")));
    assert_eq!(it.store.gc_step(), GcStep::Again);
    let told = |event: &Event| matches!(event, Event::EvictionRefused { reason, .. } if reason.contains("the registry is gone"));
    assert_eq!(it.told.count(told), 1, "{:?}", it.told.names());
    assert_eq!(it.buckets().len(), 2);
    // The bucket is as live as before: it takes deletes, and its keys are written anew.
    assert!(it.delete(1, 1));
    it.put(&[(2, 2, 10)]);
    *answers.meanwhile.lock() = None;
    it.clock.advance(it.store.config().gc_retry_max);
    it.settle();
    assert!(it.physical_bytes() <= 105_000, "{:?}", it.told.names());
}
