//! What rounds do when nothing fails.

use std::time::Duration;

use super::fixture::*;
use crate::config::{Config, Durability};
use crate::gc::GcStep;
use crate::gc::facts::Hold;
use crate::gc::plan::{Idle, Verdict};
use crate::observer::Event;
use crate::vfs::sim::{EIO, Fault, OpKind, on};

#[test]
fn partly_dead_buckets_become_one_and_every_byte_stays() {
    let it = Fixture::new();
    let buckets: Vec<_> =
        (0..4).map(|b| it.put(&[(b * 10, 1, 70_000), (b * 10 + 1, 1, 70_000), (b * 10 + 2, 1, 300)])).collect();
    for b in 0..4 {
        assert!(it.delete(b * 10, 1));
    }
    let before = it.physical_bytes();
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom));
    assert_eq!(it.buckets().len(), 1);
    assert!(it.physical_bytes() < before);
    assert_eq!(it.physical_bytes(), it.blocks_of_data(), "accounted bytes are not the blocks used");
    assert_eq!(it.store.gc.open_rounds(), 0);
    let check = |it: &Fixture| {
        for b in 0..4 {
            assert_eq!(it.read(b * 10), None);
            assert_eq!(it.read(b * 10 + 1), Some(value(b * 10 + 1, 1, 70_000)));
            assert_eq!(it.read(b * 10 + 2), Some(value(b * 10 + 2, 1, 300)));
        }
    };
    check(&it);
    // The target takes the place of its oldest source in the order of age.
    let age = it.store.state.read().buckets().next().unwrap().bucket().age;
    assert_eq!(age, buckets[0].0);
    let it = it.reopen();
    check(&it);
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom), "it copies the same again");
}

#[test]
fn b10_fully_dead_buckets_go_at_most_eight_at_once_without_a_copy() {
    let it = Fixture::new();
    for b in 0..20 {
        it.put(&[(b, 1, 5_000)]);
        assert!(it.delete(b, 1));
    }
    it.disk.record();
    assert_eq!(it.settle(), GcStep::Idle(Idle::EnoughRoom));
    assert_eq!((it.buckets().len(), it.physical_bytes(), it.blocks_of_data()), (0, 0, 0));
    let rounds = it.told.count(
        |event| matches!(event, Event::GcCommitted { copied_bytes: 0, target: None, sources } if sources.len() <= 8),
    );
    assert_eq!(rounds, 3);
    assert!(!it.disk.log().iter().any(|op| op.name.ends_with(".bucket") && op.bytes > 0), "something was copied");
}

/// A store whose writes are durable only when that is asked for, with keys 1 and 2 durable in one bucket.
fn relaxed(len_of_2: Option<usize>) -> Fixture {
    let it = Fixture::with(Config { durability: Durability::Relaxed, relaxed_limit_bytes: 1 << 30, ..config() }, None);
    let objects: Vec<_> = [(1, 1, 90_000)].into_iter().chain(len_of_2.map(|len| (2, 1, len))).collect();
    it.put(&objects);
    assert_eq!(it.store.publish_pending().unwrap(), 1);
    it
}

#[test]
fn v4_what_a_newer_record_replaces_goes_only_when_that_is_durable() {
    for len_of_2 in [None, Some(9_000)] {
        let it = relaxed(len_of_2);
        it.put(&[(1, 2, 50_000)]);
        // Nearly all of the first bucket is dead for readers, but a power loss now would bring it back.
        let waits = it.step_while_again();
        assert!(matches!(waits, GcStep::Wait(_) | GcStep::Idle(Idle::EnoughRoom)), "{waits:?}");
        assert_eq!(
            it.told.count(|event| matches!(event, Event::GcBegun { .. })),
            0,
            "it copies what is not dead for good"
        );
        let restarted = Fixture::restarted(&it.disk.crash_point().least()).unwrap();
        assert_eq!(restarted.read(1), Some(value(1, 1, 90_000)));
        drop(restarted);
        it.store.publish_pending().unwrap();
        it.clock.advance(config().gc_retry_max);
        it.step_while_again();
        assert!(it.physical_bytes() < 70_000, "{:?}", it.told.names());
        assert_eq!(it.read(1), Some(value(1, 2, 50_000)));
        assert_eq!(it.read(2), len_of_2.map(|len| value(2, 1, len)));
        let restarted = Fixture::restarted(&it.disk.crash_point().least()).unwrap();
        assert_eq!(restarted.read(1), Some(value(1, 2, 50_000)));
    }
}

#[test]
fn a_bucket_that_is_not_durable_is_no_source() {
    let it = Fixture::with(Config { durability: Durability::Relaxed, ..config() }, None);
    it.put(&[(1, 1, 90_000), (2, 1, 9_000)]);
    it.put(&[(1, 2, 9_000)]);
    assert_eq!(it.step_while_again(), GcStep::Idle(Idle::EnoughRoom));
    assert!(matches!(it.store.gc_explain()[0].verdict, Verdict::Held(Hold::Unpublished)));
}

