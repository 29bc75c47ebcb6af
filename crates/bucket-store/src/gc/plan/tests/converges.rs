//! V4: whatever the buckets, whatever fails on the way, GC reaches the low watermark or runs out of candidates.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const BLOCK: u64 = 4096;

#[derive(Clone, Debug)]
struct World {
    buckets: Vec<BucketFacts>,
    /// Blocks of retired files that a reader holds.
    pinned_bytes: u64,
    /// Blocks of buckets in quarantine.
    out_of_reach_bytes: u64,
    limits: PlanLimits,
    total_bytes: u64,
    pressure: bool,
    now: MonoTime,
    next_id: u64,
}

impl World {
    /// What stays used whatever readers do.
    fn settled_bytes(&self) -> u64 {
        self.out_of_reach_bytes + self.buckets.iter().map(|b| b.allocated_bytes).sum::<u64>()
    }

    fn physical_bytes(&self) -> u64 {
        self.pinned_bytes + self.settled_bytes()
    }

    fn room(&self) -> Room {
        let physical_bytes = self.physical_bytes();
        Room {
            physical_bytes,
            out_of_reach_bytes: self.out_of_reach_bytes,
            free_bytes: self.total_bytes.saturating_sub(physical_bytes),
            pressure: self.pressure,
            no_copy_until: None,
        }
    }

    fn plan(&mut self) -> Plan {
        self.pressure = self.limits.pressure(self.pressure, self.physical_bytes());
        plan(&self.buckets, self.room(), &self.limits, self.now)
    }

    fn take(&mut self, ids: &[BucketId]) -> Vec<BucketFacts> {
        let (gone, stay) = std::mem::take(&mut self.buckets).into_iter().partition(|b| ids.contains(&b.id));
        self.buckets = stay;
        gone
    }

    /// Does what was planned, as the engine would, and checks that it frees something.
    fn execute(&mut self, plan: &Plan) {
        let (before, buckets_before) = (self.physical_bytes(), self.buckets.len());
        match plan {
            Plan::Nothing(_) => panic!("nothing to execute"),
            Plan::RemoveDead(ids) => {
                assert!((1..=MAX_SOURCES).contains(&ids.len()) && ids.is_sorted());
                assert!(self.take(ids).iter().all(|b| b.live_records == 0));
            }
            Plan::Evict(id) => {
                assert!(self.limits.evict);
                assert!(self.settled_bytes() > self.limits.low_bytes, "a live bucket goes for nothing");
                assert_eq!(self.take(&[*id]).len(), 1);
            }
            Plan::Merge { sources, age, copy_bytes, records } => {
                assert!((1..=MAX_SOURCES).contains(&sources.len()) && sources.is_sorted());
                let allocated_bytes = copy_bytes.div_ceil(BLOCK) * BLOCK;
                assert!(before + allocated_bytes <= self.total_bytes, "the copy does not fit onto the disk");
                assert!(*copy_bytes <= self.limits.target_bytes && *records <= self.limits.target_records);
                let gone = self.take(sources);
                assert_eq!(gone.iter().map(|b| b.copy_bytes).sum::<u64>(), *copy_bytes);
                assert_eq!(gone.iter().map(|b| b.live_records).sum::<u32>(), *records);
                assert_eq!(gone.iter().map(|b| b.age).min(), Some(*age));
                let (live, dead) = gone.iter().fold((0, 0), |(l, d), b| (l + b.live_bytes, d + b.dead_bytes));
                let floor = self.limits.ratio.map_or(self.limits.floor, |ratio| ratio.min(self.limits.floor));
                // Write amplification: copied per freed byte, at most 1 / dead ratio.
                assert!(live as f64 <= dead as f64 / floor, "{live} live bytes moved for {dead} dead ones");
                self.buckets.push(BucketFacts {
                    id: BucketId(self.next_id),
                    age: *age,
                    live_records: *records,
                    live_bytes: *copy_bytes,
                    copy_bytes: *copy_bytes,
                    dead_bytes: 0,
                    allocated_bytes,
                    hold: None,
                    set_aside_until: None,
                });
                self.next_id += 1;
            }
        }
        // An empty bucket has no blocks to give back, but it is gone.
        assert!((self.physical_bytes(), self.buckets.len()) < (before, buckets_before), "{plan:?} freed nothing");
    }

    /// The sources of the plan fail and are set aside.
    fn fail(&mut self, plan: &Plan) {
        let until = self.now.saturating_add(Duration::from_secs(10));
        let failed = match plan {
            Plan::RemoveDead(ids) | Plan::Merge { sources: ids, .. } => ids.clone(),
            Plan::Evict(id) => vec![*id],
            Plan::Nothing(_) => unreachable!(),
        };
        for bucket in self.buckets.iter_mut().filter(|b| failed.contains(&b.id)) {
            bucket.set_aside_until = Some(until);
        }
    }
}

