//! Owns put start: space for an object, and the right of one client to write it for a while. Nothing is logged.

use std::sync::atomic::Ordering;

use ha_types::{MonoTime, TenantId};

use crate::inner::Inner;
use crate::state::{Opening, Place, Replica, Replicas, RunningPut, Segments, TenantIx};
use crate::{Master, MasterError, PutGrant, PutStart, ReplicaRange};

/// Space that was taken, with what the client must know about it.
struct Allocated {
    replicas: Vec<Replica>,
    ranges: Vec<ReplicaRange>,
}

impl Master {
    /// Allocates space for an object and lets one client write it for a while. Nothing is logged, nothing is promised: a new
    /// primary does not know the put, and leaves its ranges alone until the client has stopped (M7).
    ///
    /// # Errors
    /// * [`MasterError::Invalid`]: size 0 or above the limit, no or too many replicas, too many tenants.
    /// * [`MasterError::ObjectAlreadyExists`]: the key has an object, or a put that runs.
    /// * [`MasterError::RetryAfter`]: space that would do is quarantined, or the node is handing over.
    /// * [`MasterError::NoAvailableSpace`]: too few segments have room.
    /// * [`MasterError::NotLeader`].
    pub fn put_start(&self, request: &PutStart) -> Result<PutGrant, MasterError> {
        let inner = &*self.inner;
        let _pass = inner.enter_write()?;
        inner.take_back_expired(inner.now(), 16);
        inner.check_put(request)?;
        let granted = inner.tenant_for_put(request).and_then(|tenant| {
            let place = inner.state.shards.place(tenant, request.key.as_bytes());
            inner.start_put(request, tenant, place)
        });
        inner.check_serving()?;
        granted
    }
}

impl Inner {
    fn check_put(&self, request: &PutStart) -> Result<(), MasterError> {
        if request.size == 0 || request.size > self.config.max_object_bytes {
            return Err(MasterError::Invalid(format!(
                "the object has {} bytes; give 1 to {}",
                request.size, self.config.max_object_bytes
            )));
        }
        if request.replicas == 0 || request.replicas > self.config.max_replicas {
            return Err(MasterError::Invalid(format!(
                "{} replicas were asked for; give 1 to {}",
                request.replicas, self.config.max_replicas
            )));
        }
        let (running, most) = (self.running_puts.load(Ordering::Relaxed), self.config.max_running_puts);
        if running >= most {
            let reason = format!("{running} puts run, the most that may");
            return Err(MasterError::RetryAfter { ms: 100, reason });
        }
        Ok(())
    }

    /// The tenant's number. A tenant never seen gets one only when there is space for its first put, so that a refused put
    /// leaves nothing behind (M5).
    fn tenant_for_put(&self, request: &PutStart) -> Result<TenantIx, MasterError> {
        if let Some(tenant) = self.state.tenants.read().get(request.tenant.as_str()) {
            return Ok(tenant);
        }
        let trial = self.allocate(&self.state.segments.read(), request, self.now())?;
        self.release(&trial.replicas, request.size, MonoTime::ZERO);
        self.new_tenant(&request.tenant)
    }

    fn new_tenant(&self, name: &TenantId) -> Result<TenantIx, MasterError> {
        let most = self.config.max_tenants;
        let refused = || MasterError::Invalid(format!("tenant {name} would be one too many; {most} are allowed"));
        let mut tenants = self.state.tenants.write();
        if tenants.get(name.as_str()).is_none() && tenants.len() >= most {
            return Err(refused());
        }
        tenants.intern(name).ok_or_else(refused)
    }

    fn start_put(&self, request: &PutStart, tenant: TenantIx, place: Place) -> Result<PutGrant, MasterError> {
        let key = request.key.as_bytes();
        self.state.shards.with(place, |shard| {
            let now = self.now();
            let segments = self.state.segments.read();
            let object_there = shard.object(place, tenant, key).is_some_and(|o| o.stands(&segments));
            let put_there = shard.put(place, tenant, key);
            if object_there || put_there.is_some_and(|p| p.runs(now)) {
                return Err(MasterError::ObjectAlreadyExists { key: request.key.clone() });
            }
            let Allocated { replicas, ranges } = self.allocate(&segments, request, now)?;
            if let Some(expired) = shard.take_put_if(place, |p| p.is(tenant, key)) {
                self.end_grant(&segments, &expired, now);
            }
            let policy = self.state.policy.read().in_force();
            let granted_until = now.saturating_add(policy.put_grant());
            let put = RunningPut {
                place,
                key: key.into(),
                tenant,
                incarnation: self.next_incarnation(),
                client: request.client,
                size: request.size,
                replicas: Replicas::from(replicas),
                granted_until,
                ranges_until: granted_until.saturating_add(self.margin()),
            };
            self.begin_grant(&segments, &put);
            let incarnation = put.incarnation;
            shard.add_put(Box::new(put));
            Ok(PutGrant { incarnation, replicas: ranges, grant_ms: policy.put_grant_ms })
        })
    }

