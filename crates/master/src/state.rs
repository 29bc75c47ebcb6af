//! Owns the state that standby and primary share: a fold of the log, with room beside it for what only a primary knows.

#[cfg(feature = "mooncake")]
mod adoption;
mod apply;
mod arena;
mod contents;
#[cfg(feature = "mooncake")]
mod import;
#[cfg(feature = "mooncake")]
mod imported;
mod key_bytes;
mod object;
mod policy;
mod running_put;
mod segments;
mod shards;
mod space;
mod tenants;

use ha_types::{ObjectKey, SegmentId, Seq, TenantId};
use oplog_core::{ApplyError, EntryRef, StateMachine};
use parking_lot::RwLock;

pub use contents::{Contents, ObjectContents, SegmentContents};
#[cfg(feature = "mooncake")]
pub use imported::{MooncakeContents, MooncakeSegment};

pub(crate) use arena::Arena;
#[cfg(feature = "mooncake")]
pub(crate) use imported::Imported;
pub(crate) use key_bytes::KeyBytes;
pub(crate) use object::{Object, Replica, Replicas, ServingPart, ServingTerm};
pub(crate) use policy::PolicyInForce;
pub(crate) use running_put::RunningPut;
pub(crate) use segments::{Left, Opening, Segment, SegmentIx, Segments};
pub(crate) use shards::{Place, Shard, Shards};
pub(crate) use space::Space;
pub(crate) use tenants::{TenantIx, Tenants};

/// Objects, segments and their space: a fold of the log. A standby replays into it without any lock; the promoted primary
/// serves from the same value, which is not copied and not gone over.
#[derive(Debug, Default)]
pub struct MasterState {
    pub(crate) shards: Shards,
    pub(crate) segments: RwLock<Segments>,
    pub(crate) tenants: RwLock<Tenants>,
    pub(crate) policy: RwLock<PolicyInForce>,
    pub(crate) last_applied: Seq,
}

impl MasterState {
    /// The state of an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many objects there are, those with a removal on its way included.
    #[must_use]
    pub fn objects(&self) -> u64 {
        (0..self.shards.count()).map(|i| self.shards.with_shard(i, |shard| shard.count() as u64)).sum()
    }

    /// Everything the log determines, in a form that can be compared. Takes a pass over all objects: for tests and audits.
    #[must_use]
    pub fn contents(&self) -> Contents {
        contents::of(self)
    }

    /// The object of that key, if it is readable; grants no lease.
    #[must_use]
    pub fn object(&self, tenant: &TenantId, key: &ObjectKey) -> Option<ObjectContents> {
        contents::of_object(self, tenant, key)
    }

    /// What the log says in Mooncake's words and ours have no place for, in a form that can be compared. Takes a pass over all
    /// objects: for tests and audits.
    #[cfg(feature = "mooncake")]
    #[must_use]
    pub fn mooncake_contents(&self) -> MooncakeContents {
        imported::contents_of(self)
    }

    /// Whether a segment of that id ever occurred in the log.
    #[must_use]
    pub fn knows_segment(&self, segment: &SegmentId) -> bool {
        self.segments.read().knows(segment)
    }
}

impl StateMachine for MasterState {
    fn last_applied(&self) -> Seq {
        self.last_applied
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        apply::apply(self, &entry)
    }

    fn pass_hole(&mut self, through: Seq) -> Result<(), ApplyError> {
        // What the missing entries said is lost; the next one is checked against what is known, as every entry is.
        self.last_applied = through;
        Ok(())
    }
}
