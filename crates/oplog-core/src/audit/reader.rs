//! Owns the audit's reads: paged by bytes, tried again where that can help.

use std::time::Duration;

use bytes::Bytes;
use ha_kv::{ErrorClass, KvError, KvPair, RangeLimit, RangePage};
use ha_types::BatchId;
#[cfg(feature = "legacy")]
use ha_types::Seq;

use super::AuditOptions;
use super::walk::after;
use crate::storage::read_page;
use crate::{BatchStorage, DurablePrefix, LogKey, LogKeys, ReplayFault};

/// The pause after a first failed read; it doubles.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads one log.
#[derive(Debug)]
pub(super) struct Reader {
    storage: BatchStorage,
    page_bytes: usize,
    attempts: u32,
}

/// The pairs of a range, a page at a time.
#[derive(Debug)]
pub(super) struct Pages {
    /// What is left: the first key, and the key after the last.
    rest: Option<(Bytes, Bytes)>,
}

impl Pages {
    pub(super) fn of(range: (Bytes, Bytes)) -> Self {
        Self { rest: Some(range) }
    }

    /// The next page, which may be empty; `None` after the last.
    pub(super) async fn next(&mut self, reader: &Reader) -> Result<Option<Vec<KvPair>>, KvError> {
        let Some((start, end)) = self.rest.take() else { return Ok(None) };
        let page = reader.page(&start, &end).await?;
        self.rest = page.pairs.last().filter(|_| page.more).map(|last| (after(&last.key), end));
        Ok(Some(page.pairs))
    }
}

/// The durable prefix as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrefixRead {
    Absent,
    Undecodable(ReplayFault),
    Found(DurablePrefix),
}

impl PrefixRead {
    pub(super) fn found(&self) -> Option<&DurablePrefix> {
        match self {
            Self::Found(prefix) => Some(prefix),
            Self::Absent | Self::Undecodable(_) => None,
        }
    }
}

impl Reader {
    pub(super) fn new(storage: &BatchStorage, options: &AuditOptions) -> Self {
        Self { storage: storage.clone(), page_bytes: options.page_bytes, attempts: options.read_attempts }
    }

    fn keys(&self) -> &LogKeys {
        self.storage.keys()
    }

    pub(super) async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        self.retried(|| self.storage.kv().get(key)).await
    }

    pub(super) async fn page(&self, start: &[u8], end: &[u8]) -> Result<RangePage, KvError> {
        let limit = RangeLimit { pairs: usize::MAX, bytes: self.page_bytes };
        self.retried(|| read_page(&**self.storage.kv(), start, end, limit)).await
    }

    /// The first key with `start <= key < end` that `is` something.
    pub(super) async fn first<T>(
        &self,
        (mut start, end): (Bytes, Bytes),
        is: impl Fn(LogKey) -> Option<T>,
    ) -> Result<Option<T>, KvError> {
        loop {
            let page = self.retried(|| read_page(&**self.storage.kv(), &start, &end, RangeLimit::ONE)).await?;
            let Some(pair) = page.pairs.into_iter().next() else { return Ok(None) };
            match is(self.keys().classify(&pair.key)) {
                None if page.more => start = after(&pair.key),
                found => return Ok(found),
            }
        }
    }

    /// Whether the catalogue of our own snapshots holds one.
    pub(super) async fn has_snapshot(&self) -> Result<bool, KvError> {
        Ok(self.first(self.keys().snapshots(), Some).await?.is_some())
    }

    pub(super) async fn prefix(&self) -> Result<PrefixRead, KvError> {
        let key = self.keys().durable_prefix();
        Ok(match self.get(&key).await?.map(|value| DurablePrefix::decode(&value)) {
            None => PrefixRead::Absent,
            Some(Ok(prefix)) => PrefixRead::Found(prefix),
            Some(Err(error)) => PrefixRead::Undecodable(ReplayFault::prefix_undecodable(&key, &error)),
        })
    }

    /// The oldest batch whose key is there.
    pub(super) async fn oldest_batch(&self) -> Result<Option<BatchId>, KvError> {
        let range = self.keys().batch_range(BatchId::ZERO, BatchId::new(u64::MAX));
        let id = |key| if let LogKey::Batch(id) = key { Some(id) } else { None };
        self.first(range, id).await
    }

    /// Whether there is a legacy entry below `seq`.
    #[cfg(feature = "legacy")]
    pub(super) async fn has_entry_below(&self, seq: Seq) -> Result<bool, KvError> {
        let Some(last) = seq.get().checked_sub(1) else { return Ok(false) };
        let range = self.keys().legacy_range(Seq::ZERO, Seq::new(last));
        Ok(self.first(range, |key| matches!(key, LogKey::LegacyEntry(_)).then_some(())).await?.is_some())
    }

    async fn retried<T, R: Future<Output = Result<T, KvError>>>(&self, read: impl Fn() -> R) -> Result<T, KvError> {
        let (mut pause, mut left) = (PAUSE, self.attempts);
        loop {
            left = left.saturating_sub(1);
            match read().await {
                Err(error) if error.class() == ErrorClass::Transient && left > 0 => {
                    tracing::debug!(%error, left, "a read of the audit failed and is tried again");
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2);
                }
                answer => return answer,
            }
        }
    }
}
