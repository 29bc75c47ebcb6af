//! Failures that happened to others, acted out against GC. Rows B4, B7, B8, B9, B13, B14.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use super::fixture::*;
use crate::config::Config;
use crate::error::StoreErrorKind;
use crate::format::intent::{Intents, Round};
use crate::format::names::{BucketId, GC_INTENT};
use crate::gc::GcStep;
use crate::gc::facts::Hold;
use crate::gc::plan::{Idle, Verdict};
use crate::observer::Event;
use crate::vfs::sim::{EIO, ENOSPC, Fault, OpKind, nth, on};

/// Two buckets, each more than half dead.
fn half_dead() -> Fixture {
    let it = Fixture::new();
    it.put(&[(1, 1, 70_000), (2, 1, 70_000), (3, 1, 9_000)]);
    it.put(&[(4, 1, 70_000), (5, 1, 70_000), (6, 1, 9_000)]);
    assert!(it.delete(1, 1) && it.delete(4, 1));
    it
}

fn all_there(it: &Fixture) {
    for (key, len) in [(2, 70_000), (3, 9_000), (5, 70_000), (6, 9_000)] {
        assert_eq!(it.read(key), Some(value(key, 1, len)), "key {key}");
    }
    assert_eq!((it.read(1), it.read(4)), (None, None));
}

fn rounds(it: &Fixture) -> Vec<Round> {
    it.disk.image().bytes(GC_INTENT).map_or(Vec::new(), |bytes| Intents::decode(&bytes).unwrap().rounds)
}

