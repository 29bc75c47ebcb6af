//! Owns what a store is for a test that stands in its way: everything passes on to the store itself, but for what the test writes.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Capabilities, Kv, KvError, RangeLimit, RangePage, Txn, TxnKv, TxnOutcome};

/// A way to a store that lets a test delay, count, bend or refuse some calls. Each method passes the call on until it is written
/// anew, so that only what the test is about stands in it. Whatever is a detour is a [`TxnKv`], too.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use ha_kv::test_kit::Detour;
/// use ha_kv::{Kv, KvError, KvPair, MemoryKv, Txn, TxnKv, TxnOutcome};
///
/// /// Counts transactions.
/// #[derive(Debug, Default)]
/// struct Counted(MemoryKv, AtomicU64);
///
/// #[async_trait::async_trait]
/// impl Detour for Counted {
///     fn store(&self) -> &dyn TxnKv {
///         &self.0
///     }
///
///     async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
///         self.1.fetch_add(1, Ordering::SeqCst);
///         self.store().txn(txn).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), KvError> {
/// let counted = Counted::default();
/// let store: &dyn TxnKv = &counted;
/// let put = Txn { puts: vec![KvPair::new("k", "v")], ..Txn::default() };
/// assert_eq!(store.txn(&put).await?, TxnOutcome::Committed);
/// assert_eq!(store.get(b"k").await?.as_deref(), Some(&b"v"[..]));
/// assert_eq!(counted.1.into_inner(), 1);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Detour: Send + Sync + fmt::Debug + 'static {
    /// Where every call goes in the end.
    fn store(&self) -> &dyn TxnKv;

    /// As [`Kv::get`].
    ///
    /// # Errors
    /// The store's.
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.store().get(key).await
    }

    /// As [`Kv::put`].
    ///
    /// # Errors
    /// The store's.
    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.store().put(key, value).await
    }

    /// As [`Kv::range`].
    ///
    /// # Errors
    /// The store's.
    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        self.store().range(start, end, limit).await
    }

    /// As [`Kv::delete`].
    ///
    /// # Errors
    /// The store's.
    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.store().delete(key).await
    }

    /// As [`Kv::delete_range`].
    ///
    /// # Errors
    /// The store's.
    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        self.store().delete_range(start, end).await
    }

    /// As [`Kv::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.store().capabilities()
    }

    /// As [`TxnKv::txn`].
    ///
    /// # Errors
    /// The store's.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome unknown.
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        self.store().txn(txn).await
    }
}

#[async_trait]
impl<D: Detour> Kv for D {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        Detour::get(self, key).await
    }

    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        Detour::put(self, key, value).await
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        Detour::range(self, start, end, limit).await
    }

    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        Detour::delete(self, key).await
    }

    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        Detour::delete_range(self, start, end).await
    }

    fn capabilities(&self) -> Capabilities {
        Detour::capabilities(self)
    }

    fn as_txn(&self) -> Option<&dyn TxnKv> {
        Some(self)
    }
}

#[async_trait]
impl<D: Detour> TxnKv for D {
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        Detour::txn(self, txn).await
    }
}
