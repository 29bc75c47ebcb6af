//! Owns the transaction: compares, then all writes or none.

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Kv, KvError, KvPair};

/// A condition on one key, judged at the instant the transaction applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key exists with exactly these bytes.
    ValueEquals {
        /// The key.
        key: Bytes,
        /// The bytes.
        value: Bytes,
    },
    /// The key does not exist.
    KeyAbsent {
        /// The key.
        key: Bytes,
    },
}

impl Compare {
    /// The key it looks at.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        match self {
            Self::ValueEquals { key, .. } | Self::KeyAbsent { key } => key,
        }
    }
}

/// What a transaction removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    /// One key, if it exists.
    Key(Bytes),
    /// The keys with `start <= key < end`.
    Range {
        /// The first key.
        start: Bytes,
        /// The key after the last.
        end: Bytes,
    },
}

/// If all compares hold, all puts and deletes apply at once; else nothing does.
///
/// No key may be written twice: not by two puts, nor by a put and a delete. Two deletes may overlap, and a key may be compared
/// and written, or compared twice. Keys are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The conditions.
    pub compares: Vec<Compare>,
    /// The values to set.
    pub puts: Vec<KvPair>,
    /// The keys to remove.
    pub deletes: Vec<Delete>,
}

impl Txn {
    /// Keys and values together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let compares = self.compares.iter().map(|c| match c {
            Compare::ValueEquals { key, value } => key.len() + value.len(),
            Compare::KeyAbsent { key } => key.len(),
        });
        let puts = self.puts.iter().map(|p| p.key.len() + p.value.len());
        let deletes = self.deletes.iter().map(|d| match d {
            Delete::Key(key) => key.len(),
            Delete::Range { start, end } => start.len() + end.len(),
        });
        compares.chain(puts).chain(deletes).sum()
    }

    /// The number of compares, or of puts and deletes, whichever is larger: what a store's limit counts.
    #[must_use]
    pub fn ops(&self) -> usize {
        self.compares.len().max(self.puts.len() + self.deletes.len())
    }
}

/// How a transaction ended. A compare that fails is an answer, no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TxnOutcome {
    /// All writes applied.
    Committed,
    /// A compare did not hold; nothing applied.
    CompareFailed,
}

/// A store with transactions.
#[async_trait]
pub trait TxnKv: Kv {
    /// Applies `txn`, once, at once, or not at all.
    ///
    /// # Errors
    /// [`KvError`]. With [`Effect::NotApplied`](crate::Effect) nothing was and nothing will be applied; with
    /// [`Effect::Unknown`](crate::Effect) it was, was not, or may yet be. A transaction above the limits of
    /// [`Capabilities`](crate::Capabilities) is `TooLarge` and not sent.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome unknown.
    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError>;
}
