//! Owns the verdict on one bucket: why it is a candidate of GC or why not. The plan rests on these verdicts and on nothing else.

use std::fmt;

use ha_types::MonoTime;

use crate::format::names::BucketId;
use crate::gc::facts::{BucketFacts, Hold, PlanLimits, Room};

/// Why a bucket is a candidate of GC, or why it is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Nothing in it is alive: it goes next, without a copy.
    Dead,
    /// It is worth a copy, and the deadest candidates go first.
    Candidate,
    /// Something forbids it.
    Held(Hold),
    /// The last attempt failed; others go first until then.
    SetAside {
        /// The end of the pause.
        until: MonoTime,
    },
    /// Nothing in it is dead.
    AllLive,
    /// Dead enough for a copy under pressure, but there is none, and it is below the ratio for copies without.
    NoPressure {
        /// Its dead share.
        dead_ratio: f64,
    },
    /// Its dead share is below the floor: the copy would cost more than it frees.
    BelowFloor {
        /// Its dead share.
        dead_ratio: f64,
    },
    /// What is alive in it does not fit into one target within the limits.
    TooLargeForTarget {
        /// Bytes that the target would have.
        copy_bytes: u64,
        /// Records that the target would have.
        records: u32,
    },
    /// A copy would not free a single block.
    NothingToGain,
    /// The disk has no room for its copy.
    NoRoomToCopy,
}

/// One bucket's verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// The bucket.
    pub id: BucketId,
    /// Whether it is a candidate, and why.
    pub verdict: Verdict,
}

/// The verdict on every bucket, in the order given.
#[must_use]
pub fn explain(buckets: &[BucketFacts], room: Room, limits: &PlanLimits, now: MonoTime) -> Vec<Explained> {
    buckets.iter().map(|bucket| Explained { id: bucket.id, verdict: judge(bucket, room, limits, now) }).collect()
}

pub(super) fn judge(bucket: &BucketFacts, room: Room, limits: &PlanLimits, now: MonoTime) -> Verdict {
    if let Some(hold) = bucket.hold {
        return Verdict::Held(hold);
    }
    let verdict = judge_apart_from_failures(bucket, room, limits);
    let until = match verdict {
        Verdict::Dead => bucket.set_aside_until,
        Verdict::Candidate => bucket.set_aside_until.max(room.no_copy_until),
        _ => None,
    };
    until.filter(|until| *until > now).map_or(verdict, |until| Verdict::SetAside { until })
}

fn judge_apart_from_failures(bucket: &BucketFacts, room: Room, limits: &PlanLimits) -> Verdict {
    if bucket.live_records == 0 {
        return Verdict::Dead;
    }
    if bucket.dead_bytes == 0 {
        return Verdict::AllLive;
    }
    let dead_ratio = bucket.dead_ratio();
    let asked_for = limits.ratio.is_some_and(|ratio| dead_ratio >= ratio);
    if !asked_for {
        if dead_ratio < limits.floor {
            return Verdict::BelowFloor { dead_ratio };
        }
        if !room.pressure {
            return Verdict::NoPressure { dead_ratio };
        }
    }
    let (copy_bytes, records) = (bucket.copy_bytes, bucket.live_records);
    if copy_bytes > limits.target_bytes || records > limits.target_records {
        return Verdict::TooLargeForTarget { copy_bytes, records };
    }
    // Each source gains by itself, so every merge frees at least a block and GC ends (V4).
    if limits.in_blocks(copy_bytes) >= bucket.allocated_bytes {
        return Verdict::NothingToGain;
    }
    if limits.in_blocks(copy_bytes) > room.free_bytes {
        return Verdict::NoRoomToCopy;
    }
    Verdict::Candidate
}

/// Eviction takes what a merge must not touch as well, but nothing that is still being written or is already leaving.
pub(super) fn may_be_evicted(bucket: &BucketFacts) -> bool {
    matches!(bucket.hold, None | Some(Hold::Suspect)) && bucket.allocated_bytes > 0
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ratio: f64| ratio * 100.0;
        match self {
            Self::Dead => f.write_str("fully dead: goes next, without a copy"),
            Self::Candidate => f.write_str("candidate: what is alive in it will be copied"),
            Self::Held(Hold::Suspect) => {
                f.write_str("left alone: its table could not be published, or a record does not verify")
            }
            Self::Held(Hold::Unpublished) => f.write_str("left alone: not durable yet"),
            Self::Held(Hold::InRound) => f.write_str("left alone: a round of GC has it already"),
            Self::SetAside { until } => write!(f, "set aside until {until:?}: the last attempt failed"),
            Self::AllLive => f.write_str("no candidate: nothing in it is dead"),
            Self::NoPressure { dead_ratio } => {
                write!(f, "no candidate: {:.1} % dead, waits for the high watermark", percent(*dead_ratio))
            }
            Self::BelowFloor { dead_ratio } => write!(f, "no candidate: only {:.1} % dead", percent(*dead_ratio)),
            Self::TooLargeForTarget { copy_bytes, records } => write!(
                f,
                "no candidate: {copy_bytes} live bytes in {records} records do not fit into one bucket of the limits set"
            ),
            Self::NothingToGain => f.write_str("no candidate: a copy would not free a block"),
            Self::NoRoomToCopy => f.write_str("no candidate: the disk has no room for its copy"),
        }
    }
}
