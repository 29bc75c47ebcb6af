//! Owns the forecast: what the next open would do with a directory, and what GC would do then. Recovery and the planner say it.

use ha_types::MonoTime;

use super::adoption::adopting;
use super::contents::Contents;
use super::fault::Fault;
use super::fsck::judged;
use super::look::{Look, MarkerLook, Standing};
use crate::config::{Config, ConfigError};
use crate::format::names::BucketId;
use crate::gc::facts::{BucketFacts, PlanLimits, Room};
use crate::gc::facts_of;
use crate::gc::plan::{Plan, Verdict, explain as judge, plan};
use crate::recovery::{Decision, decide};

/// What would become of a directory.
#[derive(Debug)]
pub struct Explanation {
    /// Why an open would refuse, and change nothing; empty if it would not.
    pub refused: Vec<Fault>,
    /// Nothing of ours marks the directory: an open would refuse unless it is told to adopt.
    pub needs_adoption: bool,
    /// Why an open would refuse although it is told to adopt; empty if it would not, or if nothing is to be adopted.
    pub adoption_refused: Vec<Fault>,
    /// What recovery would do with each round that was under way; empty where an open would refuse.
    pub recovery: Vec<Decision>,
    /// Data files that the open would remove, because no table names them; an adoption removes none.
    pub orphans: Vec<BucketId>,
    /// Temporary files that it would remove.
    pub temporaries: Vec<String>,
    /// Buckets that would be neither served nor touched, and why.
    pub quarantined: Vec<(BucketId, String)>,
    /// What GC is told of each bucket that is served, and its verdict, in id order.
    pub buckets: Vec<BucketExplained>,
    /// What GC would do first.
    pub plan: Plan,
    /// The room that it would see.
    pub room: Room,
    /// What it would keep to.
    pub limits: PlanLimits,
}

/// Why a bucket is a candidate of GC, or why it is not.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketExplained {
    /// What the planner is told.
    pub facts: BucketFacts,
    /// What it makes of it.
    pub verdict: Verdict,
}

/// Says what a store with these settings would do with what [`look`](super::look()) saw. `evict`: whether it has anybody to agree to an eviction.
///
/// # Errors
/// A setting that a store would not take.
pub fn explain(look: &Look, contents: &Contents, config: &Config, evict: bool) -> Result<Explanation, ConfigError> {
    config.validate()?;
    let bytes_of = |is: fn(&Standing) -> bool| -> u64 {
        contents.buckets.iter().filter(|bucket| is(&bucket.standing)).map(|bucket| bucket.allocated_bytes).sum()
    };
    let out_of_reach_bytes = bytes_of(|standing| matches!(standing, Standing::Quarantined(_)));
    let physical_bytes = out_of_reach_bytes + bytes_of(|standing| matches!(standing, Standing::Served));
    let limits = PlanLimits::of(config, out_of_reach_bytes, evict);
    let pressure = limits.pressure(false, physical_bytes);
    let free_bytes = look.space.map_or(0, |space| space.free_bytes);
    let room = Room { physical_bytes, out_of_reach_bytes, free_bytes, pressure, no_copy_until: None };
    let facts = facts_of(&contents.index, |_| None);
    // Nothing has failed yet in a store that is not open, so no bucket waits for a time.
    let now = MonoTime::ZERO;
    let verdicts = judge(&facts, room, &limits, now);
    let plan = plan(&facts, room, &limits, now);
    let needs_adoption = !look.is_unused() && !matches!(look.marker, MarkerLook::Ours(_));
    let adoption_refused = if needs_adoption { adopting(look, contents).refused } else { Vec::new() };
    let (mut orphans, mut quarantined) = (Vec::new(), Vec::new());
    for bucket in &contents.buckets {
        match &bucket.standing {
            Standing::Orphan if needs_adoption => {}
            Standing::Orphan => orphans.push(bucket.id),
            Standing::Quarantined(why) => quarantined.push((bucket.id, why.clone())),
            Standing::Served | Standing::Retired | Standing::Uncommitted => {}
        }
    }
    let refused: Vec<_> = judged(look).into_iter().filter(Fault::refuses).collect();
    let recovery = look.survey().filter(|_| refused.is_empty()).and_then(|survey| decide(&survey).ok());
    Ok(Explanation {
        refused,
        needs_adoption,
        adoption_refused,
        recovery: recovery.unwrap_or_default(),
        orphans,
        temporaries: look.temporaries.clone(),
        quarantined,
        buckets: facts
            .into_iter()
            .zip(verdicts)
            .map(|(facts, explained)| BucketExplained { facts, verdict: explained.verdict })
            .collect(),
        plan,
        room,
        limits,
    })
}
