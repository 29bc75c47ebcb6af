//! Owns leases: a key that expires at the server, named by a random number that every script compares exactly.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisKv;
use super::answer::Answer;
use super::call::Request;
use super::error::Access;
use super::kv::with_key;
use super::script::{Operation, lease_name};
use crate::lease::{check_ttl, lease_gone};
use crate::{Effect, KvError, KvErrorKind, LeaseId, LeaseKv, PutIfAbsent};

/// Longer than this nobody means; Redis adds it to its clock and must not overflow.
const MAX_TTL: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[async_trait]
impl LeaseKv for RedisKv {
    /// Redis counts in milliseconds of its own wall clock; what is between two is rounded up.
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError> {
        check_ttl(ttl)?;
        if ttl > MAX_TTL {
            let text = format!("a lease cannot have a TTL of {ttl:?}; ask for a shorter one");
            return Err(KvError::read(KvErrorKind::InvalidArgument, text));
        }
        let millis = ttl.as_nanos().div_ceil(1_000_000);
        let lease = LeaseId::new(self.inner.entropy.next_u64());
        let text = millis.to_string();
        match self.lease_call(Operation::Grant, lease, vec![text.as_bytes()]).await? {
            Answer::Ok(_) => Ok((lease, Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))),
            Answer::Held(_) => {
                let text = "the name drawn for the lease is in use; ask again";
                Err(KvError::new(KvErrorKind::Busy, Effect::NotApplied, text))
            }
            _ => Err(self.senseless(Access::Write)),
        }
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        match self.lease_call(Operation::KeepAlive, lease, Vec::new()).await? {
            Answer::Ok(_) => Ok(()),
            Answer::NoLease => Err(lease_gone(lease)),
            _ => Err(self.senseless(Access::Write)),
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        let name = lease_name(lease.get());
        match self.lease_call(Operation::Revoke, lease, vec![name.as_bytes()]).await? {
            Answer::Ok(_) => Ok(()),
            _ => Err(self.senseless(Access::Write)),
        }
    }

    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        self.inner.capabilities().check_put(key, &value)?;
        let (name, largest) = (lease_name(lease.get()), self.inner.largest_value());
        let arguments = vec![key, &value, name.as_bytes(), self.inner.keys.leases.as_bytes(), largest.as_bytes()];
        match self.lease_call(Operation::PutIfAbsent, lease, arguments).await.map_err(|e| with_key(e, key))? {
            Answer::Ok(_) => Ok(PutIfAbsent::Put),
            Answer::Held(value) => Ok(PutIfAbsent::Held(value)),
            Answer::NoLease => Err(lease_gone(lease).with_key(key)),
            Answer::CompareFailed => Err(self.senseless(Access::Write).with_key(key)),
        }
    }
}

impl RedisKv {
    async fn lease_call(&self, operation: Operation, lease: LeaseId, arguments: Vec<&[u8]>) -> Result<Answer, KvError> {
        let lease = Some(self.inner.keys.lease(lease.get()));
        self.inner.call(Request { access: Access::Write, operation, lease, arguments }).await
    }
}
