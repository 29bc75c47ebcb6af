//! Owns the plain calls: get, put, delete and what the server can do. Ranges and transactions are beside it.

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::DeleteOptions;

use super::EtcdKv;
use super::error::Access;
use super::pool::Reply;
use crate::{Capabilities, Kv, KvError, RangeLimit, RangePage, TxnKv};

/// Whether a key can lie in `start <= key < end`. A range where none can must never reach the server, to which some of them mean
/// *this key alone* or *everything after*.
pub(super) fn holds_keys(start: &[u8], end: &[u8]) -> bool {
    start < end
}

impl EtcdKv {
    async fn remove(&self, key: Vec<u8>, options: Option<DeleteOptions>) -> Result<u64, KvError> {
        let deleted = self.pool.call(Access::Write, |member| {
            let mut kv = member.kv(self.pool.options());
            async move { kv.delete(key, options).await.map(|r| Reply::new(r.header(), r.deleted())) }
        });
        Ok(u64::try_from(deleted.await?).unwrap_or(0))
    }
}

#[async_trait]
impl Kv for EtcdKv {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.capabilities.check_key(key)?;
        let asked = key.to_vec();
        let found = self.pool.call(Access::Read, |member| {
            let mut kv = member.kv(self.pool.options());
            async move {
                let mut reply = kv.get(asked, None).await?;
                let value = reply.take_kvs().into_iter().next().map(|pair| Bytes::from(pair.into_key_value().1));
                Ok(Reply::new(reply.header(), value))
            }
        });
        found.await.map_err(|e| e.with_key(key))
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.capabilities.check_put(key, &value)?;
        let name = key.to_vec();
        let put = self.pool.call(Access::Write, |member| {
            let mut kv = member.kv(self.pool.options());
            async move { kv.put(name, value, None).await.map(|r| Reply::new(r.header(), ())) }
        });
        put.await.map_err(|e| e.with_key(key))
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.capabilities.check_key(start)?;
        if !holds_keys(start, end) {
            return Ok(RangePage::default());
        }
        self.read_page(start, end, limit).await
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.capabilities.check_key(key)?;
        self.remove(key.to_vec(), None).await.map(drop).map_err(|e| e.with_key(key))
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.capabilities.check_key(start)?;
        if !holds_keys(start, end) {
            return Ok(0);
        }
        let range = DeleteOptions::new().with_range(end);
        self.remove(start.to_vec(), Some(range)).await.map_err(|e| e.with_key(start))
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_empty_or_inverted_range_reaches_the_server() {
        assert!(holds_keys(b"a", b"b") && holds_keys(b"a", b"a\0"));
        // To etcd an end of one zero byte means "all keys from the start on": a delete would take everything.
        for (start, end) in [(&b"b"[..], &b"\0"[..]), (b"b", b""), (b"b", b"b"), (b"b", b"a"), (b"\0", b"\0")] {
            assert!(!holds_keys(start, end), "{start:?} {end:?}");
        }
    }
}
