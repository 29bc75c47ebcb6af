//! Owns how the log lies in the store: keys, transactions and range reads. It knows neither admission nor sequence
//! assignment, retry policy or callbacks.

mod first_prefix;
mod log_size;
mod open;
mod pages;
mod records;
#[cfg(feature = "mooncake")]
pub(crate) mod take_over;
mod txns;

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{Effect, KvError, KvErrorKind, TxnKv, TxnOutcome};
use ha_types::BatchId;

use crate::{DurablePrefix, LogError, LogKeys, ReplayFault};

pub use first_prefix::FirstPrefix;
pub use log_size::LogSize;
pub use open::OpenOptions;
pub use pages::BatchPage;
pub(crate) use pages::read_page;
pub use records::Records;
#[cfg(feature = "mooncake")]
pub(crate) use take_over::OldLog;
#[cfg(feature = "mooncake")]
pub use take_over::TakeOver;
pub(crate) use txns::{append_txn, claim_txn};

/// The log's layout over one store (RFC batch record §1, §4, §10). Clones share the store.
///
/// Every write to the log is a transaction that compares the durable prefix; nothing here deletes.
#[derive(Clone, Debug)]
pub struct BatchStorage {
    kv: Arc<dyn TxnKv>,
    keys: LogKeys,
    max_batch_bytes: usize,
    #[cfg(feature = "mooncake")]
    take_over: Option<TakeOver>,
}

impl BatchStorage {
    /// The store.
    #[must_use]
    pub fn kv(&self) -> &Arc<dyn TxnKv> {
        &self.kv
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &LogKeys {
        &self.keys
    }

    /// The largest record that [`Self::append`] sends, in bytes; 0 for a log opened for reading only.
    #[must_use]
    pub fn max_batch_bytes(&self) -> usize {
        self.max_batch_bytes
    }

    /// The durable prefix, `None` if there is none.
    ///
    /// # Errors
    /// [`LogError::Store`], or [`LogError::Fault`] for a value that is no prefix: an error never looks like an absent prefix.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_prefix(&self) -> Result<Option<DurablePrefix>, LogError> {
        let key = self.keys.durable_prefix();
        match self.kv.get(&key).await? {
            None => Ok(None),
            Some(value) => {
                Ok(Some(DurablePrefix::decode(&value).map_err(|e| ReplayFault::prefix_undecodable(&key, &e))?))
            }
        }
    }

    /// The durable prefix, whose absence is a fault.
    ///
    /// # Errors
    /// As [`Self::read_prefix`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn require_prefix(&self) -> Result<DurablePrefix, LogError> {
        match self.read_prefix().await? {
            Some(prefix) => Ok(prefix),
            None => Err(ReplayFault::prefix_missing(&self.keys.durable_prefix()).into()),
        }
    }

    /// One raw record, `None` if it is absent.
    ///
    /// # Errors
    /// [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_batch(&self, id: BatchId) -> Result<Option<Bytes>, LogError> {
        Ok(self.kv.get(&self.keys.batch(id)).await?)
    }

    /// The append transaction of RFC batch record §10: if the prefix is `expected`, puts `record` and the prefix `new`.
    ///
    /// # Errors
    /// [`KvError`]. `InvalidArgument` or `TooLarge` with nothing sent if `new` does not follow `expected` by one batch under the
    /// same claim, or the record is above [`Self::max_batch_bytes`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome unknown.
    pub async fn append(
        &self,
        expected: &DurablePrefix,
        new: &DurablePrefix,
        record: Bytes,
    ) -> Result<TxnOutcome, KvError> {
        let key = self.keys.batch(new.batch_id);
        let txn = append_txn(&self.keys, expected, new, record.clone())?;
        if record.len() > self.max_batch_bytes {
            let message = format!(
                "the batch record has {} bytes; this log was opened for at most {}",
                record.len(),
                self.max_batch_bytes
            );
            return Err(KvError::new(KvErrorKind::TooLarge, Effect::NotApplied, message).with_key(&key));
        }
        self.kv.txn(&txn).await
    }

    /// The claim: if the prefix is `expected`, makes it `new`, the same boundary under the next epoch and another owner.
    ///
    /// # Errors
    /// [`KvError`]; `InvalidArgument` with nothing sent if `new` is no claim of `expected`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome unknown.
    pub(crate) async fn claim(&self, expected: &DurablePrefix, new: &DurablePrefix) -> Result<TxnOutcome, KvError> {
        self.kv.txn(&claim_txn(&self.keys, expected, new)?).await
    }
}
