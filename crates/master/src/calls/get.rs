//! Owns reading: where an object lies, and for how long it may be read there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ha_types::{MonoTime, ObjectKey, TenantId};

use crate::inner::Inner;
use crate::state::{Object, RunningPut, Segments};
use crate::visibility::{ReplicaStatus, Visibility, visibility};
use crate::{GetReply, Master, MasterError};

impl Master {
    /// Where the object can be read, under a lease of `lease_ms` (`None`: the default). While a lease runs, the bytes stay
    /// where they are, even if the object is removed meanwhile.
    ///
    /// # Errors
    /// * [`MasterError::Invalid`]: the lease is 0 or longer than allowed.
    /// * [`MasterError::ObjectNotFound`], [`MasterError::ReplicaIsNotReady`] (RFC batch record §13).
    /// * [`MasterError::NotLeader`].
    pub fn get(&self, tenant: &TenantId, key: &ObjectKey, lease_ms: Option<u64>) -> Result<GetReply, MasterError> {
        let inner = &*self.inner;
        inner.check_serving()?;
        let not_found = || MasterError::ObjectNotFound { key: key.clone() };
        let reply = match inner.find(tenant, key) {
            None => inner.lease_ms(lease_ms).and_then(|_| Err(not_found())),
            Some((tenant, place)) => inner.state.shards.with(place, |shard| {
                // The time before the policy: a lease that was allowed at one moment is counted from an earlier one.
                let now = inner.now();
                let lease_ms = inner.lease_ms(lease_ms)?;
                let segments = inner.state.segments.read();
                let put = shard.put(place, tenant, key.as_bytes());
                let seen = see(shard.object(place, tenant, key.as_bytes()), put, &segments, now);
                match (seen, shard.object_mut(place, tenant, key.as_bytes())) {
                    (Visibility::Readable, Some(object)) => Ok(inner.lease(object, &segments, now, lease_ms)),
                    (Visibility::NotReady, _) => Err(MasterError::ReplicaIsNotReady { key: key.clone() }),
                    _ => Err(not_found()),
                }
            }),
        };
        inner.check_serving()?;
        reply
    }

    /// Whether a get would succeed. Grants no lease.
    ///
    /// # Errors
    /// [`MasterError::NotLeader`].
    pub fn exists(&self, tenant: &TenantId, key: &ObjectKey) -> Result<bool, MasterError> {
        let inner = &*self.inner;
        let exists = inner.find(tenant, key).is_some_and(|(tenant, place)| {
            inner.state.shards.with(place, |shard| {
                let segments = inner.state.segments.read();
                see(shard.object(place, tenant, key.as_bytes()), None, &segments, inner.now()) == Visibility::Readable
            })
        });
        inner.check_serving()?;
        Ok(exists)
    }
}

impl Inner {
    fn lease_ms(&self, asked: Option<u64>) -> Result<u64, MasterError> {
        let policy = self.state.policy.read().in_force();
        let lease_ms = asked.unwrap_or(policy.default_lease_ms);
        if lease_ms == 0 || lease_ms > policy.longest_lease_ms {
            let longest = policy.longest_lease_ms;
            return Err(MasterError::Invalid(format!("a lease of {lease_ms} ms was asked for; give 1 to {longest}")));
        }
        Ok(lease_ms)
    }

    fn lease(&self, object: &mut Object, segments: &Segments, now: MonoTime, lease_ms: u64) -> GetReply {
        object.serving.extend_lease(&self.term.serving, now.saturating_add(Duration::from_millis(lease_ms)));
        self.leases_granted.fetch_add(1, Ordering::Relaxed);
        let replicas = object.replicas.written();
        GetReply {
            incarnation: object.incarnation,
            size: object.size,
            replicas: replicas.filter_map(|r| Some(segments.get(r.segment)?.range(r.address, object.size))).collect(),
            lease_ms,
        }
    }
}

/// What a reader sees under a key: the replicas of its object and those of a put that runs, by RFC batch record §13.
fn see(object: Option<&Object>, put: Option<&RunningPut>, segments: &Segments, now: MonoTime) -> Visibility {
    let of_object = object.into_iter().flat_map(|o| o.statuses(segments));
    let of_put = put.filter(|p| p.runs(now)).into_iter().map(|_| ReplicaStatus::Processing);
    visibility(of_object.chain(of_put))
}