#[test]
fn b4_a_delete_that_waits_for_the_source_is_done_in_the_target() {
    let it = half_dead();
    let source = BucketId(it.buckets()[0]).table_name();
    it.disk.record();
    let store = Arc::clone(&it.store);
    let (begun, removed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    thread::scope(|scope| {
        let (told, done) = (Arc::clone(&begun), Arc::clone(&removed));
        let deleter = {
            let (store, begun) = (Arc::clone(&store), Arc::clone(&begun));
            scope.spawn(move || {
                while !begun.load(SeqCst) {
                    thread::yield_now();
                }
                done.store(delete(&store, 2, 1), SeqCst);
            })
        };
        // In the commit section, COMMITTED is about to be published: the source's table is locked, its record resolved and hidden.
        it.disk.when(nth(2, on(OpKind::Create, ".bucket_gc_intent.0.tmp")), move || {
            told.store(true, SeqCst);
            while read(&store, 2).is_some() {
                thread::yield_now();
            }
        });
        it.step_while_again();
        begun.store(true, SeqCst);
        deleter.join().unwrap();
    });
    assert!(removed.load(SeqCst), "the delete gave up");
    assert_eq!(it.read(2), None);
    // A table of a bucket that is gone would be left alone for ever.
    let published = it.disk.log().iter().any(|op| op.kind == OpKind::Rename && *op.to == *source);
    assert!(!published, "the table of the retired source was published: {source}");
    assert!(it.told.count(|event| matches!(event, Event::GcCommitted { .. })) > 0, "{:?}", it.told.names());
    let it = it.reopen();
    assert_eq!((it.read(2), it.read(3)), (None, Some(value(3, 1, 9_000))));
}

#[test]
fn b7_a_disk_that_fills_up_during_a_copy_undoes_the_round_and_deletes_go_on() {
    for number in 1..=3 {
        let it = half_dead();
        let before = it.buckets();
        // The target's blocks, its first bytes, its table.
        let matches: Box<dyn FnMut(&crate::vfs::sim::Op) -> bool + Send> = match number {
            1 => Box::new(|op| op.kind == OpKind::Allocate && op.name.ends_with(".bucket")),
            2 => Box::new(|op| op.kind == OpKind::Write && op.name.ends_with(".bucket")),
            _ => Box::new(|op| op.kind == OpKind::Write && op.name.contains(".meta.")),
        };
        it.disk.inject(2, Fault::Errno(ENOSPC), matches);
        assert!(matches!(it.step_while_again(), GcStep::Wait(_)));
        assert_eq!(it.buckets(), before, "{number}");
        assert_eq!(it.physical_bytes(), it.blocks_of_data(), "{number}");
        assert!(rounds(&it).is_empty());
        all_there(&it);
        it.disk.mend();
        it.disk.set_capacity(it.disk.used_bytes());
        assert!(it.delete(2, 1) && it.delete(5, 1), "{number}: no delete on a full disk");
        let it = it.reopen();
        assert_eq!((it.read(2), it.read(5), it.read(6)), (None, None, Some(value(6, 1, 9_000))));
    }
}

#[test]
fn b7_on_a_full_disk_what_is_fully_dead_goes_by_the_reserve_and_copies_wait() {
    let it = half_dead();
    it.disk.set_capacity(it.disk.used_bytes());
    assert!(matches!(it.step_while_again(), GcStep::Wait(_) | GcStep::Idle(_)));
    all_there(&it);
    for key in [2, 3] {
        assert!(it.delete(key, 1));
    }
    it.settle();
    assert_eq!(it.buckets().len(), 1, "{:?}", it.told.names());
    assert_eq!(it.read(5), Some(value(5, 1, 70_000)));
    assert!(it.disk.image().bytes(crate::format::names::RESERVE).is_some(), "the reserve is not back");
}

#[test]
fn b8_a_failed_sync_of_target_directory_or_intent_unlinks_no_source_and_is_not_repeated_on_that_file() {
    let syncs = {
        let it = half_dead();
        it.disk.record();
        it.settle();
        it.disk.log().iter().filter(|op| matches!(op.kind, OpKind::SyncData | OpKind::SyncDir)).count() as u64
    };
    assert!(syncs >= 8, "{syncs} syncs");
    for number in 1..=syncs {
        let it = half_dead();
        it.disk.record();
        let is_sync = |op: &crate::vfs::sim::Op| matches!(op.kind, OpKind::SyncData | OpKind::SyncDir);
        it.disk.inject(1, Fault::Errno(EIO), nth(number, is_sync));
        it.step_while_again();
        let log = it.disk.log();
        let failed = log.iter().filter(|op| is_sync(op)).nth(number as usize - 1).unwrap().clone();
        let after = || log.iter().filter(|op| op.number > failed.number);
        if failed.kind == OpKind::SyncData {
            // The same name may be used again, but only for a file that was created anew.
            let again = after().find(|op| op.name == failed.name).map(|op| op.kind);
            assert!(matches!(again, None | Some(OpKind::Unlink | OpKind::Create)), "{failed}: then {again:?}");
        }
        let committed = it.told.count(|event| matches!(event, Event::GcCommitted { .. })) > 0;
        let unlinked =
            after().filter(|op| op.kind == OpKind::Unlink && ["1.bucket", "2.bucket"].contains(&&*op.name)).count();
        assert!(committed || unlinked == 0, "{failed}: a source was unlinked without a commit");
        all_there(&it);
        it.settle();
        all_there(&it);
        assert_eq!(it.buckets().len(), 1, "{failed}: {:?}", it.told.names());
    }
}

#[test]
fn b8_an_uncertain_commit_is_repeated_until_it_succeeds_and_holds_deletes_off() {
    let it = half_dead();
    // PREPARED is the first publish of the intent file, COMMITTED the second: its rename is done, the sync of the directory fails.
    it.disk.inject(1, Fault::Errno(EIO), {
        let mut committing = nth(2, on(OpKind::Rename, GC_INTENT));
        let mut armed = false;
        move |op| {
            armed |= committing(op);
            armed && op.kind == OpKind::SyncDir
        }
    });
    // And the next two attempts fail as well, each in another step.
    it.disk.inject(1, Fault::Errno(EIO), nth(3, on(OpKind::Write, ".bucket_gc_intent.0.tmp")));
    let GcStep::Wait(first) = it.step_while_again() else { panic!("{:?}", it.told.names()) };
    assert_eq!(it.told.count(|event| matches!(event, Event::GcUncertain { .. })), 1);
    all_there(&it);
    assert!(!it.delete(2, 1), "a tombstone went to a source that may be retired");
    assert_eq!(it.read(2), Some(value(2, 1, 70_000)), "it was hidden although nothing was begun");
    // Whatever a power loss leaves now, both answers are whole.
    for image in it.disk.crash_point().images(Default::default()) {
        all_there(&Fixture::restarted(&image).unwrap());
    }
    it.clock.advance(first);
    let GcStep::Wait(second) = it.step_while_again() else { panic!("{:?}", it.told.names()) };
    assert!(second > first, "the pause does not grow");
    it.clock.advance(second);
    assert_eq!(it.step_while_again(), GcStep::Idle(Idle::EnoughRoom));
    all_there(&it);
    assert_eq!(it.buckets().len(), 1);
    assert!(it.delete(2, 1) && it.read(2).is_none());
}

#[test]
fn b8_a_clean_up_that_fails_is_tried_again_at_run_time_and_the_target_may_move_on_meanwhile() {
    let it = half_dead();
    let sources = it.buckets();
    it.disk.inject(1_000, Fault::Errno(EIO), on(OpKind::Unlink, "1.bucket"));
    assert!(matches!(it.step_while_again(), GcStep::Wait(_)));
    all_there(&it);
    let [target] = it.buckets()[..] else { panic!("{:?}", it.buckets()) };
    assert!(matches!(&rounds(&it)[..], [Round::Committed { target: Some(t), .. }] if t.0 == target));
    assert_eq!(it.store.gc.open_rounds(), 1);
    assert!(it.physical_bytes() > it.blocks_of_data() / 2, "the sources' blocks are still counted");
    // The target of the round that is still in the file is merged itself: from then on the file names it no more.
    assert!(it.delete(2, 1));
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    it.disk.watch({
        let seen = Arc::clone(&seen);
        move |op, point| {
            if op.kind == OpKind::SyncDir {
                seen.lock().push(point.least());
            }
        }
    });
    for _ in 0..40 {
        match it.store.gc_step() {
            GcStep::Wait(pause) => it.clock.advance(pause),
            _ => it.audit(),
        }
    }
    it.disk.unwatch();
    let [next] = it.buckets()[..] else { panic!("{:?}", it.buckets()) };
    assert!(next > target && !sources.contains(&next));
    for image in seen.lock().iter() {
        let rounds = image.bytes(GC_INTENT).map_or(Vec::new(), |bytes| Intents::decode(&bytes).unwrap().rounds);
        let leaving = |round: &Round| round.sources().iter().any(|id| id.0 == target);
        let named = rounds.iter().any(|round| round.target().is_some_and(|id| id.0 == target));
        assert!(!(named && rounds.iter().any(leaving)), "{rounds:?}");
        let it = Fixture::restarted(image).unwrap();
        assert_eq!((it.read(5), it.read(2), it.read(1)), (Some(value(5, 1, 70_000)), None, None));
    }
    it.disk.mend();
    it.settle();
    assert_eq!(it.store.gc.open_rounds(), 0);
    assert_eq!(it.physical_bytes(), it.blocks_of_data());
    assert!(it.disk.image().bytes(GC_INTENT).is_none());
}

#[test]
fn b3_b6_a_clean_up_of_an_earlier_round_leaves_the_round_under_way_in_the_file() {
    let it = half_dead();
    it.disk.inject(1, Fault::Errno(EIO), on(OpKind::Unlink, "1.bucket"));
    let GcStep::Wait(pause) = it.step_while_again() else { panic!("the clean-up has not failed") };
    it.put(&[(11, 1, 300_000), (12, 1, 300_000)]);
    it.put(&[(13, 1, 300_000), (14, 1, 300_000)]);
    assert!(it.delete(11, 1) && it.delete(13, 1));
    while !matches!(rounds(&it)[..], [Round::Committed { .. }, Round::Prepared { .. }]) {
        assert_eq!(it.store.gc_step(), GcStep::Again);
    }
    // The pause of the clean-up ends in the middle of the copy.
    it.clock.advance(pause);
    let points = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let seen = Arc::clone(&points);
    it.disk.watch(move |_, point| seen.lock().push(point));
    assert_eq!(it.store.gc_step(), GcStep::Again);
    assert_eq!(it.store.gc.open_rounds(), 0, "the earlier round has ended");
    assert!(matches!(rounds(&it)[..], [Round::Prepared { .. }]), "{:?}", rounds(&it));
    it.settle();
    it.disk.unwatch();
    for point in points.lock().iter() {
        for image in [point.least(), point.most()] {
            // That no object is there twice is asserted by the fixture.
            let it = Fixture::restarted(&image).unwrap();
            assert_eq!((it.read(11), it.read(12)), (None, Some(value(12, 1, 300_000))));
        }
    }
}

#[test]
fn b9_b13_a_reader_holds_a_retired_bucket_and_its_blocks_count_until_it_lets_go() {
    let it = Fixture::with(
        Config {
            normal_dead_ratio: None,
            high_watermark: 0.55,
            low_watermark: 0.001,
            capacity_bytes: 3_200_000,
            ..config()
        },
        None,
    );
    it.put(&[(1, 1, 400_000), (2, 1, 500_000)]);
    it.put(&[(3, 1, 400_000), (4, 1, 500_000)]);
    assert!(it.delete(1, 1) && it.delete(3, 1));
    // The pin of a reader in the middle of key 2, as a read takes it.
    let pin = {
        let state = it.store.state.read();
        let bucket = state.buckets().next().unwrap().bucket();
        Arc::clone(&bucket.file)
    };
    let before = it.physical_bytes();
    let idle = it.step_while_again();
    assert_eq!(it.buckets().len(), 1, "{idle:?}: GC waited for a reader: {:?} {before}", it.told.names());
    assert!(!it.disk.image().names().any(|name| name == "1.bucket"), "its name is still there");
    let held = pin.allocated_bytes();
    assert_eq!(it.physical_bytes(), it.blocks_of_data() + held, "before: {before}");
    assert!(it.disk.used_bytes() - it.blocks_of_data() >= held);
    // GC goes on with other buckets meanwhile.
    it.put(&[(5, 1, 300_000), (6, 1, 300_000)]);
    it.put(&[(7, 1, 300_000)]);
    assert!(it.delete(7, 1) && it.delete(5, 1));
    it.step_while_again();
    assert_eq!(it.read(6), Some(value(6, 1, 300_000)));
    let mut bytes = vec![0; 500_000];
    let offset = pin.file().len().unwrap() - 500_000;
    assert_eq!(pin.file().read_at(&mut bytes, offset).unwrap(), 500_000);
    assert_eq!(bytes, value(2, 1, 500_000), "the reader got other bytes");
    let with_pin = it.physical_bytes();
    drop(pin);
    assert_eq!(it.physical_bytes(), with_pin - held);
    assert_eq!(it.physical_bytes(), it.blocks_of_data());
}

#[test]
fn b13_usage_counts_what_is_unlinked_and_still_open() {
    // The watermark is at a little more than what is live; only with the pinned blocks is it reached.
    let it = Fixture::with(
        Config {
            normal_dead_ratio: None,
            high_watermark: 0.5,
            low_watermark: 0.3,
            capacity_bytes: 2 << 20,
            ..config()
        },
        None,
    );
    it.put(&[(1, 1, 500_000)]);
    it.put(&[(2, 1, 300_000), (3, 1, 300_000)]);
    assert!(it.delete(1, 1) && it.delete(2, 1));
    let pin = Arc::clone(&it.store.state.read().buckets().next().unwrap().bucket().file);
    // Without the pinned blocks there would be no pressure at all; with them there is, but nothing more needs to go.
    assert_eq!(it.step_while_again(), GcStep::Idle(Idle::WaitsForRelease));
    assert!(it.blocks_of_data() < 1 << 20 && it.physical_bytes() >= 1 << 20);
    assert!(matches!(it.store.gc_explain()[0].verdict, Verdict::Candidate), "{:?}", it.store.gc_explain());
    drop(pin);
    assert_eq!(it.step_while_again(), GcStep::Idle(Idle::EnoughRoom));
    assert!(matches!(it.store.gc_explain()[0].verdict, Verdict::NoPressure { .. }), "{:?}", it.store.gc_explain());
}

#[test]
fn b13_a_target_that_failed_at_its_creation_counts_until_it_is_gone() {
    let it = half_dead();
    it.disk.inject(1, Fault::Errno(EIO), on(OpKind::AllocatedBytes, ".bucket"));
    it.disk.inject(1_000, Fault::Errno(EIO), on(OpKind::Unlink, ".bucket"));
    assert!(matches!(it.step_while_again(), GcStep::Wait(_)), "{:?}", it.told.names());
    assert!(it.disk.image().names().any(|name| name == "3.bucket"), "{:?}", it.disk.image());
    assert_eq!(it.physical_bytes(), it.blocks_of_data());
    all_there(&it);
    it.disk.mend();
    it.settle();
    assert_eq!((it.physical_bytes(), it.buckets().len()), (it.blocks_of_data(), 1), "{:?}", it.told.names());
    all_there(&it);
}

#[test]
fn b14_one_bucket_that_cannot_be_read_holds_up_no_other() {
    let it = Fixture::new();
    let bad = it.put(&[(1, 1, 200_000), (2, 1, 9_000)]);
    for b in 1..20 {
        it.put(&[(b * 10, 1, 90_000), (b * 10 + 1, 1, 9_000)]);
        assert!(it.delete(b * 10, 1));
    }
    assert!(it.delete(1, 1));
    // It is the deadest, and so at the head of every plan.
    it.disk.make_unreadable(&bad.data_name(), 0..1 << 30);
    let GcStep::Wait(pause) = it.step_while_again() else { panic!("{:?}", it.told.names()) };
    assert!(it.buckets().len() <= 1 + 19 / 8 + 1, "{:?}", it.buckets());
    assert!(it.buckets().contains(&bad.0), "what cannot be read is kept");
    assert_eq!(it.told.count(|event| matches!(event, Event::GcSetAside { bucket, .. } if *bucket == bad)), 1);
    let mut pauses = vec![pause];
    for _ in 0..8 {
        it.clock.advance(*pauses.last().unwrap());
        let GcStep::Wait(pause) = it.step_while_again() else { panic!("{:?}", it.told.names()) };
        pauses.push(pause);
    }
    assert!(pauses.is_sorted() && pauses[8] == config().gc_retry_max && pauses[1] == pauses[0] * 2, "{pauses:?}");
    for b in 1..20 {
        assert_eq!(it.read(b * 10 + 1), Some(value(b * 10 + 1, 1, 9_000)));
    }
    // The disk is mended: it goes with the next try.
    it.disk.mend();
    it.settle();
    assert!(!it.buckets().contains(&bad.0));
    assert_eq!(it.read(2), Some(value(2, 1, 9_000)));
}

#[test]
fn b11_b14_a_damaged_record_keeps_its_bucket_whole_and_the_others_go_on() {
    let it = half_dead();
    let [first, second] = it.buckets()[..] else { panic!() };
    it.disk.flip_bit(&format!("{first}.bucket"), 141_000, 1).unwrap();
    let GcStep::Idle(Idle::EnoughRoom) = it.step_while_again() else { panic!("{:?}", it.told.names()) };
    assert!(it.buckets().contains(&first) && !it.buckets().contains(&second), "{:?}", it.buckets());
    assert_eq!(
        it.told.count(
            |event| matches!(event, Event::ObjectDamaged { error, .. } if error.kind() == StoreErrorKind::Damaged)
        ),
        1
    );
    assert_eq!(it.read(3), None, "a damaged object is served");
    assert_eq!(it.read(2), Some(value(2, 1, 70_000)), "the others of its bucket are not");
    let explained = it.store.gc_explain();
    assert!(matches!(explained[0].verdict, Verdict::Held(Hold::Suspect)), "{explained:?}");
    it.clock.advance(Duration::from_secs(3_600));
    it.settle();
    assert!(it.buckets().contains(&first));
}

#[test]
fn b11_a_source_in_which_a_reader_finds_damage_while_it_is_copied_stays_whole() {
    let it = half_dead();
    let sources = it.buckets();
    let store = Arc::clone(&it.store);
    it.disk.when(
        |op| op.kind == OpKind::SyncData && op.name.ends_with(".bucket"),
        move || store.state.write().suspect_data(BucketId(sources[0])),
    );
    let sources = it.buckets();
    it.step_while_again();
    assert!(it.buckets().contains(&sources[0]), "{:?}", it.told.names());
    assert_eq!(it.told.count(|event| matches!(event, Event::GcRolledBack { .. })), 1);
    all_there(&it);
    assert_eq!(it.physical_bytes(), it.blocks_of_data());
}
