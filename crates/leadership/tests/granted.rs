//! Owns the test of a store that grants a longer lease than was asked for, as etcd does.

mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ha_kv::faulty::RuntimeClock;
use ha_kv::{Capabilities, Kv, KvError, LeaseId, LeaseKv, MemoryKv, PutIfAbsent, RangeLimit, RangePage, TxnKv};
use ha_types::{Clock, SeededEntropy};
use leadership::{ElectionConfig, Elector};
use support::*;

/// Grants at least two seconds.
#[derive(Debug)]
struct Raising(MemoryKv);

#[async_trait]
impl Kv for Raising {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.0.get(key).await
    }
    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.0.put(key, value).await
    }
    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.0.range(start, end, limit).await
    }
    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.0.delete(key).await
    }
    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.0.delete_range(start, end).await
    }
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
    fn as_txn(&self) -> Option<&dyn TxnKv> {
        self.0.as_txn()
    }
}

#[async_trait]
impl LeaseKv for Raising {
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError> {
        self.0.grant(ttl.max(Duration::from_secs(2))).await
    }
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError> {
        self.0.keep_alive(lease).await
    }
    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError> {
        self.0.revoke(lease).await
    }
    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError> {
        self.0.put_if_absent(key, value, lease).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_granted_ttl_counts_not_the_one_asked_for() {
    let clock = Arc::new(RuntimeClock::new());
    let store = Arc::new(Raising(MemoryKv::with_clock(clock.clone())));
    let margin = Duration::from_millis(100);
    let config =
        ElectionConfig { ttl: Duration::from_millis(600), margin, poll: Duration::from_millis(100), ..config() };
    let entropy = Arc::new(SeededEntropy::new(1));
    let elector = Elector::new(store, KEY.into(), "a".into(), config, clock.clone(), entropy).unwrap();
    let began = clock.now();
    let term = elector.campaign().await.unwrap();
    assert_eq!(term.ttl(), Duration::from_secs(2));
    assert_eq!(until(&*term.guard()), began.saturating_add(Duration::from_secs(2) - margin));
}
