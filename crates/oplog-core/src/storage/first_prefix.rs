//! Owns the first prefix of a fresh log (design §3.1): created once, and only where nothing else is.

use bytes::Bytes;
use ha_kv::{Compare, KvPair, RangeLimit, Txn, TxnOutcome};

use super::BatchStorage;
use crate::{DurablePrefix, FaultKind, LogError, LogKey, ReplayFault};

/// How the first prefix came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPrefix {
    /// This call created it.
    Created(DurablePrefix),
    /// It was there.
    Found(DurablePrefix),
}

impl FirstPrefix {
    /// The prefix, whoever created it.
    #[must_use]
    pub fn prefix(&self) -> &DurablePrefix {
        match self {
            Self::Created(prefix) | Self::Found(prefix) => prefix,
        }
    }
}

impl BatchStorage {
    /// Creates the first prefix of a fresh log, or finds the one there. It claims nothing: epoch 0 is nobody's.
    ///
    /// Two initialisers may race: one creates, the other finds. A call whose outcome was unknown may be repeated.
    ///
    /// # Errors
    /// [`LogError::Fault`] if there is no prefix and anything else of this cluster: batches, a snapshot in the catalogue, a
    /// legacy log (which is cut over by `legacy::CutoverPlan`), or a key that is not known. A missing prefix beside other state
    /// is never a fresh cluster. [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves it unknown whether the prefix was created; call again.
    pub async fn create_first_prefix(&self) -> Result<FirstPrefix, LogError> {
        loop {
            if let Some(found) = self.read_prefix().await? {
                return Ok(FirstPrefix::Found(found));
            }
            if let Some(fault) = self.find_other_state().await? {
                // Another initialiser may have created the prefix and written since it was read.
                match self.read_prefix().await? {
                    Some(found) => return Ok(FirstPrefix::Found(found)),
                    None => return Err(fault.into()),
                }
            }
            let first = DurablePrefix::FRESH;
            match self.kv.txn(&self.create(&first)).await? {
                TxnOutcome::Committed => return Ok(FirstPrefix::Created(first)),
                TxnOutcome::CompareFailed => {}
            }
        }
    }

    fn create(&self, first: &DurablePrefix) -> Txn {
        let key = self.keys.durable_prefix();
        let compares =
            vec![Compare::KeyAbsent { key: key.clone() }, Compare::KeyAbsent { key: self.keys.legacy_latest() }];
        Txn { compares, puts: vec![KvPair::new(key, first.encode())], deletes: Vec::new() }
    }

    /// The first key beside which a missing prefix is no fresh log.
    async fn find_other_state(&self) -> Result<Option<ReplayFault>, LogError> {
        let (start, end) = self.keys.whole_log();
        if let Some(key) = self.first_key(&start, &end).await? {
            let found = match self.keys.classify(&key) {
                LogKey::DurablePrefix => return Ok(None),
                LogKey::Batch(_) => "a batch record without a durable prefix: the prefix was lost; restore the store",
                LogKey::LegacyEntry(_) | LogKey::LegacyLatest | LogKey::LegacySnapshot => {
                    "a legacy per-entry log, which is not made new by itself: cut it over first, or use another cluster id"
                }
                LogKey::ProducerView => {
                    "Mooncake's producer view without a durable prefix: the prefix was lost; restore the store"
                }
                LogKey::Unknown => "a key that is of no log known here; use another cluster id or log root",
            };
            return Ok(Some(Self::not_fresh(&key, found)));
        }
        let (start, end) = self.keys.snapshots();
        let found = "a snapshot without a durable prefix: the log was lost; restore the store";
        Ok(self.first_key(&start, &end).await?.map(|key| Self::not_fresh(&key, found)))
    }

    fn not_fresh(key: &[u8], found: &str) -> ReplayFault {
        let expected = "nothing beside a missing durable prefix, or the prefix";
        ReplayFault::new(FaultKind::ForeignState, key, expected, found)
    }

    async fn first_key(&self, start: &[u8], end: &[u8]) -> Result<Option<Bytes>, LogError> {
        let page = self.kv.range(start, end, RangeLimit::ONE).await?;
        Ok(page.pairs.into_iter().next().map(|pair| pair.key))
    }
}
