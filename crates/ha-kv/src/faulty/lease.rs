//! Owns the lease calls of the faulty client.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::server::Server;
use super::{FaultyKv, Op};
use crate::{KvError, KvErrorKind, LeaseId, LeaseKv, PutIfAbsent};

fn leases(server: &Arc<Server>) -> Result<&dyn LeaseKv, KvError> {
    server.lease.as_deref().ok_or_else(|| {
        KvError::read(KvErrorKind::Unsupported, "the wrapped store was given without leases; wrap it with `from_parts`")
    })
}

#[async_trait]
impl LeaseKv for FaultyKv {
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError> {
        self.run(Op::Grant { ttl }, move |server| Box::pin(async move { leases(&server)?.grant(ttl).await })).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        self.run(Op::KeepAlive { lease }, move |server| {
            Box::pin(async move { leases(&server)?.keep_alive(lease).await })
        })
        .await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        self.run(Op::Revoke { lease }, move |server| Box::pin(async move { leases(&server)?.revoke(lease).await }))
            .await
    }

    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        let key = Bytes::copy_from_slice(key);
        self.run(Op::PutIfAbsent { key: key.clone(), value: value.clone(), lease }, move |server| {
            let (key, value) = (key.clone(), value.clone());
            Box::pin(async move { leases(&server)?.put_if_absent(&key, value, lease).await })
        })
        .await
    }
}