    fn begin_grant(&self, segments: &Segments, put: &RunningPut) {
        self.running_puts.fetch_add(1, Ordering::Relaxed);
        for replica in put.replicas.as_slice() {
            if let Some(segment) = segments.get(replica.segment) {
                let mut space = segment.space.lock();
                space.running_puts += 1;
                space.granted_until = space.granted_until.max(put.granted_until);
            }
        }
        self.grants.add(put);
    }

    /// Ends a grant whose put will not end: its ranges come back when nobody can be writing into them any more.
    pub(crate) fn end_grant(&self, segments: &Segments, put: &RunningPut, now: MonoTime) {
        self.forget_grant(segments, put);
        for replica in put.replicas.as_slice() {
            if let Some(segment) = segments.get(replica.segment) {
                let range = replica.address..replica.address + put.size;
                segment.space.lock().space.give_back_at(range, put.ranges_until, now);
            }
        }
    }

    /// A grant is over; its ranges are somebody else's business.
    pub(crate) fn forget_grant(&self, segments: &Segments, put: &RunningPut) {
        self.grants.forget(put);
        self.running_puts.fetch_sub(1, Ordering::Relaxed);
        for replica in put.replicas.as_slice() {
            if let Some(segment) = segments.get(replica.segment) {
                segment.space.lock().running_puts -= 1;
            }
        }
    }

    /// Takes back up to `most` puts whose grant ran out.
    pub(crate) fn take_back_expired(&self, now: MonoTime, most: usize) {
        for _ in 0..most {
            let Some(grant) = self.grants.next_due(now) else { return };
            self.state.shards.with(grant.place, |shard| {
                if let Some(put) = shard.take_put_if(grant.place, |p| p.incarnation == grant.incarnation) {
                    self.end_grant(&self.state.segments.read(), &put, now);
                }
            });
        }
    }

    /// Takes one range in each of as many segments as there are to be replicas; all, or none.
    fn allocate(&self, segments: &Segments, request: &PutStart, now: MonoTime) -> Result<Allocated, MasterError> {
        let wanted = request.replicas;
        let mut taken = Allocated { replicas: Vec::with_capacity(wanted), ranges: Vec::with_capacity(wanted) };
        let mut soonest: Option<MonoTime> = None;
        let start = self.next_segment.fetch_add(1, Ordering::Relaxed);
        for (ix, segment) in segments.mounted_from(start) {
            let mut space = segment.space.lock();
            let opens = match space.opening {
                Opening::At(at) => at,
                Opening::AfterQuarantine => self.term.quarantine_until,
                Opening::AwaitsMount => continue,
            };
            if opens > now {
                space.space.release_due(now);
                if space.space.could_allocate(request.size) {
                    soonest = Some(soonest.map_or(opens, |s| s.min(opens)));
                }
                continue;
            }
            let Some(address) = space.space.allocate(request.size, now) else { continue };
            drop(space);
            taken.replicas.push(Replica { segment: ix, address });
            taken.ranges.push(segment.range(address, request.size));
            if taken.replicas.len() == wanted {
                return Ok(taken);
            }
        }
        for replica in &taken.replicas {
            if let Some(segment) = segments.get(replica.segment) {
                segment.space.lock().space.give_back(replica.address..replica.address + request.size);
            }
        }
        Err(self.no_space(segments, request, taken.replicas.len(), soonest))
    }

    fn no_space(
        &self,
        segments: &Segments,
        request: &PutStart,
        found: usize,
        soonest: Option<MonoTime>,
    ) -> MasterError {
        if let Some(at) = soonest {
            let reason = "space is quarantined until no client of an earlier primary or mount can be using it".into();
            return MasterError::RetryAfter { ms: self.ms_until(at).max(1), reason };
        }
        let reason = match segments.len() {
            0 => "no segment is mounted; mount one".into(),
            mounted => format!("{found} of {mounted} mounted segments have room; remove objects or mount segments"),
        };
        MasterError::NoAvailableSpace { size: request.size, replicas: request.replicas, reason }
    }
}
