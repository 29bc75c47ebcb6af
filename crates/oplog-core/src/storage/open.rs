//! Owns the checks at opening: what the store promises, and whether it really takes a full batch.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{Compare, DurableAck, ErrorClass, KvErrorKind, KvPair, Txn, TxnKv, TxnOutcome};
use ha_types::BatchId;

use super::BatchStorage;
use crate::record::MAX_BODY_BYTES;
use crate::{DurablePrefix, LogError, LogKeys};

/// Settings of a log that is opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// `oplog_batch_max_bytes`: the largest batch record, in bytes. Default 1 MiB.
    pub max_batch_bytes: usize,
    /// Whether a store is accepted that may lose writes it has acknowledged. Default no: the operator says so in words.
    pub accept_lost_writes: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { max_batch_bytes: 1 << 20, accept_lost_writes: false }
    }
}

/// The smallest batch limit: a header, a tenant and a short entry.
const MIN_BATCH_BYTES: usize = 256;

/// Compares and writes of the largest transaction.
const TXN_OPS: usize = 2;

impl BatchStorage {
    /// Opens the log over `kv`: checks what the store promises, then sends one harmless transaction of the largest size, so
    /// that a server with a smaller request limit is found now and not at the first full batch.
    ///
    /// A store that is full or read-only refuses that transaction for another reason; the log opens all the same, as reading
    /// it must go on, and the writer finds out by itself.
    ///
    /// # Errors
    /// [`LogError::Refused`] with the setting or promise at fault: no transactions, acknowledged writes may be lost, reads
    /// that are not linearizable, a batch limit of 0 or above the store's. [`LogError::Store`] if the store did not answer.
    ///
    /// # Cancel safety
    /// Safe: the transaction cannot apply.
    pub async fn open(kv: Arc<dyn TxnKv>, keys: LogKeys, options: OpenOptions) -> Result<Self, LogError> {
        check_promises(&*kv, options)?;
        let storage = Self::with(kv, keys, options.max_batch_bytes);
        let largest = storage.largest_append();
        check_limits(&*storage.kv, options.max_batch_bytes, largest)?;
        storage.probe(largest).await?;
        Ok(storage)
    }

    /// Opens the log for looking at it: asks nothing of the store, and every append is refused.
    #[must_use]
    pub fn open_for_reading(kv: Arc<dyn TxnKv>, keys: LogKeys) -> Self {
        Self::with(kv, keys, 0)
    }

    fn with(kv: Arc<dyn TxnKv>, keys: LogKeys, max_batch_bytes: usize) -> Self {
        Self {
            kv,
            keys,
            max_batch_bytes,
            #[cfg(feature = "mooncake")]
            take_over: None,
        }
    }

    /// Keys and values of the largest append, in bytes.
    fn largest_append(&self) -> usize {
        let prefix = self.keys.durable_prefix().len() + DurablePrefix::MAX_BYTES;
        self.max_batch_bytes.saturating_add(self.keys.batch(BatchId::ZERO).len() + 2 * prefix)
    }

    /// A transaction as large as the largest append, whose two compares contradict each other.
    async fn probe(&self, bytes: usize) -> Result<(), LogError> {
        let key = self.keys.probe();
        let beside = Bytes::from([&key[..], b"2"].concat());
        let impossible = vec![
            Compare::KeyAbsent { key: key.clone() },
            Compare::ValueEquals { key: key.clone(), value: Bytes::from_static(b"never") },
        ];
        let mut txn = Txn { compares: impossible, ..Txn::default() };
        txn.puts.push(KvPair::new(key, vec![0; self.max_batch_bytes]));
        txn.puts.push(KvPair::new(beside, Bytes::new()));
        let rest = bytes.saturating_sub(txn.bytes());
        if let Some(pad) = txn.puts.last_mut() {
            pad.value = vec![0; rest].into();
        }
        match self.kv.txn(&txn).await {
            Ok(TxnOutcome::CompareFailed) => Ok(()),
            Ok(TxnOutcome::Committed) => Err(LogError::Refused(
                "the store committed a transaction whose compare cannot hold; no log is safe on it".into(),
            )),
            Err(error) if error.kind == KvErrorKind::TooLarge => Err(LogError::Refused(format!(
                "the store refused a transaction of {bytes} bytes ({error}); lower oplog_batch_max_bytes from {} or raise \
                 the store's request limit",
                self.max_batch_bytes
            ))),
            Err(error) if error.class() == ErrorClass::Operator && error.kind != KvErrorKind::Auth => {
                tracing::warn!(%error, bytes, "whether the store takes a full batch could not be verified");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn check_promises(kv: &dyn TxnKv, options: OpenOptions) -> Result<(), LogError> {
    let store = kv.capabilities();
    let name = store.backend;
    if !store.txn {
        return Err(LogError::Refused(format!(
            "the {name} store has no transactions as it is configured; a replicated log needs a store that has"
        )));
    }
    if let DurableAck::No { reason } = &store.durable_ack
        && !options.accept_lost_writes
    {
        return Err(LogError::Refused(format!(
            "the {name} store may lose writes that it has acknowledged: {reason}; cure it, or accept lost writes in words"
        )));
    }
    // A store that a failover takes writes from also reads from the past until everybody has heard of it: the same word covers both.
    let accepted = options.accept_lost_writes && !store.durable_ack.is_yes();
    if !store.linearizable_read && !accepted {
        return Err(LogError::Refused(format!(
            "the {name} store may answer reads from the past as it is configured; a replicated log needs linearizable reads"
        )));
    }
    Ok(())
}

fn check_limits(kv: &dyn TxnKv, limit: usize, largest: usize) -> Result<(), LogError> {
    let store = kv.capabilities();
    if store.max_txn_ops < TXN_OPS {
        return Err(LogError::Refused(format!(
            "the {} store takes {} operations in a transaction; a batch needs {TXN_OPS}",
            store.backend, store.max_txn_ops
        )));
    }
    if limit < MIN_BATCH_BYTES {
        return Err(LogError::Refused(format!(
            "oplog_batch_max_bytes is {limit}; it must be at least {MIN_BATCH_BYTES}"
        )));
    }
    let around = largest.saturating_sub(limit);
    let most = store.max_value_bytes.min(store.max_txn_bytes.saturating_sub(around));
    let most = most.min(store.max_reply_bytes.saturating_sub(around)).min(MAX_BODY_BYTES);
    if limit > most {
        return Err(LogError::Refused(format!(
            "oplog_batch_max_bytes is {limit}; the {} store as configured takes records of at most {most} bytes",
            store.backend
        )));
    }
    Ok(())
}
