//! Owns the tests of a key sequence that does not rise: the key is read again, then the state is rolled back and replayed, or it is a
//! verdict; whatever the store, the cutover or a clean-up does meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Kv, KvErrorKind, MemoryKv};
use oplog_core::legacy::LegacyEntry;
use parking_lot::Mutex;
use standby::{Fault, FaultKind, Health, Standby, StandbyConfig, Step, StepError};

use crate::kit::*;
use crate::support::tamper::{Lie, TamperKv};
use crate::support::{config, keys, open};

/// The entries of the log: their keys, and which operation on it each is.
const LOG: [(u64, &str, Option<u64>); 9] = [
    (1, "a", Some(1)),
    (2, "b", Some(1)),
    (3, "c", None),
    (4, "b", Some(2)),
    (5, "a", Some(2)),
    (6, "b", Some(3)),
    (7, "c", None),
    (8, "b", Some(4)),
    (9, "a", Some(3)),
];

/// A log that is in order.
async fn log_in_order() -> Arc<MemoryKv> {
    let kv = Arc::new(MemoryKv::new());
    for (n, key, id) in LOG {
        put(&*kv, &keyed(n, key, id)).await;
    }
    latest(&*kv, 9).await;
    kv
}

/// One in which entry 6 is out of order, as it was written.
async fn log_out_of_order() -> Arc<MemoryKv> {
    let kv = log_in_order().await;
    put(&*kv, &keyed(6, "b", Some(2))).await;
    kv
}

fn key_of(n: u64) -> Bytes {
    keys().legacy_entry(seq(n))
}

/// Entry 4 as a damaged reading shows it: a higher count, and another payload, in bytes that check.
fn entry_4_damaged() -> LegacyEntry {
    let new = oplog_core::NewEntry { op_type: 1, tenant: "default", key: b"b", payload: b"never written" };
    LegacyEntry { key_sequence_id: Some(9), ..LegacyEntry::new(seq(4), 1, &new).unwrap() }
}

/// The first so many scans that are not the second reading of the key, which begins with its first entry, show `instead`.
fn damage(tamper: &TamperKv, instead: LegacyEntry, scans: usize) -> Arc<AtomicUsize> {
    let left = Arc::new(AtomicUsize::new(scans));
    let (counts, at, second, value) = (left.clone(), key_of(instead.seq.get()), key_of(2), instead.encode());
    tamper.rewrite(move |start, pair| {
        let hit = pair.key == at && start != &second[..] && start.starts_with(b"/oplog/c1/0");
        let damaged = hit && counts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        damaged.then(|| value.clone())
    });
    left
}

async fn tampered(kv: &Arc<MemoryKv>) -> (Arc<TamperKv>, Standby<Journal>) {
    let tamper = TamperKv::new(kv.clone());
    let standby = standby(tamper.clone()).await;
    (tamper, standby)
}

fn figures(standby: &Standby<Journal>) -> (u64, u64, u64) {
    let metrics = standby.observer().metrics();
    (metrics.legacy.roll_backs, metrics.unconfirmed, metrics.legacy.restarts)
}

/// The fault names key, both entries and both ids; the state is at the entry before, and it stays so.
async fn is_the_verdict(fault: &Fault, standby: &mut Standby<Journal>) {
    assert_eq!((fault.kind(), fault.seq()), (Some(FaultKind::LegacyKeySequence), Some(seq(6))), "{fault}");
    assert_eq!(fault.key().as_bytes(), &key_of(6)[..]);
    let text = fault.to_string();
    for named in ["key \"b\"", "above 2", "entry 4", "found 2 in entry 6"] {
        assert!(text.contains(named), "{named}: {text}");
    }
    assert_eq!(standby.machine().entries, entries(1..=5), "nothing applied");
    assert_eq!(standby.health(), Health::Unhealthy { fault: fault.clone() });
    assert_eq!(follow(standby).await.unwrap_err(), *fault);
}

