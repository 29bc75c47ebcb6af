//! Owns what the state keeps of a log of Mooncake's beyond what a log of ours could say: nothing of it is lost, and only what lies
//! in memory of a segment is read or accounted.

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::{ObjectKey, TenantId};

use crate::mooncake::{Location, MetadataPayload, ReplicaDescriptor, ReplicaState};
use crate::state::{MasterState, Object, Replica, Replicas};

/// The replicas of an object of Mooncake's, with everything else that its payload said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Imported {
    /// Ranges taken in segments, and beside each what was said of it.
    ranges: Box<[Replica]>,
    described: Box<[ReplicaDescriptor]>,
    /// Replicas that hold no range: on disks, over fabric, in memory of a segment that is not mounted, or gone.
    others: Box<[ReplicaDescriptor]>,
    group_id: Option<Box<str>>,
    data_type: Option<u8>,
    hard_pinned: Option<bool>,
}

impl Imported {
    /// The replicas of `payload`, whose ranges `range` finds.
    pub(crate) fn new<E>(
        payload: MetadataPayload,
        mut range: impl FnMut(&ReplicaDescriptor) -> Result<Option<Replica>, E>,
    ) -> Result<Self, E> {
        let (mut ranges, mut described, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for replica in payload.replicas {
            match range(&replica)? {
                Some(at) => {
                    ranges.push(at);
                    described.push(replica);
                }
                None => others.push(replica),
            }
        }
        Ok(Self {
            ranges: ranges.into(),
            described: described.into(),
            others: others.into(),
            group_id: payload.group_id.map(Into::into),
            data_type: payload.data_type,
            hard_pinned: payload.hard_pinned,
        })
    }

    pub(crate) fn ranges(&self) -> &[Replica] {
        &self.ranges
    }

    /// Whether the range `index` was written to its end.
    pub(crate) fn is_complete(&self, index: usize) -> bool {
        self.described.get(index).is_some_and(|replica| replica.state == ReplicaState::Complete)
    }

    /// How many replicas are alive and hold no range.
    pub(crate) fn elsewhere(&self) -> usize {
        self.others.iter().filter(|replica| is_alive(replica.state)).count()
    }

    /// Where its replicas in memory lie that hold no range, whatever their state.
    pub(crate) fn unmounted_endpoints(&self) -> impl Iterator<Item = &str> {
        self.others.iter().filter_map(|replica| match &replica.location {
            Location::Memory(buffer) => Some(buffer.endpoint.as_str()),
            _ => None,
        })
    }

    /// Forgets the ranges that `keep` does not want; `false` if no replica is left.
    pub(crate) fn keep(&mut self, keep: impl Fn(&Replica) -> bool) -> bool {
        if !self.ranges.iter().all(&keep) {
            let both = self.ranges.iter().zip(&self.described).filter(|(range, _)| keep(range));
            let (ranges, described): (Vec<Replica>, Vec<ReplicaDescriptor>) =
                both.map(|(range, replica)| (*range, replica.clone())).unzip();
            (self.ranges, self.described) = (ranges.into(), described.into());
            return !self.ranges.is_empty() || self.elsewhere() > 0;
        }
        true
    }

    fn payload(&self, object: &Object) -> MetadataPayload {
        MetadataPayload {
            client: object.client,
            size: object.size,
            replicas: self.described.iter().chain(&self.others).cloned().collect(),
            group_id: self.group_id.as_deref().map(Into::into),
            data_type: self.data_type,
            hard_pinned: self.hard_pinned,
        }
    }
}

/// Whether somebody may still write or read a replica in this state.
pub(super) fn is_alive(state: ReplicaState) -> bool {
    match state {
        ReplicaState::Initialized | ReplicaState::Processing | ReplicaState::Complete => true,
        ReplicaState::Undefined | ReplicaState::Removed | ReplicaState::Failed => false,
    }
}

/// What Mooncake says of a segment. It does not say at which addresses the segment lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MooncakeSegment {
    /// Its name.
    pub name: Arc<str>,
    /// Its bytes.
    pub capacity: u64,
    /// Whether it is memory.
    pub is_memory: bool,
    /// Its file, where it has one.
    pub file_path: Arc<str>,
}

/// What the log says in Mooncake's words: everything of it, by tenant and key, and by endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MooncakeContents {
    /// The objects that are not removed. Replicas that hold a range in a segment come first.
    pub objects: BTreeMap<(TenantId, ObjectKey), MetadataPayload>,
    /// The mounted segments whose addresses are not known.
    pub segments: BTreeMap<Arc<str>, MooncakeSegment>,
}

pub(super) fn contents_of(state: &MasterState) -> MooncakeContents {
    let mut all = MooncakeContents::default();
    for shard in 0..state.shards.count() {
        state.shards.with_shard(shard, |shard| {
            let tenants = state.tenants.read();
            for object in shard.objects().filter(|object| !object.removed) {
                if let Replicas::Imported(imported) = &object.replicas {
                    let key = ObjectKey::new(&object.key).expect("only valid keys are stored");
                    all.objects.insert((tenants.name(object.tenant).clone(), key), imported.payload(object));
                }
            }
        });
    }
    let segments = state.segments.read();
    all.segments =
        segments.mounted().filter_map(|s| Some((s.endpoint.clone(), s.mooncake.as_deref()?.clone()))).collect();
    all
}
