//! Owns the plain calls on memory.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryKv;
use crate::{Capabilities, Kv, KvError, KvPair, RangeLimit, RangePage, TxnKv};

#[async_trait]
impl Kv for MemoryKv {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.capabilities.check_key(key)?;
        Ok(self.state().map.get(key).map(|stored| stored.value.clone()))
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.capabilities.check_put(key, &value)?;
        self.state().put(Bytes::copy_from_slice(key), value, None);
        Ok(())
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.capabilities.check_key(start)?;
        let mut page = RangePage::default();
        if start >= end {
            return Ok(page);
        }
        let limit = limit.within(&self.capabilities);
        let mut bytes = 0;
        let state = self.state();
        for (key, stored) in state.map.range::<[u8], _>((Bound::Included(start), Bound::Excluded(end))) {
            if limit.reached(page.pairs.len(), bytes) {
                page.more = true;
                break;
            }
            bytes += key.len() + stored.value.len();
            page.pairs.push(KvPair { key: key.clone(), value: stored.value.clone() });
        }
        Ok(page)
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.capabilities.check_key(key)?;
        self.state().delete(key);
        Ok(())
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.capabilities.check_key(start)?;
        Ok(self.state().delete_range(start, end))
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}
