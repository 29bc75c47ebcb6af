//! Owns the view of the index that the planner is given. It must not judge.

use ha_types::MonoTime;

use super::facts::{BucketFacts, Hold};
use crate::format::names::BucketId;
use crate::format::record::{CHUNK_BYTES, FIXED_BYTES};
use crate::format::table::RecordLayout;
use crate::store::state::{BucketState, Engagement, Fate, Location, State};

/// One line per bucket of the index, in id order.
pub(crate) fn facts(state: &State, set_aside_until: impl Fn(BucketId) -> Option<MonoTime>) -> Vec<BucketFacts> {
    state.buckets().map(|bucket| facts_of(state, bucket, set_aside_until(bucket.id()))).collect()
}

fn facts_of(state: &State, bucket: &BucketState, set_aside_until: Option<MonoTime>) -> BucketFacts {
    let (kept, dead) = (bucket.figures().kept(), bucket.figures().dead());
    let copy_bytes = match bucket.bucket().layout {
        RecordLayout::Checksummed => kept.bytes,
        // Headers are added; the sums of the chunks are bounded by one more per record.
        RecordLayout::MooncakeRaw => {
            kept.bytes + kept.records * (FIXED_BYTES as u64 + 4) + 4 * (kept.bytes / u64::from(CHUNK_BYTES))
        }
    };
    BucketFacts {
        id: bucket.id(),
        age: bucket.bucket().age,
        live_records: u32::try_from(kept.records).unwrap_or(u32::MAX),
        live_bytes: kept.bytes,
        copy_bytes,
        dead_bytes: dead.bytes,
        allocated_bytes: bucket.bucket().file.allocated_bytes(),
        hold: hold(state, bucket),
        set_aside_until,
    }
}

/// The bucket's line with what is dead for readers, but could come back after a restart, counted as alive: a copy would carry it along. In
/// time proportional to its records, so only for buckets that are about to be copied.
pub(super) fn exact(state: &State, id: BucketId) -> Option<BucketFacts> {
    let bucket = state.bucket(id)?;
    let mut facts = facts_of(state, bucket, None);
    let undecided = (0_u32..).zip(bucket.slots()).filter(|(slot, entry)| {
        entry.state().is_dead() && state.fate(Location { bucket: id, slot: *slot }) == Fate::Copy
    });
    for (_, entry) in undecided {
        let bytes = entry.record_bytes(bucket.bucket().layout);
        facts.live_records += 1;
        facts.live_bytes += bytes;
        facts.copy_bytes += bytes;
        facts.dead_bytes = facts.dead_bytes.saturating_sub(bytes);
    }
    Some(facts)
}

fn hold(state: &State, bucket: &BucketState) -> Option<Hold> {
    if bucket.engagement() != Engagement::Free {
        return Some(Hold::InRound);
    }
    if !bucket.is_published() {
        return Some(Hold::Unpublished);
    }
    // Dead for readers is not dead for good: a tombstone, or the newer record, may not be durable yet.
    let all_dead = bucket.figures().kept().records == 0;
    let dead_for_good = all_dead && state.is_fully_dead(bucket.id());
    let suspicion = bucket.suspicion();
    // What is dead for good need not be read by anybody any more.
    if suspicion.publish_failed || (suspicion.unreadable && !dead_for_good) {
        return Some(Hold::Suspect);
    }
    (all_dead && !dead_for_good).then_some(Hold::Unpublished)
}
