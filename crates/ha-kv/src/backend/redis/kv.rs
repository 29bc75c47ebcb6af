//! Owns the plain calls: get, put, delete and what the server can do. Each write is a transaction without compares.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisKv;
use super::answer::Answer;
use super::call::{Request, values};
use super::error::{Access, Failure};
use super::script::Operation;
use crate::{Capabilities, Delete, Kv, KvError, KvPair, RangeLimit, RangePage, Txn, TxnKv};

impl RedisKv {
    /// The error of an answer that the operation does not give.
    pub(super) fn senseless(&self, access: Access) -> KvError {
        Failure::garbled(access, &self.server(), "an answer that this request has not").error
    }

    /// Runs the scripts' checks on what lies under the namespace.
    pub(super) async fn look(&self) -> Result<Bytes, KvError> {
        let request = Request { access: Access::Read, operation: Operation::Peek, lease: None, arguments: Vec::new() };
        match self.inner.call(request).await? {
            Answer::Ok(answer) => values(answer).next().flatten().ok_or_else(|| self.senseless(Access::Read)),
            _ => Err(self.senseless(Access::Read)),
        }
    }
}

#[async_trait]
impl Kv for RedisKv {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.inner.capabilities().check_key(key)?;
        let largest = self.inner.largest_value();
        let arguments = vec![key, largest.as_bytes()];
        let request = Request { access: Access::Read, operation: Operation::Get, lease: None, arguments };
        match self.inner.call(request).await.map_err(|e| with_key(e, key))? {
            Answer::Ok(answer) => match values(answer).next() {
                None => Ok(None),
                Some(Some(value)) => Ok(Some(value)),
                Some(None) => Err(self.senseless(Access::Read).with_key(key)),
            },
            _ => Err(self.senseless(Access::Read).with_key(key)),
        }
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.inner.capabilities().check_put(key, &value)?;
        let txn = Txn { puts: vec![KvPair::new(Bytes::copy_from_slice(key), value)], ..Txn::default() };
        self.write(&txn).await.map(drop).map_err(|e| with_key(e, key))
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.inner.capabilities().check_key(start)?;
        if start >= end {
            return Ok(RangePage::default());
        }
        self.read_page(start, end, limit).await.map_err(|e| with_key(e, start))
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.inner.capabilities().check_key(key)?;
        let txn = Txn { deletes: vec![Delete::Key(Bytes::copy_from_slice(key))], ..Txn::default() };
        self.write(&txn).await.map(drop).map_err(|e| with_key(e, key))
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.inner.capabilities().check_key(start)?;
        let (from, to) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        let txn = Txn { deletes: vec![Delete::Range { start: from, end: to }], ..Txn::default() };
        Ok(self.write(&txn).await.map_err(|e| with_key(e, start))?.unwrap_or(0))
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

/// The same error with the caller's key, unless it names one of its own: what is wrong may be a key of Redis.
pub(super) fn with_key(error: KvError, key: &[u8]) -> KvError {
    if error.key.is_some() { error } else { error.with_key(key) }
}
