//! Owns the plain and the transactional calls of the faulty client.

use async_trait::async_trait;
use bytes::Bytes;

use super::{FaultyKv, Op};
use crate::{Capabilities, Kv, KvError, RangeLimit, RangePage, Txn, TxnKv, TxnOutcome};

#[async_trait]
impl Kv for FaultyKv {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        let key = Bytes::copy_from_slice(key);
        self.run(Op::Get { key: key.clone() }, move |server| {
            let key = key.clone();
            Box::pin(async move { server.store.get(&key).await })
        })
        .await
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        let key = Bytes::copy_from_slice(key);
        self.run(Op::Put { key: key.clone(), value: value.clone() }, move |server| {
            let (key, value) = (key.clone(), value.clone());
            Box::pin(async move { server.store.put(&key, value).await })
        })
        .await
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.run(Op::Range { start: start.clone(), end: end.clone(), limit }, move |server| {
            let (start, end) = (start.clone(), end.clone());
            Box::pin(async move { server.store.range(&start, &end, limit).await })
        })
        .await
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        let key = Bytes::copy_from_slice(key);
        self.run(Op::Delete { key: key.clone() }, move |server| {
            let key = key.clone();
            Box::pin(async move { server.store.delete(&key).await })
        })
        .await
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.run(Op::DeleteRange { start: start.clone(), end: end.clone() }, move |server| {
            let (start, end) = (start.clone(), end.clone());
            Box::pin(async move { server.store.delete_range(&start, &end).await })
        })
        .await
    }

    fn capabilities(&self) -> Capabilities {
        self.state.lock().declared.clone().unwrap_or_else(|| self.server.store.capabilities())
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

#[async_trait]
impl TxnKv for FaultyKv {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        // What the client declares is refused by the client, as by every backend: it never reaches the wire.
        txn.check(&self.capabilities())?;
        let txn = txn.clone();
        self.run(Op::Txn(txn.clone()), move |server| {
            let txn = txn.clone();
            Box::pin(async move { server.store.txn(&txn).await })
        })
        .await
    }
}
