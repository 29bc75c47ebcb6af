//! Owns the comparable form of what the log determines (S8): two states that folded the same log have equal contents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ha_types::{ObjectIncarnation, ObjectKey, SegmentId, TenantId};

use crate::state::{MasterState, Object, Segments};
use crate::{ClientId, Policy};

/// Everything the log determines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The readable objects.
    pub objects: BTreeMap<(TenantId, ObjectKey), ObjectContents>,
    /// The mounted segments.
    pub segments: BTreeMap<SegmentId, SegmentContents>,
    /// Every segment id that ever occurred.
    pub known_segments: BTreeSet<SegmentId>,
    /// The cluster's times.
    pub policy: Policy,
    /// How long a successor must wait because of them and earlier ones, in milliseconds.
    pub quarantine_ms: u64,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectContents {
    /// Which object it is.
    pub incarnation: ObjectIncarnation,
    /// Who put it.
    pub client: ClientId,
    /// Its bytes.
    pub size: u64,
    /// Its readable replicas: segment and address.
    pub replicas: Vec<(SegmentId, u64)>,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentContents {
    /// Where clients reach it.
    pub endpoint: Arc<str>,
    /// The first address.
    pub base: u64,
    /// Its bytes.
    pub size: u64,
}

pub(super) fn of(state: &MasterState) -> Contents {
    let mut objects = BTreeMap::new();
    for shard in 0..state.shards.count() {
        state.shards.with_shard(shard, |shard| {
            let segments = state.segments.read();
            let tenants = state.tenants.read();
            for object in shard.objects() {
                let key = ObjectKey::new(&object.key).expect("only valid keys are stored");
                if let Some(contents) = contents_of(object, &segments) {
                    objects.insert((tenants.name(object.tenant).clone(), key), contents);
                }
            }
        });
    }
    let segments = state.segments.read();
    let logged = state.policy.read().logged();
    Contents {
        objects,
        segments: segments
            .mounted()
            .map(|s| (s.id.clone(), SegmentContents { endpoint: s.endpoint.clone(), base: s.base, size: s.size }))
            .collect(),
        known_segments: segments.known().cloned().collect(),
        policy: logged.policy,
        quarantine_ms: logged.quarantine_ms,
    }
}

pub(super) fn of_object(state: &MasterState, tenant: &TenantId, key: &ObjectKey) -> Option<ObjectContents> {
    let tenant = state.tenants.read().get(tenant.as_str())?;
    let place = state.shards.place(tenant, key.as_bytes());
    state.shards.with(place, |shard| contents_of(shard.object(place, tenant, key.as_bytes())?, &state.segments.read()))
}

fn contents_of(object: &Object, segments: &Segments) -> Option<ObjectContents> {
    if object.removed {
        return None;
    }
    let replicas: Vec<_> =
        object.replicas.written().filter_map(|r| Some((segments.get(r.segment)?.id.clone(), r.address))).collect();
    (!replicas.is_empty()).then_some(ObjectContents {
        incarnation: object.incarnation,
        client: object.client,
        size: object.size,
        replicas,
    })
}
