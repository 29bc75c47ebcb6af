//! Owns put revoke: the client gives up. Nothing is logged, for nothing of the put was.

use ha_types::{ObjectIncarnation, ObjectKey, TenantId};

use crate::{ClientId, Master, MasterError};

impl Master {
    /// Takes a running put back. Its ranges come back when its grant would have ended: what the client has sent may still
    /// arrive.
    ///
    /// # Errors
    /// * [`MasterError::ObjectNotFound`]: no such put runs.
    /// * [`MasterError::ObjectAlreadyExists`]: the put has ended; remove the object instead.
    /// * [`MasterError::WrongOwner`]: the put is another client's.
    /// * [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    pub fn put_revoke(
        &self,
        tenant: &TenantId,
        key: &ObjectKey,
        incarnation: ObjectIncarnation,
        client: ClientId,
    ) -> Result<(), MasterError> {
        let inner = &*self.inner;
        let _pass = inner.enter_write()?;
        let not_found = || MasterError::ObjectNotFound { key: key.clone() };
        let (ix, place) = inner.find(tenant, key).ok_or_else(not_found)?;
        let revoked = inner.state.shards.with(place, |shard| {
            let segments = inner.state.segments.read();
            let running = shard.put(place, ix, key.as_bytes()).filter(|p| p.incarnation == incarnation);
            let Some(running) = running else {
                let ended = shard.object(place, ix, key.as_bytes()).filter(|o| o.incarnation == incarnation);
                return match ended.is_some_and(|o| o.is_readable(&segments)) {
                    true => Err(MasterError::ObjectAlreadyExists { key: key.clone() }),
                    false => Err(not_found()),
                };
            };
            if running.client != client {
                return Err(MasterError::WrongOwner { key: key.clone(), incarnation });
            }
            if let Some(put) = shard.take_put_if(place, |p| p.incarnation == incarnation) {
                inner.end_grant(&segments, &put, inner.now());
            }
            Ok(())
        });
        inner.check_serving()?;
        revoked
    }
}
