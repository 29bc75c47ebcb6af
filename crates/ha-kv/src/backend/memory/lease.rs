//! Owns leases on memory. They run out by the store's own clock, judged at each call.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryKv;
use super::state::Lease;
use crate::lease::{check_ttl, lease_gone};
use crate::{KvError, LeaseId, LeaseKv, PutIfAbsent};

#[async_trait]
impl LeaseKv for MemoryKv {
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError> {
        check_ttl(ttl)?;
        let mut state = self.state();
        state.last_lease += 1;
        let id = state.last_lease;
        let runs_until = self.clock.now().saturating_add(ttl);
        state.leases.insert(id, Lease { ttl, runs_until, keys: BTreeSet::new() });
        Ok((LeaseId::new(id), ttl))
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        let now = self.clock.now();
        match self.state().leases.get_mut(&lease.get()) {
            None => Err(lease_gone(lease)),
            Some(live) => {
                live.runs_until = now.saturating_add(live.ttl);
                Ok(())
            }
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        self.state().end_lease(lease);
        Ok(())
    }

    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        self.capabilities.check_put(key, &value)?;
        let mut state = self.state();
        if !state.leases.contains_key(&lease.get()) {
            return Err(lease_gone(lease));
        }
        match state.map.get(key) {
            None => {
                state.put(Bytes::copy_from_slice(key), value, Some(lease));
                Ok(PutIfAbsent::Put)
            }
            Some(stored) if stored.lease == Some(lease) && stored.value == value => Ok(PutIfAbsent::Put),
            Some(stored) => Ok(PutIfAbsent::Held(stored.value.clone())),
        }
    }
}
