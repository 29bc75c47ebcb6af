//! Owns the decision what GC does next: a pure function of what the buckets are. No I/O, no clock, no lock.
//!
//! Fully dead buckets always go first. Under pressure the deadest ones are merged, down to the floor; without it only those
//! above the opt-in ratio. What failed lately is set aside and never stands in the way of others. Eviction comes last.

mod explain;
#[cfg(test)]
mod tests;

use ha_types::MonoTime;

pub use explain::{Explained, Verdict, explain};

use super::facts::{BucketFacts, PlanLimits, Room};
use crate::format::intent::MAX_SOURCES;
use crate::format::names::BucketId;

/// What GC does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing, and why.
    Nothing(Idle),
    /// Remove these buckets without a copy: nothing in them is alive. At most 8, in id order.
    RemoveDead(Vec<BucketId>),
    /// Copy what is alive in the sources into one target. At most 8, in id order.
    Merge {
        /// The buckets that the target replaces.
        sources: Vec<BucketId>,
        /// The smallest age of the sources: the target takes their place in the order of eviction.
        age: u64,
        /// Bytes that the copy will write.
        copy_bytes: u64,
        /// Records that it will write.
        records: u32,
    },
    /// Give up this bucket with what is alive in it.
    Evict(BucketId),
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Usage is below the high watermark (or back at the low one), and no bucket asks for a copy.
    EnoughRoom,
    /// What is retired is enough; its blocks are free when the last reader lets go, or when clean-up succeeds.
    WaitsForRelease,
    /// The only candidates failed lately; the first may be tried again at this time.
    SetAside {
        /// The earliest end of their pauses.
        until: MonoTime,
    },
    /// There are candidates, but no room for the copy of any, and nothing may be evicted.
    NoRoomToCopy,
    /// Usage is too high and nothing can be done about it: nothing dead enough, nothing that may be evicted. Where buckets are in
    /// quarantine it is they that stand in the way, and only a person can mend or remove them.
    NoCandidate,
}

/// Decides what GC does next.
#[must_use]
pub fn plan(buckets: &[BucketFacts], room: Room, limits: &PlanLimits, now: MonoTime) -> Plan {
    let verdicts: Vec<(&BucketFacts, Verdict)> =
        buckets.iter().map(|bucket| (bucket, explain::judge(bucket, room, limits, now))).collect();
    let ids = |wanted: &Verdict| {
        let mut ids: Vec<_> = verdicts.iter().filter(|(_, verdict)| verdict == wanted).map(|(b, _)| b.id).collect();
        ids.sort_unstable();
        ids
    };
    let mut dead = ids(&Verdict::Dead);
    if !dead.is_empty() {
        dead.truncate(MAX_SOURCES);
        return Plan::RemoveDead(dead);
    }
    // What is on its way out counts as gone: merging or evicting more because a reader holds a retired file would
    // give up live objects for room that is coming anyway.
    // What is in quarantine is not: it never goes.
    let settled_bytes =
        buckets.iter().fold(room.out_of_reach_bytes, |sum, bucket| sum.saturating_add(bucket.allocated_bytes));
    let makes_room = room.pressure && settled_bytes > limits.low_bytes;
    let candidates = verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Candidate)).map(|(bucket, _)| *bucket);
    if let Some(merge) = merge(candidates.collect(), limits, room.free_bytes)
        && (makes_room || !room.pressure)
    {
        return merge;
    }
    if room.pressure && !makes_room && settled_bytes < room.physical_bytes {
        return Plan::Nothing(Idle::WaitsForRelease);
    }
    let waiting =
        verdicts.iter().filter_map(|(_, v)| if let Verdict::SetAside { until } = v { Some(*until) } else { None });
    let mut until = waiting.min();
    if makes_room && limits.evict {
        // Between the watermarks a candidate that failed lately is waited for; from the high one on, writes are at stake.
        let waits = until.is_some() && room.physical_bytes < limits.high_bytes;
        let evictable = || buckets.iter().filter(|bucket| explain::may_be_evicted(bucket));
        let ready = evictable().filter(|bucket| bucket.set_aside_until.is_none_or(|until| until <= now));
        if let Some(oldest) = ready.min_by_key(|bucket| (bucket.age, bucket.id)).filter(|_| !waits) {
            return Plan::Evict(oldest.id);
        }
        let pauses = evictable().filter_map(|bucket| bucket.set_aside_until).filter(|until| *until > now);
        until = until.into_iter().chain(pauses).min();
    }
    Plan::Nothing(match until {
        Some(until) => Idle::SetAside { until },
        None if verdicts.iter().any(|(_, v)| *v == Verdict::NoRoomToCopy) => Idle::NoRoomToCopy,
        None if room.pressure => Idle::NoCandidate,
        None => Idle::EnoughRoom,
    })
}

/// The deadest candidates that together fit into one target and into the room there is.
fn merge(mut candidates: Vec<&BucketFacts>, limits: &PlanLimits, free_bytes: u64) -> Option<Plan> {
    candidates.sort_by(|a, b| {
        b.dead_ratio().total_cmp(&a.dead_ratio()).then(b.dead_bytes.cmp(&a.dead_bytes)).then(a.id.cmp(&b.id))
    });
    let (mut sources, mut age, mut copy_bytes, mut records) = (Vec::new(), u64::MAX, 0_u64, 0_u32);
    for bucket in candidates {
        let (bytes, count) =
            (copy_bytes.saturating_add(bucket.copy_bytes), records.saturating_add(bucket.live_records));
        let fits =
            bytes <= limits.target_bytes && count <= limits.target_records && limits.in_blocks(bytes) <= free_bytes;
        if fits {
            sources.push(bucket.id);
            (age, copy_bytes, records) = (age.min(bucket.age), bytes, count);
            if sources.len() == MAX_SOURCES {
                break;
            }
        }
    }
    sources.sort_unstable();
    (!sources.is_empty()).then_some(Plan::Merge { sources, age, copy_bytes, records })
}