/// Two published buckets, of which all but one live object is dead for readers, `replaced` of these only as long as the power stays on.
fn half_replaced(replaced: u64, replaced_len: usize) -> Fixture {
    let it = Fixture::with(Config { durability: Durability::Relaxed, relaxed_limit_bytes: 1 << 30, ..config() }, None);
    for b in [100, 200] {
        let replaced = (0..replaced).map(|n| (b + n, 1, replaced_len));
        it.put(&replaced.chain([(b + 90, 1, 100_000), (b + 91, 1, 300_000)]).collect::<Vec<_>>());
    }
    assert_eq!(it.store.publish_pending().unwrap(), 2);
    for b in [100, 200] {
        assert!(it.delete(b + 91, 1));
        it.put(&(0..replaced).map(|n| (b + n, 2, 100)).collect::<Vec<_>>());
    }
    it
}

#[test]
fn b5_what_is_carried_along_does_not_outgrow_the_target_fewer_sources_go_then() {
    // Together they would be too many bytes; too many records.
    for (replaced, len) in [(1, 450_000), (26, 1_000)] {
        let it = half_replaced(replaced, len);
        assert!(matches!(it.step_while_again(), GcStep::Wait(_)), "{:?}", it.told.names());
        let rounds = |of: usize| {
            it.told.count(|event| matches!(event, Event::GcCommitted { sources, .. } if sources.len() == of))
        };
        assert_eq!((rounds(1), rounds(2)), (2, 0), "{replaced} records of {len} bytes: {:?}", it.told.names());
        {
            let state = it.store.state.read();
            for bucket in state.buckets() {
                assert!(bucket.bucket().data_len <= config().bucket_size_bytes, "{} bytes", bucket.bucket().data_len);
                assert!(bucket.slots().len() <= config().bucket_keys, "{} records", bucket.slots().len());
            }
        }
        // With what replaces it durable they fit into one.
        it.store.publish_pending().unwrap();
        it.settle();
        assert_eq!((rounds(1), rounds(2)), (2, 1), "{:?}", it.told.names());
        for b in [100, 200] {
            assert_eq!((it.read(b + 90), it.read(b)), (Some(value(b + 90, 1, 100_000)), Some(value(b, 2, 100))));
        }
    }
}

#[test]
fn a_throttled_copy_leaves_time_to_others_and_little_to_its_last_sync() {
    let config = Config { gc_copy_share: 0.5, gc_copy_bytes_per_s: Some(1 << 20), ..config() };
    let most = 9 * config.copy_buffer_bytes as u64;
    let it = Fixture::with(config, None);
    for b in 0..8 {
        it.put(&[(b * 10, 1, 90_000), (b * 10 + 1, 1, 120_000)]);
        assert!(it.delete(b * 10, 1));
    }
    it.disk.record();
    let (mut waited, mut steps) = (Duration::ZERO, 0);
    while it.buckets().len() > 1 {
        match it.store.gc_step() {
            GcStep::Again => steps += 1,
            GcStep::Wait(pause) => {
                it.clock.advance(pause);
                waited += pause;
            }
            other => panic!("{other:?}"),
        }
    }
    // 960,000 bytes at 1 MiB a second; a step is a buffer.
    assert!(waited >= Duration::from_millis(850) && waited <= Duration::from_millis(1_000), "{waited:?}");
    assert!(steps >= 15, "{steps} steps");
    let (mut unsynced, mut syncs) = (0, 0);
    for op in it.disk.log().iter().filter(|op| op.name.ends_with(".bucket")) {
        match op.kind {
            OpKind::Write => unsynced += op.bytes,
            OpKind::SyncData => (unsynced, syncs) = (0, syncs + 1),
            _ => {}
        }
        assert!(unsynced <= most, "{unsynced} bytes wait for one sync");
    }
    assert_eq!(syncs, 2);
    for b in 0..8 {
        assert_eq!(it.read(b * 10 + 1), Some(value(b * 10 + 1, 1, 120_000)));
    }
}

#[test]
fn b8_a_sync_in_the_middle_of_a_copy_that_fails_undoes_the_round() {
    let it = Fixture::with(Config { gc_copy_share: 0.5, ..config() }, None);
    for b in 0..8 {
        it.put(&[(b * 10, 1, 90_000), (b * 10 + 1, 1, 120_000)]);
        assert!(it.delete(b * 10, 1));
    }
    let sources = it.buckets();
    it.disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    assert!(matches!(it.step_while_again(), GcStep::Wait(_)));
    assert_eq!(it.buckets(), sources);
    assert_eq!(it.told.count(|event| matches!(event, Event::GcRolledBack { .. })), 1);
    it.settle();
    assert_eq!(it.buckets().len(), 1);
    assert_eq!(it.read(1), Some(value(1, 1, 120_000)));
}
