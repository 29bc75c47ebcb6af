//! Owns a primary of Mooncake's by hand: what it puts into the store, one transaction a batch, as the original does.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{Compare, KvError, KvPair, Txn, TxnKv, TxnOutcome};
use ha_types::BatchId;

use crate::LogKeys;
use crate::mooncake::encode;

/// Writes batches of one or more entries with the payloads it is given.
#[derive(Clone, Debug)]
pub struct MooncakePrimary {
    /// Where to.
    pub store: Arc<dyn TxnKv>,
    keys: LogKeys,
    /// The last batch.
    pub batch_id: u64,
    /// The last entry.
    pub last_seq: u64,
    /// The prefix as it put it last; `None` for none.
    pub prefix: Option<Bytes>,
    /// Its producer view.
    pub view: u64,
    /// The payloads of all entries that were taken.
    pub written: Vec<Vec<u8>>,
}

impl MooncakePrimary {
    /// A primary that has written its first prefix and view `view`.
    ///
    /// # Errors
    /// As the store says.
    pub async fn start(store: Arc<dyn TxnKv>, keys: LogKeys, view: u64) -> Result<Self, KvError> {
        let prefix: Bytes = encode::prefix(0, 0, None).into();
        store.put(&keys.producer_view(), view.to_string().into()).await?;
        store.put(&keys.durable_prefix(), prefix.clone()).await?;
        Ok(Self { store, keys, batch_id: 0, last_seq: 0, prefix: Some(prefix), view, written: Vec::new() })
    }

    /// Its next transaction, and the prefix in it.
    #[must_use]
    pub fn next(&self, payloads: &[&[u8]]) -> (Txn, Bytes) {
        let entries: Vec<encode::Entry<'_>> = payloads.iter().map(|p| (1, "default", "key", *p)).collect();
        let record = encode::batch(self.batch_id + 1, self.last_seq + 1, &entries);
        let prefix: Bytes = encode::prefix(self.batch_id + 1, self.last_seq + entries.len() as u64, None).into();
        let compares = vec![
            Compare::ValueEquals { key: self.keys.durable_prefix(), value: self.prefix.clone().unwrap_or_default() },
            Compare::ValueEquals { key: self.keys.producer_view(), value: self.view.to_string().into() },
        ];
        let puts = vec![
            KvPair::new(self.keys.batch(BatchId::new(self.batch_id + 1)), record),
            KvPair::new(self.keys.durable_prefix(), prefix.clone()),
        ];
        (Txn { compares, puts, deletes: Vec::new() }, prefix)
    }

    /// Sends it, and goes on from it if it was taken.
    ///
    /// # Errors
    /// As the store says.
    pub async fn append(&mut self, payloads: &[&[u8]]) -> Result<TxnOutcome, KvError> {
        let (txn, prefix) = self.next(payloads);
        let outcome = self.store.txn(&txn).await?;
        if outcome == TxnOutcome::Committed {
            self.batch_id += 1;
            self.last_seq += payloads.len() as u64;
            self.prefix = Some(prefix);
            self.written.extend(payloads.iter().map(|p| p.to_vec()));
        }
        Ok(outcome)
    }
}