fn facts() -> impl Strategy<Value = BucketFacts> {
    let record_bytes = prop_oneof![1_u64..5_000, 60_000_u64..70_000];
    let hold = prop_oneof![
        8 => Just(None),
        1 => Just(Some(Hold::Suspect)),
        1 => Just(Some(Hold::Unpublished)),
        1 => Just(Some(Hold::InRound)),
    ];
    (record_bytes, 0_u32..40, 0_u64..40, 0_u64..100, 0_u64..20, hold).prop_map(
        |(bytes, live, dead, age, extra, hold)| {
            let (live_bytes, dead_bytes) = (bytes * u64::from(live), bytes * dead);
            BucketFacts {
                id: BucketId(0),
                age,
                live_records: live,
                live_bytes,
                // A bucket of Mooncake's grows when it is copied.
                copy_bytes: live_bytes + u64::from(live) * extra,
                dead_bytes,
                allocated_bytes: (live_bytes + dead_bytes).div_ceil(BLOCK) * BLOCK,
                hold,
                set_aside_until: None,
            }
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let ratio = prop_oneof![Just(None), (0.01_f64..1.0).prop_map(Some)];
    (
        vec(facts(), 1..30),
        ratio,
        any::<bool>(),
        1_u64..4_000_000,
        1_u32..80,
        0.0_f64..1.0,
        0_u64..3_000_000,
        (0_u64..500_000, prop_oneof![Just(0), 0_u64..500_000, 0_u64..20_000_000]),
    )
        .prop_map(|(mut buckets, ratio, evict, target_bytes, target_records, low, spare_bytes, stays)| {
            let (pinned_bytes, out_of_reach_bytes) = stays;
            for (bucket, id) in buckets.iter_mut().zip(1..) {
                bucket.id = BucketId(id);
            }
            let used: u64 = buckets.iter().map(|b| b.allocated_bytes).sum::<u64>() + pinned_bytes;
            let low_bytes = (used as f64 * low) as u64;
            World {
                next_id: buckets.len() as u64 + 1,
                buckets,
                pinned_bytes,
                out_of_reach_bytes,
                // As `PlanLimits::of` has it, above what is in quarantine.
                limits: PlanLimits {
                    high_bytes: out_of_reach_bytes + low_bytes + (used - low_bytes) / 2 + 1,
                    low_bytes: out_of_reach_bytes + low_bytes,
                    target_bytes,
                    target_records,
                    floor: 0.05,
                    ratio,
                    block_bytes: BLOCK,
                    evict,
                },
                total_bytes: out_of_reach_bytes + used + spare_bytes,
                pressure: false,
                now: at(0),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn v4_gc_reaches_the_low_watermark_or_has_no_candidate(mut world in world(), failures in vec(any::<bool>(), 0..60)) {
        let mut failures = failures.into_iter();
        // Every success takes a bucket away or ends as one without dead bytes; every failure is one of at most 60.
        for _ in 0..2 * world.buckets.len() + 200 {
            let plan = world.plan();
            match plan {
                Plan::Nothing(Idle::SetAside { until }) => {
                    prop_assert!(until > world.now, "a pause that is over was waited for");
                    world.now = until;
                }
                Plan::Nothing(idle) => {
                    let verdicts = explain(
                        &world.buckets,
                        world.room(),
                        &world.limits,
                        world.now,
                    );
                    prop_assert!(idle != Idle::WaitsForRelease || world.pinned_bytes > 0, "nothing will be released");
                    prop_assert!(verdicts.iter().all(|e| e.verdict != Verdict::Dead), "a dead bucket was left");
                    let settled = world.settled_bytes();
                    let candidates = verdicts.iter().any(|e| matches!(e.verdict, Verdict::Candidate | Verdict::SetAside { .. }));
                    if world.pressure && settled > world.limits.low_bytes {
                        prop_assert!(!candidates, "{idle:?} with candidates left");
                        let evictable = world.buckets.iter().any(|b| matches!(b.hold, None | Some(Hold::Suspect)) && b.allocated_bytes > 0);
                        prop_assert!(!(world.limits.evict && evictable), "{idle:?} with a bucket to evict");
                    }
                    return Ok(());
                }
                plan if failures.next() == Some(true) => world.fail(&plan),
                plan => world.execute(&plan),
            }
        }
        prop_assert!(false, "GC goes on for ever");
    }
}
