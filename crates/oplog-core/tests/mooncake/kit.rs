//! Owns a primary of Mooncake's by hand: what it puts into the store, one transaction a batch, as the original does.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{Compare, Kv, KvPair, MemoryKv, Txn, TxnKv, TxnOutcome};
use ha_types::BatchId;
use oplog_core::mooncake::encode;

use crate::support::keys;

/// Writes batches of one or more entries with the payloads it is given.
#[derive(Clone, Debug)]
pub(crate) struct Original {
    pub(crate) store: Arc<dyn TxnKv>,
    pub(crate) batch_id: u64,
    pub(crate) last_seq: u64,
    pub(crate) prefix: Option<Bytes>,
    pub(crate) view: u64,
    pub(crate) written: Vec<Vec<u8>>,
}

impl Original {
    /// A primary that has written its first prefix and view `view`.
    pub(crate) async fn start(store: &Arc<MemoryKv>, view: u64) -> Self {
        let prefix: Bytes = encode::prefix(0, 0, None).into();
        store.put(&keys().producer_view(), view.to_string().into()).await.unwrap();
        store.put(&keys().durable_prefix(), prefix.clone()).await.unwrap();
        Self { store: store.clone(), batch_id: 0, last_seq: 0, prefix: Some(prefix), view, written: Vec::new() }
    }

    /// Its next transaction.
    pub(crate) fn next(&self, payloads: &[&[u8]]) -> (Txn, Bytes) {
        let entries: Vec<encode::Entry<'_>> = payloads.iter().map(|p| (1, "default", "key", *p)).collect();
        let record = encode::batch(self.batch_id + 1, self.last_seq + 1, &entries);
        let prefix: Bytes = encode::prefix(self.batch_id + 1, self.last_seq + entries.len() as u64, None).into();
        let compares = vec![
            Compare::ValueEquals { key: keys().durable_prefix(), value: self.prefix.clone().unwrap_or_default() },
            Compare::ValueEquals { key: keys().producer_view(), value: self.view.to_string().into() },
        ];
        let puts = vec![
            KvPair::new(keys().batch(BatchId::new(self.batch_id + 1)), record),
            KvPair::new(keys().durable_prefix(), prefix.clone()),
        ];
        (Txn { compares, puts, deletes: Vec::new() }, prefix)
    }

    pub(crate) async fn try_append(&mut self, payloads: &[&[u8]]) -> TxnOutcome {
        let (txn, prefix) = self.next(payloads);
        let outcome = self.store.txn(&txn).await.unwrap();
        if outcome == TxnOutcome::Committed {
            self.batch_id += 1;
            self.last_seq += payloads.len() as u64;
            self.prefix = Some(prefix);
            self.written.extend(payloads.iter().map(|p| p.to_vec()));
        }
        outcome
    }

    pub(crate) async fn append(&mut self, payloads: &[&[u8]]) {
        assert_eq!(self.try_append(payloads).await, TxnOutcome::Committed);
    }
}

/// A store with a log of Mooncake's of `n` batches, each of two entries.
pub(crate) async fn log_of(n: u8) -> (Arc<MemoryKv>, Original) {
    let store = Arc::new(MemoryKv::new());
    let mut original = Original::start(&store, 7).await;
    for i in 0..n {
        original.append(&[&[i, 1], &[i, 2]]).await;
    }
    (store, original)
}
