//! Owns the plain calls on SQLite.

use async_trait::async_trait;
use bytes::Bytes;

use super::lane::End;
use super::{SqliteKv, rows};
use crate::{Capabilities, Kv, KvError, RangeLimit, RangePage, TxnKv};

#[async_trait]
impl Kv for SqliteKv {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.inner.capabilities.check_key(key)?;
        let wanted = Bytes::copy_from_slice(key);
        self.read(move |connection| Ok(rows::get(connection, &wanted)?)).await.map_err(|e| e.with_key(key))
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.inner.capabilities.check_put(key, &value)?;
        let put = Bytes::copy_from_slice(key);
        self.write(move |connection| Ok(End::Commit(rows::put(connection, &put, &value, None)?)))
            .await
            .map_err(|e| e.with_key(key))
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.inner.capabilities.check_key(start)?;
        if start >= end {
            return Ok(RangePage::default());
        }
        let limit = limit.within(&self.inner.capabilities);
        let (first, after) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.read(move |connection| Ok(rows::range(connection, &first, &after, limit)?))
            .await
            .map_err(|e| e.with_key(start))
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.inner.capabilities.check_key(key)?;
        let gone = Bytes::copy_from_slice(key);
        self.write(move |connection| {
            Ok(match rows::delete(connection, &gone)? {
                0 => End::Nothing(()),
                _ => End::Commit(()),
            })
        })
        .await
        .map_err(|e| e.with_key(key))
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.inner.capabilities.check_key(start)?;
        if start >= end {
            return Ok(0);
        }
        let (first, after) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.write(move |connection| {
            Ok(match rows::delete_range(connection, &first, &after)? {
                0 => End::Nothing(0),
                gone => End::Commit(gone as u64),
            })
        })
        .await
        .map_err(|e| e.with_key(start))
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities.clone()
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}
