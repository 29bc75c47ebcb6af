//! What the planner makes of blocks that it can never give back. V4.

use super::*;
use crate::Config;

/// 950 MiB are in use, of which so many are in quarantine.
fn with_quarantine(mib: u64) -> Room {
    Room { out_of_reach_bytes: mib * MIB, ..room(true) }
}

fn limits_beside(mib: u64) -> PlanLimits {
    let config = Config { capacity_bytes: 1_000 * MIB, ..Config::default() };
    PlanLimits::of(&config, mib * MIB, true)
}

#[test]
fn v4_what_is_in_quarantine_is_no_room_on_its_way() {
    let evicts = PlanLimits { evict: true, ..limits() };
    let half = with_quarantine(500);
    let plan_of = |buckets: &[BucketFacts], limits: &PlanLimits| plan(buckets, half, limits, at(0));
    assert_eq!(sources(&plan_of(&[bucket(1, 300, 0), bucket(2, 100, 50)], &evicts)), [2]);
    let live = [bucket(1, 300, 0), bucket(2, 150, 0)];
    assert_eq!(plan_of(&live, &evicts), Plan::Evict(BucketId(1)));
    assert_eq!(plan_of(&live, &limits()), Plan::Nothing(Idle::NoCandidate));
    // 150 MiB more than buckets and quarantine have are held by readers: those do come.
    assert_eq!(plan_of(&[bucket(1, 300, 0)], &evicts), Plan::Nothing(Idle::WaitsForRelease));
    assert_eq!(plan_of(&[bucket(1, 301, 0)], &evicts), Plan::Evict(BucketId(1)));
}

#[test]
fn watermarks_are_shares_of_what_is_not_in_quarantine() {
    for (quarantined, low, high) in [(0, 800, 900), (500, 900, 950), (900, 980, 990), (1_000, 1_000, 1_000)] {
        let limits = limits_beside(quarantined);
        assert_eq!((limits.low_bytes, limits.high_bytes), (low * MIB, high * MIB), "{quarantined} MiB");
        assert_eq!(limits.evict, quarantined < 1_000);
    }
    let beyond = PlanLimits::of(&Config::default(), u64::MAX, true);
    assert_eq!((beyond.low_bytes, beyond.high_bytes, beyond.evict), (u64::MAX, u64::MAX, false));
}

#[test]
fn a_quarantine_above_the_watermarks_does_not_cost_every_live_bucket() {
    // Nine tenths are in quarantine: of the 100 MiB that are left, 90 and 80 are the watermarks.
    let limits = limits_beside(900);
    let ten_of = |mib: u64| (1..=10).map(|id| bucket(id, mib, 0)).collect::<Vec<_>>();
    let mut buckets = ten_of(9);
    let mut evicted = 0;
    let mut pressure = false;
    loop {
        let used = 900 * MIB + buckets.iter().map(|bucket| bucket.allocated_bytes).sum::<u64>();
        pressure = limits.pressure(pressure, used);
        let room = Room { physical_bytes: used, pressure, ..with_quarantine(900) };
        match plan(&buckets, room, &limits, at(0)) {
            Plan::Evict(id) => buckets.retain(|bucket| bucket.id != id),
            other => break assert_eq!(other, Plan::Nothing(Idle::EnoughRoom)),
        }
        evicted += 1;
    }
    assert_eq!((evicted, buckets.len()), (2, 8));
}

#[test]
fn where_quarantine_leaves_nothing_no_live_bucket_goes_and_the_dead_ones_do() {
    for quarantined in [1_000, 2_000] {
        let limits = limits_beside(quarantined);
        let plan_of = |buckets: &[BucketFacts]| {
            let used = quarantined * MIB + buckets.iter().map(|bucket| bucket.allocated_bytes).sum::<u64>();
            assert!(limits.pressure(false, used));
            plan(buckets, Room { physical_bytes: used, ..with_quarantine(quarantined) }, &limits, at(0))
        };
        assert_eq!(plan_of(&[bucket(1, 90, 0), bucket(2, 10, 0)]), Plan::Nothing(Idle::NoCandidate));
        assert_eq!(sources(&plan_of(&[bucket(1, 90, 0), bucket(2, 10, 10)])), [2]);
        assert_eq!(sources(&plan_of(&[bucket(1, 90, 0), bucket(2, 0, 10)])), [2]);
        // Nothing is on its way out, so there is nothing to wait for.
        assert_eq!(plan_of(&[]), Plan::Nothing(Idle::NoCandidate));
    }
}
