//! Owns leases: one fresh keep-alive stream a call, so that a stream which silently ended cannot be mistaken for a live lease.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::EtcdKv;
use super::error::Access;
use super::pool::Reply;
use crate::{Effect, KvError, KvErrorKind, LeaseId, LeaseKv, PutIfAbsent};

#[async_trait]
impl LeaseKv for EtcdKv {
    /// etcd counts in whole seconds and raises what is below its least TTL (2 s at its default election timeout).
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError> {
        let seconds = whole_seconds(ttl)?;
        let granted = self.pool.call(Access::Write, |member| {
            let mut lease = member.lease();
            async move {
                lease
                    .grant(seconds, None)
                    .await
                    .map(|r| Reply::new(r.header(), (r.id(), r.ttl(), r.error().to_owned())))
            }
        });
        let (id, ttl, error) = granted.await?;
        match u64::try_from(ttl) {
            Ok(ttl) if ttl > 0 && id != 0 && error.is_empty() => {
                Ok((LeaseId::new(id.cast_unsigned()), Duration::from_secs(ttl)))
            }
            _ => {
                let text = format!("etcd granted no lease: id {id}, TTL {ttl} s, {error:?}");
                Err(KvError::new(KvErrorKind::Unavailable, Effect::Unknown, text))
            }
        }
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        let id = wire_id(lease)?;
        let kept = self.pool.call(Access::Write, |member| {
            let mut lease = member.lease();
            // The library takes the first answer of the new stream and fails if its TTL is not above zero.
            async move { lease.keep_alive(id).await.map(|_stream| Reply::new(None, ())) }
        });
        kept.await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        let Ok(id) = wire_id(lease) else { return Ok(()) };
        let revoked = self.pool.call(Access::Write, |member| {
            let mut lease = member.lease();
            async move { lease.revoke(id).await.map(|r| Reply::new(r.header(), ())) }
        });
        match revoked.await {
            Err(e) if e.kind == KvErrorKind::LeaseNotFound => Ok(()),
            other => other,
        }
    }

    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        self.capabilities.check_put(key, &value)?;
        let id = wire_id(lease).map_err(|e| e.with_key(key))?;
        let request = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, value.clone(), Some(PutOptions::new().with_lease(id)))])
            .or_else([TxnOp::get(key, None)]);
        let outcome = self.pool.call(Access::Write, |member| {
            let mut kv = member.kv(self.pool.options());
            async move { kv.txn(request).await.map(|r| Reply::new(r.header().cloned().as_ref(), r)) }
        });
        let reply = outcome.await.map_err(|e| e.with_key(key))?;
        if reply.succeeded() {
            return Ok(PutIfAbsent::Put);
        }
        let Some((held, holder)) = holder_of(&reply) else {
            let text = "etcd said that the key exists, but did not say what it holds";
            return Err(KvError::new(KvErrorKind::Corrupt, Effect::NotApplied, text).with_key(key));
        };
        if holder == id && held == value {
            return Ok(PutIfAbsent::Put);
        }
        // The server looks at the lease only when it puts.
        self.check_lives(id).await.map_err(|e| e.with_key(key))?;
        Ok(PutIfAbsent::Held(held))
    }
}

impl EtcdKv {
    /// Fails with `LeaseNotFound` if the lease is gone.
    async fn check_lives(&self, id: i64) -> Result<(), KvError> {
        let left = self.pool.call(Access::Read, |member| {
            let mut lease = member.lease();
            async move { lease.time_to_live(id, None).await.map(|r| Reply::new(r.header(), r.ttl())) }
        });
        // Whole seconds, rounded down: 0 is a lease in its last second, below it there is none.
        if left.await? >= 0 {
            return Ok(());
        }
        Err(KvError::read(KvErrorKind::LeaseNotFound, "the lease ran out or was revoked; ask for another one"))
    }
}

/// The value and the lease of the key that was found.
fn holder_of(reply: &TxnResponse) -> Option<(Bytes, i64)> {
    match reply.op_responses().into_iter().next()? {
        TxnOpResponse::Get(mut found) => {
            let pair = found.take_kvs().into_iter().next()?;
            let lease = pair.lease();
            Some((Bytes::from(pair.into_key_value().1), lease))
        }
        _ => None,
    }
}

/// The TTL in seconds, rounded up: a lease must not end before the caller counts on it.
fn whole_seconds(ttl: Duration) -> Result<i64, KvError> {
    let seconds = ttl.as_secs().checked_add(u64::from(ttl.subsec_nanos() > 0)).and_then(|s| i64::try_from(s).ok());
    seconds.filter(|s| *s > 0).ok_or_else(|| {
        KvError::read(KvErrorKind::InvalidArgument, format!("a lease cannot have a TTL of {ttl:?}; give at least 1 ms"))
    })
}

/// The id as etcd writes it. Zero means "no lease" to etcd, and a key put under it would never die.
fn wire_id(lease: LeaseId) -> Result<i64, KvError> {
    match lease.get() {
        0 => Err(KvError::read(KvErrorKind::LeaseNotFound, "there is no lease 0")),
        id => Ok(id.cast_signed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_are_rounded_up_and_never_zero() {
        assert_eq!(whole_seconds(Duration::from_millis(1)).unwrap(), 1);
        assert_eq!(whole_seconds(Duration::from_millis(5_000)).unwrap(), 5);
        assert_eq!(whole_seconds(Duration::from_millis(5_001)).unwrap(), 6);
        assert_eq!(whole_seconds(Duration::ZERO).unwrap_err().kind, KvErrorKind::InvalidArgument);
        assert_eq!(whole_seconds(Duration::MAX).unwrap_err().kind, KvErrorKind::InvalidArgument);
    }

    #[test]
    fn no_key_is_ever_put_under_no_lease() {
        assert_eq!(wire_id(LeaseId::new(0)).unwrap_err().kind, KvErrorKind::LeaseNotFound);
        assert_eq!(wire_id(LeaseId::new(u64::MAX)).unwrap(), -1);
    }
}
