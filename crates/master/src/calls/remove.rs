//! Owns removal: commit, mark, unlock; finalize when the log has made it durable (RFC batch record §§12, 13).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ha_types::{MonoTime, ObjectIncarnation, ObjectKey, OpType, Seq, TenantId};
use oplog_core::{NewEntry, Outcome, Reservation};
use tokio::sync::oneshot;

use crate::after_commit::AfterCommit;
use crate::inner::Inner;
use crate::payload;
use crate::state::{Object, Place, Replicas};
use crate::{Master, MasterError, Promise, locks};

/// A removal that is committed. It owns the ranges of what it removed, whatever becomes of the key meanwhile.
struct PendingRemoval {
    inner: Arc<Inner>,
    place: Place,
    incarnation: ObjectIncarnation,
    replicas: Replicas,
    size: u64,
    /// Until when a reader may still read: the end of the last lease, and the margin between clocks.
    ranges_until: MonoTime,
    answer: oneshot::Sender<Outcome>,
}

/// What a removal did at once.
pub(super) enum Removal {
    /// It is committed; the outcome follows.
    Committed(oneshot::Receiver<Outcome>),
    /// There is nothing to remove, and that rests on the entry `Seq`: another removal, or an unmount, that may be on its way.
    OnItsWay(Seq),
}

impl Master {
    /// Removes an object. From the commit on nobody can find it; its bytes stay until it is durable and the last lease has
    /// ended.
    ///
    /// A lease does not stand in the way: it protects the bytes, not the name.
    ///
    /// # Errors
    /// * [`MasterError::ObjectNotFound`]: there is no such object. With [`Promise::Durable`] that is durable too: if another removal
    ///   or an unmount is on its way, this call waits for it.
    /// * [`MasterError::ReplicaIsNotReady`]: a put runs; revoke it, or try again when it has ended.
    /// * [`MasterError::NotApplied`], [`MasterError::Unknown`], [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn remove(&self, tenant: &TenantId, key: &ObjectKey, promise: Promise) -> Result<(), MasterError> {
        let inner = &self.inner;
        let _pass = inner.enter_write()?;
        let slot = inner.admission().await?;
        let removal = inner.refusal(inner.begin_removal(tenant, key, slot))?;
        inner.finish_removal(key, removal, promise).await
    }
}

impl Inner {
    /// Everything up to the commit, in one critical section.
    pub(super) fn begin_removal(
        self: &Arc<Self>,
        tenant: &TenantId,
        key: &ObjectKey,
        slot: Reservation,
    ) -> Result<Removal, MasterError> {
        let Some((ix, place)) = self.find(tenant, key) else {
            return Err(MasterError::ObjectNotFound { key: key.clone() });
        };
        self.state.shards.with(place, |shard| {
            // Held to the commit: an unmount cannot come between check and log, so that replay finds what this call found.
            let segments = self.state.segments.read();
            let put_runs = shard.put(place, ix, key.as_bytes()).is_some_and(|p| p.runs(self.now()));
            let object = match shard.object_mut(place, ix, key.as_bytes()) {
                Some(object) if object.stands(&segments) => object,
                _ if put_runs => return Err(MasterError::ReplicaIsNotReady { key: key.clone() }),
                Some(object) if object.removed => return Ok(Removal::OnItsWay(object.seq)),
                // It may have gone with a segment; the record of that is collected before the unmount is durable.
                _ => return Ok(Removal::OnItsWay(segments.last_left())),
            };
            let (answer, answered) = oneshot::channel();
            let lease = object.serving.lease_until(&self.term.serving);
            let pending = PendingRemoval {
                inner: self.clone(),
                place,
                incarnation: object.incarnation,
                replicas: object.replicas.clone(),
                size: object.size,
                ranges_until: lease.saturating_add(self.margin()),
                answer,
            };
            self.check_serving()?;
            let payload = payload::encode_incarnation(object.incarnation);
            let entry = NewEntry {
                op_type: OpType::Remove.number(),
                tenant: tenant.as_str(),
                key: key.as_bytes(),
                payload: &payload,
            };
            let seq = slot
                .commit_with(entry, move |seq, outcome| pending.finalize(seq, outcome))
                .map_err(|e| self.not_committed(e))?;
            let after = AfterCommit::arm(&self.gate);
            object.removed = true;
            object.seq = seq;
            self.pending_removals.fetch_add(1, Ordering::Relaxed);
            after.followed();
            Ok(Removal::Committed(answered))
        })
    }

    pub(super) async fn finish_removal(
        &self,
        key: &ObjectKey,
        removal: Removal,
        promise: Promise,
    ) -> Result<(), MasterError> {
        locks::assert_none_held();
        match (removal, promise) {
            (Removal::Committed(_), Promise::Accepted) => self.check_still_serving(),
            (Removal::Committed(answered), Promise::Durable) => self.judge(answered.await.unwrap_or(Outcome::Unknown)),
            (Removal::OnItsWay(seq), promise) => {
                if promise == Promise::Durable {
                    self.durable(seq).await?;
                }
                self.check_serving()?;
                Err(MasterError::ObjectNotFound { key: key.clone() })
            }
        }
    }
}

impl PendingRemoval {
    /// Runs once, outside all locks, in sequence order.
    fn finalize(self, seq: Seq, outcome: Outcome) {
        let after = AfterCommit::arm(&self.inner.gate);
        let durable = self.inner.judge(outcome).is_ok();
        // A later put may have the key by now: only what this very removal marked goes (M3).
        let mine = |o: &Object| durable && o.removed && o.seq == seq && o.incarnation == self.incarnation;
        self.inner.state.shards.with(self.place, |shard| {
            shard.take_object_if(self.place, mine);
            self.inner.pending_removals.fetch_sub(1, Ordering::Relaxed);
        });
        if durable {
            self.inner.release(self.replicas.as_slice(), self.size, self.ranges_until);
        }
        after.followed();
        // Nobody may be waiting: the caller took `Accepted`, or gave up.
        let _ = self.answer.send(outcome);
    }
}
