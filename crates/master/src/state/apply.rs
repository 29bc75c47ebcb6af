//! Owns replay: how one entry changes the state. No locks, no clock; everything is checked before anything changes.

use ha_types::{ObjectIncarnation, OpType, SegmentId, TenantId};
use oplog_core::{ApplyError, EntryRef};

use crate::payload::{self, CLUSTER_POLICY_KEY, CLUSTER_TENANT, LoggedPolicy, Mount, PayloadError, PutEnd};
use crate::state::{MasterState, Object, Opening, Replica, Replicas, Segments, ServingPart};

/// Why an entry stops replay; becomes a sentence with op type, tenant and key.
pub(super) struct Refused(pub(super) String);

impl From<PayloadError> for Refused {
    fn from(error: PayloadError) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

pub(super) fn apply(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), ApplyError> {
    apply_op(state, entry).map_err(|Refused(reason)| {
        let op = OpType::try_from(entry.op_type).map_or_else(|_| format!("op {}", entry.op_type), |op| op.to_string());
        let key = entry.key.escape_ascii();
        ApplyError {
            reason: format!("entry {} ({op} of tenant {:?}, key \"{key}\"): {reason}", entry.seq, entry.tenant),
        }
    })?;
    state.last_applied = entry.seq;
    Ok(())
}

fn apply_op(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    if state.last_applied.next() != Some(entry.seq) {
        return Err(Refused(format!("expected the entry after {}", state.last_applied)));
    }
    let op = OpType::try_from(entry.op_type).map_err(|e| Refused(e.to_string()))?;
    #[cfg(feature = "mooncake")]
    if super::import::is_mooncakes(entry) {
        return super::import::apply(state, entry, op);
    }
    match op {
        OpType::PutEnd => put_end(state, entry),
        OpType::PutRevoke => put_revoke(state, entry),
        OpType::Remove => remove(state, entry),
        OpType::LeaseRenew => Ok(()),
        OpType::SegmentMount => segment_mount(state, entry),
        OpType::SegmentUnmount => segment_unmount(state, entry),
        OpType::SegmentUpdate => segment_update(state, entry),
        OpType::Policy => policy(state, entry),
        op @ (OpType::LocalDeleteAck | OpType::StorageMount | OpType::StorageRetire | OpType::ExtentOpen) => {
            Err(Refused(format!("{op} is not built into this version; run one that has it")))
        }
    }
}

fn put_end(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let put = PutEnd::decode(entry.payload)?;
    check_epoch(put.incarnation, entry)?;
    let segments = state.segments.get_mut();
    let replicas = check_replicas(segments, &put)?;
    let tenants = state.tenants.get_mut();
    let known = tenants.get_in_replay(entry.tenant).map(|tenant| (tenant, state.shards.place(tenant, entry.key)));
    if let Some((tenant, place)) = known
        && let Some(there) = state.shards.get_mut(place).object(place, tenant, entry.key).filter(|o| o.stands(segments))
    {
        return Err(Refused(format!("expected no object, found one of incarnation {}", there.incarnation)));
    }
    let new_tenant = match known {
        Some(_) => None,
        None => Some(TenantId::new(entry.tenant).map_err(|e| Refused(e.to_string()))?),
    };
    take_ranges(segments, replicas.as_slice(), put.size)?;
    let (tenant, place) = known
        .or_else(|| {
            let tenant = tenants.intern(&new_tenant?)?;
            Some((tenant, state.shards.place(tenant, entry.key)))
        })
        .expect("fewer than 2^32 tenants: their names alone would not fit into memory");
    let object = Object {
        key: entry.key.into(),
        tenant,
        incarnation: put.incarnation,
        client: put.client,
        size: put.size,
        replicas,
        seq: entry.seq,
        removed: false,
        serving: ServingPart::default(),
    };
    state.shards.get_mut(place).put_object(place, object);
    Ok(())
}

/// An incarnation is minted under the claim whose writer logs it; anything else would name two objects alike one day (M8).
fn check_epoch(incarnation: ObjectIncarnation, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let [a, b, c, d, ..] = incarnation.to_bytes();
    let epoch = u64::from(u32::from_be_bytes([a, b, c, d]));
    if epoch == entry.epoch.get() {
        return Ok(());
    }
    Err(Refused(format!("expected an incarnation of epoch {}, found {incarnation}", entry.epoch)))
}

fn check_replicas(segments: &Segments, put: &PutEnd<'_>) -> Result<Replicas, Refused> {
    let mut many = Vec::new();
    let mut one = None;
    put.each_replica(|record| -> Result<(), Refused> {
        let Some(ix) = segments.find(record.segment) else {
            return Err(Refused(format!("segment {:?} is not mounted", record.segment)));
        };
        let replica = Replica { segment: ix, address: record.address };
        let earlier = one.iter().chain(&many);
        if earlier.into_iter().any(|other: &Replica| other.segment == ix) {
            return Err(Refused(format!("two replicas in segment {:?}", record.segment)));
        }
        check_range(segments, replica, put.size)?;
        if put.replica_count() == 1 {
            one = Some(replica)
        } else {
            many.push(replica)
        }
        Ok(())
    })?;
    Ok(one.map_or_else(|| Replicas::from(many), Replicas::One))
}

pub(super) fn check_range(segments: &Segments, replica: Replica, size: u64) -> Result<(), Refused> {
    let Some(segment) = segments.get(replica.segment) else {
        return Err(Refused("a segment that was just found is gone".into()));
    };
    let all = segment.addresses();
    let Some(range) = replica.address.checked_add(size).map(|end| replica.address..end) else {
        return Err(Refused(format!("{size} bytes at {:#x} end beyond 2^64", replica.address)));
    };
    if range.start < all.start || range.end > all.end {
        return Err(Refused(format!("{range:#x?} is outside segment {}, which is {all:#x?}", segment.id)));
    }
    Ok(())
}

/// All of them, or none.
pub(super) fn take_ranges(segments: &mut Segments, replicas: &[Replica], size: u64) -> Result<(), Refused> {
    for (i, replica) in replicas.iter().enumerate() {
        let range = replica.address..replica.address + size;
        let segment = segments.get_mut(replica.segment).expect("the segment was found above");
        if !segment.space.get_mut().space.take(&range) {
            let refused = Refused(format!("{range:#x?} of segment {} is not wholly free", segment.id));
            segments.free_in_replay(&replicas[..i], size);
            return Err(refused);
        }
    }
    Ok(())
}

fn put_revoke(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let incarnation = payload::decode_incarnation(OpType::PutRevoke, entry.payload)?;
    let _ = take_object(state, entry, incarnation);
    Ok(())
}

fn remove(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let incarnation = payload::decode_incarnation(OpType::Remove, entry.payload)?;
    take_object(state, entry, incarnation)
}

fn take_object(state: &mut MasterState, entry: &EntryRef<'_>, incarnation: ObjectIncarnation) -> Result<(), Refused> {
    let absent = || Refused(format!("expected an object of incarnation {incarnation}, found none"));
    let tenant = state.tenants.get_mut().get_in_replay(entry.tenant).ok_or_else(absent)?;
    let place = state.shards.place(tenant, entry.key);
    let shard = state.shards.get_mut(place);
    let there = shard.object(place, tenant, entry.key).ok_or_else(absent)?.incarnation;
    if there != incarnation {
        return Err(Refused(format!("expected an object of incarnation {incarnation}, found {there}")));
    }
    let object = shard.take_object_if(place, |o| o.is(tenant, entry.key)).ok_or_else(absent)?;
    state.segments.get_mut().free_in_replay(object.replicas.as_slice(), object.size);
    Ok(())
}

fn segment_of(entry: &EntryRef<'_>, op: OpType) -> Result<SegmentId, Refused> {
    check_cluster_tenant(entry)?;
    Ok(payload::segment_of_key(op, entry.key)?)
}

fn check_cluster_tenant(entry: &EntryRef<'_>) -> Result<(), Refused> {
    if entry.tenant == CLUSTER_TENANT {
        return Ok(());
    }
    Err(Refused(format!("expected tenant {CLUSTER_TENANT:?}")))
}

fn segment_mount(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let id = segment_of(entry, OpType::SegmentMount)?;
    let mount = Mount::decode(entry.payload)?;
    let segments = state.segments.get_mut();
    if segments.find(id.as_str()).is_some_and(|ix| !segments.is_mooncakes_at(ix, mount.endpoint)) {
        return Err(Refused("the segment is mounted already".into()));
    }
    let (endpoint, addresses) = (mount.endpoint.into(), mount.base..mount.base + mount.size);
    #[cfg(feature = "mooncake")]
    if let Some(ix) = segments.of_mooncakes_at(&endpoint) {
        segments.check_adoption(ix, &addresses)?;
        segments.adopt(ix, id, addresses, entry.seq, Opening::AfterQuarantine);
        return Ok(());
    }
    if let Some(other) = segments.overlapping(&endpoint, &addresses, None) {
        return Err(Refused(format!("it overlaps segment {}, {}", other.id, other.place())));
    }
    segments.add(id, endpoint, addresses, entry.seq, Opening::AfterQuarantine);
    Ok(())
}

fn segment_unmount(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let id = segment_of(entry, OpType::SegmentUnmount)?;
    payload::decode_unmount(entry.payload)?;
    let MasterState { segments, shards, .. } = state;
    let segments = segments.get_mut();
    let ix = segments.find(id.as_str()).ok_or_else(|| Refused("the segment is not mounted".into()))?;
    segments.remove(ix);
    for shard in shards.all_mut() {
        shard.retain_objects(|object| object.keep_mounted(segments));
    }
    Ok(())
}

fn segment_update(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let id = segment_of(entry, OpType::SegmentUpdate)?;
    let endpoint = payload::decode_endpoint(entry.payload)?.into();
    let segments = state.segments.get_mut();
    let ix = segments.find(id.as_str()).ok_or_else(|| Refused("the segment is not mounted".into()))?;
    let addresses = segments.get(ix).map(|s| s.addresses()).unwrap_or_default();
    if let Some(other) = segments.overlapping(&endpoint, &addresses, Some(ix)) {
        return Err(Refused(format!("it would overlap segment {}, {}", other.id, other.place())));
    }
    segments.move_to(ix, endpoint, entry.seq);
    Ok(())
}

fn policy(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    check_cluster_tenant(entry)?;
    if entry.key != CLUSTER_POLICY_KEY {
        return Err(Refused("expected key \"cluster\"".into()));
    }
    let logged = LoggedPolicy::decode(entry.payload)?;
    state.policy.get_mut().replace(logged);
    Ok(())
}
