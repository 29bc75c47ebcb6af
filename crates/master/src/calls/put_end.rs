//! Owns put end: from here on the object is readable, and its state is on its way into the log.

use ha_types::{ObjectIncarnation, ObjectKey, OpType, Seq, TenantId};
use oplog_core::{NewEntry, Reservation, Ticket};

use crate::after_commit::AfterCommit;
use crate::inner::Inner;
use crate::payload::{PutEnd, ReplicaRecord};
use crate::state::{Object, Place, RunningPut, Segments, ServingPart, Shard, TenantIx};
use crate::{ClientId, Master, MasterError, Promise};

/// Which put a call is about.
#[derive(Clone, Copy)]
pub(super) struct PutName<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) key: &'a ObjectKey,
    pub(super) incarnation: ObjectIncarnation,
    pub(super) client: ClientId,
}

enum Ended {
    /// This call ended it.
    Now(Ticket),
    /// An earlier call did.
    Before(Seq),
}

impl Master {
    /// Makes the written object readable. Repeating a call that succeeded succeeds.
    ///
    /// # Errors
    /// * [`MasterError::GrantExpired`]: too late; start the put again.
    /// * [`MasterError::WrongOwner`]: the put is another client's.
    /// * [`MasterError::ObjectNotFound`]: no such put runs and no such object exists: it was revoked, taken back after its grant,
    ///   removed, or lost with an earlier primary.
    /// * [`MasterError::NotApplied`], [`MasterError::Unknown`], [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn put_end(
        &self,
        tenant: &TenantId,
        key: &ObjectKey,
        incarnation: ObjectIncarnation,
        client: ClientId,
        promise: Promise,
    ) -> Result<(), MasterError> {
        let inner = &*self.inner;
        let _pass = inner.enter_write()?;
        let name = PutName { tenant, key, incarnation, client };
        let slot = inner.admission().await?;
        match (inner.refusal(inner.end_put(name, slot))?, promise) {
            (Ended::Now(ticket), Promise::Durable) => inner.outcome(ticket).await,
            (Ended::Now(_), Promise::Accepted) => inner.check_still_serving(),
            (Ended::Before(seq), Promise::Durable) => {
                inner.durable(seq).await?;
                inner.check_serving()
            }
            (Ended::Before(_), Promise::Accepted) => inner.check_serving(),
        }
    }
}

impl Inner {
    fn end_put(&self, name: PutName<'_>, slot: Reservation) -> Result<Ended, MasterError> {
        let not_found = || MasterError::ObjectNotFound { key: name.key.clone() };
        let (tenant, place) = self.find(name.tenant, name.key).ok_or_else(not_found)?;
        self.state.shards.with(place, |shard| {
            let segments = self.state.segments.read();
            let key = name.key.as_bytes();
            let put = match shard.put(place, tenant, key) {
                Some(put) if put.incarnation == name.incarnation => put,
                _ => return ended_before(shard, place, tenant, &segments, name).map(Ended::Before),
            };
            if put.client != name.client {
                return Err(MasterError::WrongOwner { key: name.key.clone(), incarnation: name.incarnation });
            }
            if !put.runs(self.now()) {
                return Err(MasterError::GrantExpired { key: name.key.clone(), incarnation: name.incarnation });
            }
            self.check_serving()?;
            let payload = payload_of(put, &segments);
            let entry =
                NewEntry { op_type: OpType::PutEnd.number(), tenant: name.tenant.as_str(), key, payload: &payload };
            let ticket = slot.commit(entry).map_err(|e| self.not_committed(e))?;
            let after = AfterCommit::arm(&self.gate);
            self.put_becomes_object(shard, place, name.incarnation, &segments, ticket.seq());
            after.followed();
            Ok(Ended::Now(ticket))
        })
    }

    fn put_becomes_object(
        &self,
        shard: &mut Shard,
        place: Place,
        incarnation: ObjectIncarnation,
        segments: &Segments,
        seq: Seq,
    ) {
        let put =
            shard.take_put_if(place, |p| p.incarnation == incarnation).expect("the put was found under the same lock");
        self.forget_grant(segments, &put);
        let RunningPut { key, tenant, incarnation, client, size, replicas, .. } = *put;
        let serving = ServingPart::fresh(&self.term.serving);
        let object = Object { key, tenant, incarnation, client, size, replicas, seq, removed: false, serving };
        shard.put_object(place, object);
    }
}

fn payload_of(put: &RunningPut, segments: &Segments) -> Vec<u8> {
    let replicas = put.replicas.as_slice().iter().map(|replica| {
        let segment = segments.get(replica.segment).expect("a segment with a running put is not unmounted");
        ReplicaRecord { segment: segment.id.as_str(), address: replica.address }
    });
    PutEnd::encode(put.incarnation, put.client, put.size, replicas)
}

fn ended_before(
    shard: &Shard,
    place: Place,
    tenant: TenantIx,
    segments: &Segments,
    name: PutName<'_>,
) -> Result<Seq, MasterError> {
    let object = shard
        .object(place, tenant, name.key.as_bytes())
        .filter(|o| o.incarnation == name.incarnation && o.is_readable(segments));
    match object {
        Some(object) if object.client == name.client => Ok(object.seq),
        Some(_) => Err(MasterError::WrongOwner { key: name.key.clone(), incarnation: name.incarnation }),
        None => Err(MasterError::ObjectNotFound { key: name.key.clone() }),
    }
}
