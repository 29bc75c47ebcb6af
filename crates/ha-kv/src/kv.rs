//! Owns the least that a store must do. It has no transactions, no leases and no watches; those are traits beside it.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Capabilities, KvError, RangeLimit, RangePage, TxnKv};

/// A store of byte keys and byte values, ordered by key bytes.
///
/// # Contract
/// * Keys are any bytes, at least one of them (`InvalidArgument` otherwise, the start of a range included); values may be empty.
///   A range whose end is not above its start is empty.
/// * A successful read is linearizable if [`Capabilities::linearizable_read`] says so: it sees every write answered before it began.
/// * No implementation repeats a write by itself. A write whose fate is not known fails with [`Effect::Unknown`](crate::Effect).
/// * An error never looks like an absent key, an empty page or a failed compare.
/// * Dropping a future of a write leaves its outcome unknown; dropping a read has no effect.
#[async_trait]
pub trait Kv: Send + Sync + fmt::Debug + 'static {
    /// The value of `key`, or `None` if it is absent.
    ///
    /// # Errors
    /// [`KvError`] if the store did not answer with one of the two.
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError>;

    /// Sets `key` whether or not it exists. A lease on the key is dropped.
    ///
    /// # Errors
    /// [`KvError`]; its effect says whether the value may have been written.
    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError>;

    /// The pairs with `start <= key < end` in byte order. The page ends early, with [`RangePage::more`] set, when a limit is
    /// reached; it holds at least one pair if there is one, however large.
    ///
    /// # Errors
    /// [`KvError`]; never a partial page in place of an error.
    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError>;

    /// Removes `key` if it exists.
    ///
    /// # Errors
    /// [`KvError`]; its effect says whether the key may have been removed.
    async fn delete(&self, key: &[u8]) -> Result<(), KvError>;

    /// Removes the keys with `start <= key < end` at once and says how many there were.
    ///
    /// # Errors
    /// [`KvError`]; its effect says whether the keys may have been removed.
    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError>;

    /// What this store, as it is configured, can promise.
    fn capabilities(&self) -> Capabilities;

    /// The same store with transactions, if it has them.
    fn as_txn(&self) -> Option<&dyn TxnKv>;
}