#[tokio::test(start_paused = true)]
async fn s1_s2_legacy_one_damaged_reading_is_taken_back_and_the_state_rolled_back_and_replayed() {
    for (name, damaged) in [("earlier", entry_4_damaged()), ("itself", keyed(6, "b", Some(1)))] {
        for page_bytes in [200, 1 << 20] {
            for cut in [false, true] {
                let kv = log_in_order().await;
                if cut {
                    cut_over(&*kv, 9).await;
                }
                let tamper = TamperKv::new(kv.clone());
                let small = StandbyConfig { page_bytes, ..config() };
                let storage = open(tamper.clone()).await;
                let mut standby = plain(&storage, small).with_legacy(mode(Default::default())).unwrap();
                let left = damage(&tamper, damaged.clone(), 1);
                let step = follow_for(&mut standby, Duration::from_secs(1)).await.unwrap();
                let case = format!("{name}, pages of {page_bytes}, cut over: {cut}");
                assert_eq!(left.load(Ordering::SeqCst), 0, "{case}: the damage was met");
                assert!(matches!(step, Step::Reached(_)) == cut, "{case}: {step:?}");
                assert_eq!(standby.machine().entries, entries(1..=9), "{case}: nothing of the damaged reading is left");
                assert_eq!(figures(&standby), (1, 1, 0), "{case}");
                assert_eq!(standby.health(), Health::Following { lag: 0 }, "{case}");
                assert_eq!(standby.observer().metrics().legacy.doubt, None, "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s2_legacy_a_second_reading_that_shows_the_same_is_the_verdict() {
    for cut in [false, true] {
        let kv = log_out_of_order().await;
        if cut {
            cut_over(&*kv, 9).await;
        }
        let (tamper, mut standby) = tampered(&kv).await;
        let starts = Arc::new(Mutex::new(Vec::new()));
        let seen = starts.clone();
        tamper.choose(move |_, key| {
            seen.lock().push(Bytes::copy_from_slice(key));
            None
        });
        let fault = follow(&mut standby).await.unwrap_err();
        is_the_verdict(&fault, &mut standby).await;
        assert_eq!(figures(&standby), (0, 0, 0));
        let second = starts.lock().iter().filter(|key| **key == key_of(2)).count();
        assert_eq!(second, 1, "read again once, from the first entry of the key: {:?}", starts.lock());
    }
}

/// The store fails in the second reading: no verdict, nothing applied, and the doubt is settled before anything else is read.
#[tokio::test(start_paused = true)]
async fn s2_legacy_a_store_that_fails_in_the_second_reading_leaves_the_doubt() {
    for in_order in [true, false] {
        for kind in [KvErrorKind::Unavailable, KvErrorKind::Timeout] {
            let kv = if in_order { log_in_order().await } else { log_out_of_order().await };
            let (tamper, mut standby) = tampered(&kv).await;
            if in_order {
                damage(&tamper, entry_4_damaged(), 1);
            }
            let second = key_of(2);
            tamper.choose(move |_, key| (key == &second[..]).then_some(Lie::Fail(kind)));
            for _ in 0..3 {
                assert!(matches!(standby.step().await, Err(StepError::Store(e)) if e.kind == kind));
                assert_eq!(standby.position().last_seq, seq(5));
                let metrics = standby.observer().metrics();
                assert!(metrics.legacy.doubt.is_some_and(|doubt| doubt.contains("entry 6")), "it is shown");
                assert!(matches!(standby.health(), Health::Starting | Health::Following { .. }));
            }
            tamper.truth();
            match follow(&mut standby).await {
                Ok(step) => {
                    assert!(in_order);
                    assert_eq!((step, figures(&standby)), (Step::PerEntry(seq(9)), (1, 1, 0)));
                    assert_eq!(
                        standby.machine().entries,
                        entries(1..=9),
                        "though the entry itself was read well again"
                    );
                }
                Err(fault) => {
                    assert!(!in_order, "{fault}");
                    is_the_verdict(&fault, &mut standby).await;
                }
            }
        }
    }
}

/// The log is cut over while an entry is in doubt: below the base the doubt is settled, above it the entry is in no log.
#[tokio::test(start_paused = true)]
async fn s2_legacy_a_cutover_while_an_entry_is_in_doubt_decides_whether_it_counts() {
    for base in [5, 6, 9] {
        let kv = log_out_of_order().await;
        let (tamper, mut standby) = tampered(&kv).await;
        let second = key_of(2);
        tamper.choose(move |_, key| (key == &second[..]).then_some(Lie::Fail(KvErrorKind::Timeout)));
        assert!(matches!(standby.step().await, Err(StepError::Store(_))));
        tamper.truth();
        latest(&*kv, base).await;
        let prefix = cut_over(&*kv, base).await;
        match follow(&mut standby).await {
            Ok(step) => {
                assert_eq!((base, step), (5, Step::Reached(prefix)));
                assert_eq!(standby.machine().entries, entries(1..=5));
                assert_eq!(figures(&standby), (0, 0, 1), "what a damaged reading may have fed is thrown away");
                assert_eq!(standby.observer().metrics().legacy.doubt, None);
            }
            Err(fault) => {
                assert!(base >= 6, "{fault}");
                is_the_verdict(&fault, &mut standby).await;
            }
        }
    }
}

/// The prefix appears between the round's look for it and the verdict.
#[tokio::test(start_paused = true)]
async fn s2_legacy_a_prefix_that_appears_in_the_second_reading_comes_before_the_verdict() {
    for base in [5, 9] {
        let kv = log_out_of_order().await;
        latest(&*kv, base).await;
        let prefix = cut_over(&*kv, base).await;
        let (tamper, mut standby) = tampered(&kv).await;
        let (prefix_key, looks) = (keys().durable_prefix(), AtomicUsize::new(0));
        tamper.choose(move |_, key| {
            let early = key == &prefix_key[..] && looks.fetch_add(1, Ordering::SeqCst) < 2;
            early.then_some(Lie::Absent)
        });
        assert_eq!(standby.step().await.unwrap(), Step::PerEntry(seq(5)), "base {base}: no verdict yet");
        match follow(&mut standby).await {
            Ok(step) => assert_eq!((base, step), (5, Step::Reached(prefix))),
            Err(fault) => {
                assert_eq!(base, 9, "{fault}");
                is_the_verdict(&fault, &mut standby).await;
            }
        }
    }
}

/// The log is cleaned up while an entry is in doubt: the state cannot be made anew, and is not believed either.
#[tokio::test(start_paused = true)]
async fn s2_legacy_a_clean_up_while_an_entry_is_in_doubt_is_a_verdict() {
    for (cleaned, says) in [(3, "begins with entry 4"), (5, "begins with entry 6"), (9, "no entry 6")] {
        let kv = log_in_order().await;
        let (tamper, mut standby) = tampered(&kv).await;
        damage(&tamper, keyed(6, "b", Some(2)), 1);
        let second = key_of(2);
        tamper.choose(move |_, key| (key == &second[..]).then_some(Lie::Fail(KvErrorKind::Timeout)));
        assert!(matches!(standby.step().await, Err(StepError::Store(_))));
        tamper.truth();
        for n in 1..=cleaned {
            kv.delete(&key_of(n)).await.unwrap();
        }
        let fault = follow(&mut standby).await.unwrap_err();
        assert!(fault.to_string().contains(says), "{says}: {fault}");
        is_the_verdict(&fault, &mut standby).await;
        assert_eq!(figures(&standby), (0, 0, 0));
    }
}

/// Each reading of the key shows something else: bounded, then the verdict.
#[tokio::test(start_paused = true)]
async fn s2_legacy_second_readings_that_differ_each_time_end_in_a_verdict() {
    let kv = log_out_of_order().await;
    for garbled in [false, true] {
        let (tamper, mut standby) = tampered(&kv).await;
        let (second, at, readings) = (key_of(2), key_of(4), Arc::new(AtomicUsize::new(0)));
        let count = readings.clone();
        tamper.rewrite(move |start, pair| {
            (start == &second[..] && pair.key == at).then(|| {
                let n = count.fetch_add(1, Ordering::SeqCst) as u64;
                if garbled { "{}".into() } else { keyed(4, "b", Some(100 + n)).encode() }
            })
        });
        // A store that fails between them does not make them more.
        let second = key_of(2);
        let mut asked = 0;
        let asks = Arc::new(Mutex::new(move || {
            asked += 1;
            asked % 2 == 0
        }));
        tamper.choose(move |_, key| {
            (key == &second[..] && (asks.lock())()).then_some(Lie::Fail(KvErrorKind::Unavailable))
        });
        let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(readings.load(Ordering::SeqCst), 3);
        assert!(fault.to_string().contains("read again 3 times"), "{fault}");
        is_the_verdict(&fault, &mut standby).await;
    }
}

/// Every replay meets the damage, and every second reading is in order: bounded, then the verdict.
#[tokio::test(start_paused = true)]
async fn s2_legacy_a_replay_that_is_damaged_each_time_ends_in_a_verdict() {
    let kv = log_in_order().await;
    let (tamper, mut standby) = tampered(&kv).await;
    let left = damage(&tamper, keyed(6, "b", Some(2)), usize::MAX);
    let fault = follow_for(&mut standby, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(usize::MAX - left.load(Ordering::SeqCst), 4, "read, and replayed three times");
    assert!(fault.to_string().contains("rolled back 3 times"), "{fault}");
    is_the_verdict(&fault, &mut standby).await;
    assert_eq!(figures(&standby).0, 3);
    // What is damaged as often and no more is in the end as it must be.
    let (tamper, mut standby) = tampered(&kv).await;
    damage(&tamper, keyed(6, "b", Some(2)), 3);
    assert_eq!(follow(&mut standby).await, Ok(Step::PerEntry(seq(9))));
    assert_eq!(standby.machine().entries, entries(1..=9));
    // And past the entry a later damage is another one.
    put(&*kv, &keyed(10, "b", Some(5))).await;
    damage(&tamper, keyed(10, "b", Some(2)), 3);
    assert_eq!(follow(&mut standby).await, Ok(Step::PerEntry(seq(10))));
    assert_eq!((standby.machine().entries.len(), figures(&standby).0), (10, 6));
}

/// S3 of the failures: whatever one read more does while a damaged reading is being settled, the state is right in the end.
#[tokio::test(start_paused = true)]
async fn s3_legacy_every_read_while_a_key_is_in_doubt_fails_once_or_lies_once() {
    let kv = log_in_order().await;
    let lies = [
        Lie::Fail(KvErrorKind::Unavailable),
        Lie::Fail(KvErrorKind::Timeout),
        Lie::Flip,
        Lie::Absent,
        Lie::Short,
        Lie::Hole,
    ];
    let (mut right, mut wrong) = (0, 0);
    for lie in lies {
        for at in 0..16 {
            let (tamper, mut standby) = tampered(&kv).await;
            damage(&tamper, entry_4_damaged(), 1);
            tamper.lie_once(at, lie);
            match follow_for(&mut standby, Duration::from_secs(10)).await {
                Ok(step) => {
                    assert_eq!(step, Step::PerEntry(seq(9)), "{lie:?} at {at}");
                    let undisturbed = standby.machine().entries == entries(1..=9);
                    assert!(undisturbed, "{lie:?} at {at}: {:?}", standby.machine().entries);
                    right += 1;
                }
                Err(fault) => {
                    assert_eq!(lie, Lie::Flip, "only bytes that prove themselves are a verdict at once; {at}: {fault}");
                    wrong += 1;
                }
            }
        }
    }
    assert!(right >= 80 && (1..=4).contains(&wrong), "{right} right, {wrong} verdicts");
}
