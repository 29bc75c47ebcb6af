//! Owns a view of the store in which each read is counted and has an end. It writes nothing by itself.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use ha_kv::{Capabilities, Kv, KvError, KvErrorKind, RangeLimit, RangePage, Txn, TxnKv, TxnOutcome};
use parking_lot::Mutex;

use crate::StandbyMetrics;

/// The store as a reader of the legacy log sees it.
#[derive(Debug)]
pub(super) struct BoundedKv {
    inner: Arc<dyn TxnKv>,
    limit: Duration,
    counters: Arc<Mutex<StandbyMetrics>>,
}

impl BoundedKv {
    pub(super) fn new(inner: Arc<dyn TxnKv>, limit: Duration, counters: Arc<Mutex<StandbyMetrics>>) -> Self {
        Self { inner, limit, counters }
    }

    /// Dropping a read has no effect.
    async fn bounded<T>(&self, key: &[u8], read: impl Future<Output = Result<T, KvError>>) -> Result<T, KvError> {
        self.counters.lock().reads += 1;
        let limit = self.limit;
        tokio::time::timeout(limit, read).await.unwrap_or_else(|_| {
            let message = format!("the store gave no answer within {limit:?}");
            Err(KvError::read(KvErrorKind::Timeout, message).with_key(key))
        })
    }
}

#[async_trait]
impl Kv for BoundedKv {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.bounded(key, self.inner.get(key)).await
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.inner.put(key, value).await
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.bounded(start, self.inner.range(start, end, limit)).await
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.inner.delete(key).await
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.inner.delete_range(start, end).await
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

#[async_trait]
impl TxnKv for BoundedKv {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        self.inner.txn(txn).await
    }
}
