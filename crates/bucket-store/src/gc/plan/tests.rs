//! The planner's rules one by one, and that it comes to an end.

use std::time::Duration;

use super::*;
use crate::gc::facts::Hold;

mod converges;
mod quarantine;

const MIB: u64 = 1 << 20;

fn limits() -> PlanLimits {
    PlanLimits {
        high_bytes: 900 * MIB,
        low_bytes: 800 * MIB,
        target_bytes: 256 * MIB,
        target_records: 500,
        floor: 0.05,
        ratio: None,
        block_bytes: 4096,
        evict: false,
    }
}

fn bucket(id: u64, live_mib: u64, dead_mib: u64) -> BucketFacts {
    BucketFacts {
        id: BucketId(id),
        age: id,
        live_records: u32::try_from(live_mib).unwrap(),
        live_bytes: live_mib * MIB,
        copy_bytes: live_mib * MIB,
        dead_bytes: dead_mib * MIB,
        allocated_bytes: (live_mib + dead_mib) * MIB,
        hold: None,
        set_aside_until: None,
    }
}

fn room(pressure: bool) -> Room {
    Room { physical_bytes: 950 * MIB, out_of_reach_bytes: 0, free_bytes: 1 << 40, pressure, no_copy_until: None }
}

fn at(s: u64) -> MonoTime {
    MonoTime::from_origin(Duration::from_secs(s))
}

fn planned(buckets: &[BucketFacts], pressure: bool, limits: &PlanLimits) -> Plan {
    // A full bucket that nothing is dead in keeps usage above the low watermark.
    let mut all = buckets.to_vec();
    all.push(BucketFacts { hold: Some(Hold::InRound), ..bucket(9_999, 900, 0) });
    plan(&all, room(pressure), limits, at(0))
}

fn sources(plan: &Plan) -> Vec<u64> {
    match plan {
        Plan::Merge { sources, .. } | Plan::RemoveDead(sources) => sources.iter().map(|id| id.0).collect(),
        other => panic!("no sources in {other:?}"),
    }
}

#[test]
fn b10_a_fully_dead_bucket_is_the_first_candidate_with_and_without_pressure() {
    let mut buckets: Vec<_> = (1..=9).map(|id| bucket(id, 1, 99)).collect();
    buckets.extend((20..40).rev().map(|id| bucket(id, 0, 1)));
    for pressure in [false, true] {
        let plan = planned(&buckets, pressure, &limits());
        assert!(matches!(plan, Plan::RemoveDead(_)), "{plan:?}");
        assert_eq!(sources(&plan), [20, 21, 22, 23, 24, 25, 26, 27]);
    }
}

#[test]
fn below_the_high_watermark_nothing_is_copied_unless_asked_for() {
    let buckets = [bucket(1, 10, 90), bucket(2, 60, 40)];
    assert_eq!(planned(&buckets, false, &limits()), Plan::Nothing(Idle::EnoughRoom));
    let asked = PlanLimits { ratio: Some(0.5), ..limits() };
    assert_eq!(sources(&planned(&buckets, false, &asked)), [1]);
    let exactly = PlanLimits { ratio: Some(0.4), ..limits() };
    assert_eq!(sources(&planned(&buckets, false, &exactly)), [1, 2]);
}

#[test]
fn under_pressure_the_deadest_go_first_and_nothing_below_the_floor() {
    let buckets = [bucket(1, 96, 4), bucket(2, 95, 5), bucket(3, 100, 100), bucket(4, 150, 50)];
    // 3 is half dead, 4 a quarter; together they are 250 MiB, and 2 does not fit in besides.
    assert_eq!(sources(&planned(&buckets, true, &limits())), [3, 4]);
    assert_eq!(sources(&planned(&buckets[..2], true, &limits())), [2]);
    assert_eq!(planned(&buckets[..1], true, &limits()), Plan::Nothing(Idle::NoCandidate));
}

