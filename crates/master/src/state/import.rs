//! Owns replay of entries that Mooncake wrote. Each carries the full state of what it is about, so it replaces what is there;
//! everything is checked before anything changes.

use ha_types::{Epoch, ObjectIncarnation, ObjectKey, OpType, SegmentId, TenantId};
use oplog_core::EntryRef;

use super::apply::{Refused, check_range, take_ranges};
use super::imported::{MooncakeSegment, is_alive};
use crate::mooncake::{
    Buffer, Location, MetadataPayload, ReplicaDescriptor, SegmentMountPayload, SegmentUnmountPayload, StructPackError,
};
use crate::payload;
use crate::state::{Imported, MasterState, Object, Replica, Replicas, Segments, ServingPart};

impl From<StructPackError> for Refused {
    fn from(error: StructPackError) -> Self {
        Self(error.to_string())
    }
}

/// Whether Mooncake wrote the entry. Payloads of ours begin with their version, a small number, and none is empty; those of
/// Mooncake's begin with the low byte of a type hash (0x24, 0x25, 0x44, 0x45, 0x6a, 0x6b, 0xc2, 0xc3, 0xcc or 0xcd) or are empty. No
/// version of ours may ever be one of these. Furthermore Mooncake's entries have epoch 0, and ours have not.
pub(super) fn is_mooncakes(entry: &EntryRef<'_>) -> bool {
    entry.epoch == Epoch::ZERO && !payload::begins_as_ours(entry.payload)
}

/// Applies one entry of Mooncake's.
pub(super) fn apply(state: &mut MasterState, entry: &EntryRef<'_>, op: OpType) -> Result<(), Refused> {
    match op {
        OpType::PutEnd => put_end(state, entry)?,
        OpType::PutRevoke | OpType::Remove => gone(state, entry)?,
        OpType::LeaseRenew => {}
        OpType::SegmentMount | OpType::SegmentUpdate => segment(state, entry)?,
        OpType::SegmentUnmount => segment_unmount(state, entry)?,
        other => return Err(Refused(format!("{other} is not written by Mooncake"))),
    }
    state.policy.get_mut().imported();
    Ok(())
}

fn put_end(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let payload = MetadataPayload::decode(entry.payload)?;
    let key = ObjectKey::new(entry.key).map_err(|e| Refused(e.to_string()))?;
    let tenant = TenantId::new(entry.tenant).map_err(|e| Refused(e.to_string()))?;
    let (client, size) = (payload.client, payload.size);
    let segments = state.segments.get_mut();
    let imported = Imported::new(payload, |replica| range_of(segments, replica, size))?;
    let tenant = state.tenants.get_mut().intern(&tenant).ok_or_else(|| Refused("one tenant too many".into()))?;
    let place = state.shards.place(tenant, key.as_bytes());
    let there = state.shards.get_mut(place).object(place, tenant, key.as_bytes());
    let (earlier, earlier_size) = match there {
        None => (Vec::new(), 0),
        Some(object) if object.incarnation == ObjectIncarnation::LEGACY => {
            (object.replicas.as_slice().to_vec(), object.size)
        }
        Some(object) => {
            return Err(Refused(format!(
                "expected none of our objects, found one of incarnation {}",
                object.incarnation
            )));
        }
    };
    segments.free_in_replay(&earlier, earlier_size);
    if let Err(refused) = take_ranges(segments, imported.ranges(), size) {
        take_ranges(segments, &earlier, earlier_size)
            .map_err(|Refused(why)| Refused(format!("ranges that were just given back are not free: {why}")))?;
        return Err(refused);
    }
    // An older original logs no mounts: then its replicas are all that tells of memory in which it may have granted.
    imported.unmounted_endpoints().for_each(|endpoint| segments.note_memory_at(endpoint));
    let object = Object {
        key: entry.key.into(),
        tenant,
        incarnation: ObjectIncarnation::LEGACY,
        client,
        size,
        replicas: Replicas::Imported(Box::new(imported)),
        seq: entry.seq,
        removed: false,
        serving: ServingPart::default(),
    };
    state.shards.get_mut(place).put_object(place, object);
    Ok(())
}

/// Where a replica lies in a mounted segment, if it is in memory and somebody may still write or read it.
fn range_of(segments: &Segments, replica: &ReplicaDescriptor, size: u64) -> Result<Option<Replica>, Refused> {
    let Location::Memory(Buffer { size: bytes, address, endpoint, .. }) = &replica.location else { return Ok(None) };
    let Some(segment) = segments.find(endpoint) else { return Ok(None) };
    if !is_alive(replica.state) {
        return Ok(None);
    }
    if *bytes != size || size == 0 {
        let id = replica.id;
        return Err(Refused(format!("replica {id}: expected a buffer of the object's {size} bytes, found {bytes}")));
    }
    let range = Replica { segment, address: *address };
    check_range(segments, range, size)?;
    Ok(Some(range))
}

/// The object is not there from here on. That it was not there before says nothing: removal may be logged twice.
fn gone(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    if !entry.payload.is_empty() {
        return Err(Refused(format!("expected an empty payload, found {} bytes", entry.payload.len())));
    }
    let Some(tenant) = state.tenants.get_mut().get_in_replay(entry.tenant) else { return Ok(()) };
    let place = state.shards.place(tenant, entry.key);
    if let Some(object) = state.shards.get_mut(place).take_object_if(place, |o| o.is(tenant, entry.key)) {
        state.segments.get_mut().free_in_replay(object.replicas.as_slice(), object.size);
    }
    Ok(())
}

fn segment(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let payload = SegmentMountPayload::decode(entry.payload)?;
    let id = segment_id(&payload.endpoint)?;
    let mooncake = MooncakeSegment {
        name: payload.name.into(),
        capacity: payload.capacity,
        is_memory: payload.is_memory,
        file_path: payload.file_path.into(),
    };
    state.segments.get_mut().import(id, mooncake, entry.seq);
    Ok(())
}

fn segment_unmount(state: &mut MasterState, entry: &EntryRef<'_>) -> Result<(), Refused> {
    let payload = SegmentUnmountPayload::decode(entry.payload)?;
    let id = segment_id(&payload.endpoint)?;
    let MasterState { segments, shards, .. } = state;
    let segments = segments.get_mut();
    let Some(ix) = segments.find(id.as_str()) else { return Ok(()) };
    segments.remove(ix);
    for shard in shards.all_mut() {
        shard.retain_objects(|object| object.keep_mounted(segments));
    }
    Ok(())
}

/// Mooncake's replicas name a segment by its endpoint, so that is its id here.
fn segment_id(endpoint: &str) -> Result<SegmentId, Refused> {
    SegmentId::new(endpoint).map_err(|e| Refused(format!("the endpoint names no segment: {e}")))
}