#[test]
fn b5_a_round_has_at_most_eight_sources_in_id_order_within_the_targets_limits() {
    let many: Vec<_> = (1..=20).rev().map(|id| bucket(id, id, 100)).collect();
    let plan = planned(&many, true, &limits());
    assert_eq!(sources(&plan), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(matches!(plan, Plan::Merge { age: 1, records: 36, copy_bytes, .. } if copy_bytes == 36 * MIB), "{plan:?}");

    let few_records = PlanLimits { target_records: 5, ..limits() };
    assert_eq!(sources(&planned(&many, true, &few_records)), [1, 2]);
    let few_bytes = PlanLimits { target_bytes: 6 * MIB, ..limits() };
    assert_eq!(sources(&planned(&many, true, &few_bytes)), [1, 2, 3]);
    let none = PlanLimits { target_bytes: MIB - 1, ..limits() };
    assert_eq!(planned(&many, true, &none), Plan::Nothing(Idle::NoCandidate));
}

#[test]
fn the_target_keeps_the_smallest_age_of_its_sources() {
    let old = BucketFacts { age: 3, ..bucket(50, 10, 90) };
    let plan = planned(&[bucket(7, 10, 90), old], true, &limits());
    assert!(matches!(plan, Plan::Merge { age: 3, .. }), "{plan:?}");
}

#[test]
fn a_plan_fits_into_the_room_there_is() {
    let buckets = [bucket(1, 100, 100), bucket(2, 10, 10), bucket(3, 10, 9)];
    let tight = |mib: u64| Room { free_bytes: mib * MIB, ..room(true) };
    let plan_in = |mib| plan(&buckets, tight(mib), &PlanLimits { low_bytes: 0, ..limits() }, at(0));
    assert_eq!(sources(&plan_in(120)), [1, 2, 3]);
    assert_eq!(sources(&plan_in(119)), [1, 2]);
    assert_eq!(sources(&plan_in(99)), [2, 3]);
    assert_eq!(plan_in(9), Plan::Nothing(Idle::NoRoomToCopy));
}

#[test]
fn b14_one_bad_bucket_at_the_head_blocks_no_other() {
    let bad = BucketFacts { set_aside_until: Some(at(60)), ..bucket(1, 1, 99) };
    let dead = BucketFacts { set_aside_until: Some(at(50)), ..bucket(2, 0, 99) };
    assert_eq!(sources(&planned(&[bad.clone(), dead.clone(), bucket(3, 50, 50)], true, &limits())), [3]);
    let only_bad = [bad.clone(), dead, bucket(3, 100, 0)];
    assert_eq!(planned(&only_bad, true, &limits()), Plan::Nothing(Idle::SetAside { until: at(50) }));
    let evicts = PlanLimits { evict: true, ..limits() };
    assert_eq!(
        planned(&only_bad, true, &evicts),
        Plan::Evict(BucketId(3)),
        "writes are at stake, so the pause is not waited for"
    );
    let between = Room { physical_bytes: 850 * MIB, ..room(true) };
    let mut all = only_bad.to_vec();
    all.push(bucket(4, 900, 0));
    assert_eq!(plan(&all, between, &evicts, at(0)), Plan::Nothing(Idle::SetAside { until: at(50) }));
    // Its time is up: it is a candidate as before.
    assert_eq!(sources(&plan(&[bad, bucket(4, 900, 0)], room(true), &limits(), at(60))), [1]);
}

#[test]
fn b13_what_a_reader_still_holds_evicts_nobody() {
    let evicts = PlanLimits { evict: true, ..limits() };
    // 950 MiB are in use on the disk, but only 700 belong to buckets: 250 go when readers let go.
    let buckets = [bucket(1, 600, 100)];
    assert_eq!(plan(&buckets, room(true), &evicts, at(0)), Plan::Nothing(Idle::WaitsForRelease));
    let buckets = [bucket(1, 600, 100), bucket(2, 240, 0)];
    assert_eq!(plan(&buckets, room(true), &evicts, at(0)), Plan::Evict(BucketId(1)));
}

#[test]
fn eviction_comes_last_and_takes_the_oldest() {
    let evicts = PlanLimits { evict: true, ..limits() };
    let oldest = BucketFacts { age: 1, ..bucket(12, 100, 1) };
    let buckets = [bucket(5, 100, 1), oldest, bucket(6, 100, 30)];
    assert_eq!(sources(&planned(&buckets, true, &evicts)), [6]);
    assert_eq!(planned(&buckets[..2], true, &evicts), Plan::Evict(BucketId(12)));
    assert_eq!(planned(&buckets[..2], false, &evicts), Plan::Nothing(Idle::EnoughRoom));
    assert_eq!(planned(&buckets[..2], true, &limits()), Plan::Nothing(Idle::NoCandidate));
    let failed = BucketFacts { set_aside_until: Some(at(9)), ..buckets[1].clone() };
    assert_eq!(planned(&[buckets[0].clone(), failed], true, &evicts), Plan::Evict(BucketId(5)));
}

#[test]
fn a_held_bucket_is_no_source_and_only_a_suspect_one_may_be_evicted() {
    let evicts = PlanLimits { evict: true, ..limits() };
    let held = |hold, live| BucketFacts { hold: Some(hold), ..bucket(1, live, 90) };
    for live in [0, 10] {
        for (hold, expected) in [
            (Hold::Suspect, Plan::Evict(BucketId(1))),
            (Hold::Unpublished, Plan::Nothing(Idle::NoCandidate)),
            (Hold::InRound, Plan::Nothing(Idle::NoCandidate)),
        ] {
            assert_eq!(planned(&[held(hold, live)], true, &evicts), expected, "{hold:?}");
        }
    }
}

#[test]
fn a_copy_that_frees_no_block_is_no_plan() {
    // 300 of 4,000 bytes are dead, but both round up to one block.
    let tiny = BucketFacts {
        live_bytes: 3_700,
        copy_bytes: 3_700,
        dead_bytes: 300,
        allocated_bytes: 4_096,
        ..bucket(1, 1, 1)
    };
    assert_eq!(planned(std::slice::from_ref(&tiny), true, &limits()), Plan::Nothing(Idle::NoCandidate));
    let verdict = explain(&[tiny], room(true), &limits(), at(0)).remove(0).verdict;
    assert_eq!(verdict, Verdict::NothingToGain);
}

#[test]
fn pressure_begins_at_the_high_watermark_and_ends_at_the_low_one() {
    let limits = limits();
    for (was, mib, is) in [
        (false, 899, false),
        (false, 900, true),
        (true, 899, true),
        (true, 801, true),
        (true, 800, false),
        (false, 850, false),
    ] {
        assert_eq!(limits.pressure(was, mib * MIB), is, "{was} at {mib} MiB");
    }
}

#[test]
fn every_verdict_says_what_it_found() {
    let words = |bucket: BucketFacts, pressure: bool| {
        let room = Room { free_bytes: 200 * MIB, ..room(pressure) };
        explain(&[bucket], room, &limits(), at(0)).remove(0).verdict.to_string()
    };
    assert!(words(bucket(1, 0, 5), false).starts_with("fully dead"));
    assert!(words(bucket(1, 5, 5), true).starts_with("candidate"));
    assert_eq!(words(bucket(1, 5, 5), false), "no candidate: 50.0 % dead, waits for the high watermark");
    assert_eq!(words(bucket(1, 99, 1), true), "no candidate: only 1.0 % dead");
    assert_eq!(words(bucket(1, 5, 0), true), "no candidate: nothing in it is dead");
    assert!(words(bucket(1, 300, 100), true).contains("314572800 live bytes in 300 records"));
    assert!(words(bucket(1, 250, 100), true).contains("no room"));
    assert!(words(BucketFacts { set_aside_until: Some(at(3)), ..bucket(1, 0, 1) }, true).contains("t+3s"));
    for (hold, word) in [(Hold::Suspect, "verify"), (Hold::Unpublished, "durable"), (Hold::InRound, "round")] {
        assert!(words(BucketFacts { hold: Some(hold), ..bucket(1, 5, 5) }, true).contains(word));
    }
}

#[test]
fn the_limits_are_those_of_the_settings() {
    let config = crate::Config { capacity_bytes: 1_000 * MIB, ..crate::Config::default() };
    let expected = PlanLimits { evict: true, ..limits() };
    assert_eq!(PlanLimits::of(&config, 0, true), expected);
}

#[test]
fn a_target_that_could_not_be_written_holds_up_copies_only_and_evicts_nobody_below_the_high_watermark() {
    let evicts = PlanLimits { evict: true, ..limits() };
    let held_up = Room { no_copy_until: Some(at(7)), ..room(true) };
    let all = |more: &[BucketFacts]| [more, &[bucket(2, 100, 100), bucket(9, 700, 0)]].concat();
    assert_eq!(sources(&plan(&all(&[bucket(1, 0, 5)]), held_up, &evicts, at(0))), [1]);
    let below = Room { physical_bytes: 899 * MIB, ..held_up };
    assert_eq!(plan(&all(&[]), below, &evicts, at(0)), Plan::Nothing(Idle::SetAside { until: at(7) }));
    assert_eq!(plan(&all(&[]), held_up, &evicts, at(0)), Plan::Evict(BucketId(2)));
    assert_eq!(sources(&plan(&all(&[]), held_up, &evicts, at(7))), [2]);
}
