//! Owns reading what of the legacy log lies in the store, and removing what nobody needs any more. It applies nothing.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{RangeLimit, TxnKv};
use ha_types::Seq;

use super::latest::parse_latest;
use super::{LegacyEntry, LegacyScan};
use crate::storage::read_page;
use crate::{BatchStorage, DurablePrefix, FaultKind, LogError, LogKeys, ReplayFault};

/// The legacy log of one cluster, in a store.
///
/// Scans see entries only: keys that end in anything but 20 digits that fit, `latest`, snapshots, batches and the durable prefix are
/// passed over, and no key of another cluster is ever looked at (L15).
#[derive(Clone, Debug)]
pub struct LegacyLog {
    storage: BatchStorage,
}

/// A snapshot of the original: where it says that it stands. Nothing can be started from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacySnapshot {
    /// Its id.
    pub id: String,
    /// The key in the store, escaped.
    pub key: String,
    /// The sequence, or what is there in its place.
    pub sequence: Result<Seq, ReplayFault>,
}

/// Bytes of one page where only the first entry, or deleting, matters.
const PAGE_BYTES: usize = 1 << 20;

impl LegacyLog {
    /// The legacy log under `keys`.
    #[must_use]
    pub fn new(kv: Arc<dyn TxnKv>, keys: LogKeys) -> Self {
        Self { storage: BatchStorage::open_for_reading(kv, keys) }
    }

    /// The legacy log beside a log in batch records: same store, same keys.
    #[must_use]
    pub fn beside(storage: &BatchStorage) -> Self {
        Self::new(Arc::clone(storage.kv()), storage.keys().clone())
    }

    /// The store.
    #[must_use]
    pub fn kv(&self) -> &Arc<dyn TxnKv> {
        self.storage.kv()
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &LogKeys {
        self.storage.keys()
    }

    /// The durable prefix: `None` until the log is cut over.
    ///
    /// # Errors
    /// As [`BatchStorage::read_prefix`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_prefix(&self) -> Result<Option<DurablePrefix>, LogError> {
        self.storage.read_prefix().await
    }

    /// What `latest` says, `None` if it is absent. The original writes it late and may write it early: while it lives, this is a hint.
    ///
    /// # Errors
    /// [`LogError::Fault`] for a value that is no number; [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_latest(&self) -> Result<Option<Seq>, LogError> {
        let key = self.keys().legacy_latest();
        let value = self.kv().get(&key).await?;
        Ok(value.map(|value| parse_latest(&key, &value)).transpose()?)
    }

    /// What `latest` says where it counts as the boundary of a log whose writer was stopped; zero if there is neither it nor an entry.
    ///
    /// # Errors
    /// [`LogError::Fault`] of kind `LegacyLatest` if it is no number, or absent beside entries; [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn latest(&self) -> Result<Seq, LogError> {
        if let Some(latest) = self.read_latest().await? {
            return Ok(latest);
        }
        match self.first_entry(Seq::ZERO).await? {
            None => Ok(Seq::ZERO),
            Some(entry) => {
                let found = format!("no such key, beside entry {entry}");
                let key = self.keys().legacy_latest();
                Err(ReplayFault::new(FaultKind::LegacyLatest, &key, "the latest sequence in decimal", found).into())
            }
        }
    }

    /// The first entry after `after` that is there, whatever it holds.
    ///
    /// # Errors
    /// [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn first_entry(&self, after: Seq) -> Result<Option<Seq>, LogError> {
        let mut scan = self.scan(after, Seq::new(u64::MAX), PAGE_BYTES).one_at_a_time();
        Ok(scan.next_page().await?.first().map(|(seq, _)| *seq))
    }

    /// One entry, `None` if it is absent.
    ///
    /// # Errors
    /// [`LogError::Fault`] for a value that is no entry; [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_entry(&self, seq: Seq) -> Result<Option<LegacyEntry>, LogError> {
        let key = self.keys().legacy_entry(seq);
        let Some(value) = self.kv().get(&key).await? else { return Ok(None) };
        let entry = LegacyEntry::decode_at(&key, seq, &value).map_err(|e| ReplayFault::from(e).at(seq))?;
        Ok(Some(entry))
    }

    /// The entries with `after < seq <= through`, in pages of at most `page_bytes`.
    #[must_use]
    pub fn scan(&self, after: Seq, through: Seq, page_bytes: usize) -> LegacyScan {
        LegacyScan::new(Arc::clone(self.kv()), self.keys().clone(), after, through, page_bytes)
    }

    /// The snapshots of the original, in the order of their ids: to be listed, never to be started from.
    ///
    /// # Errors
    /// [`LogError::Store`]. A sequence that is no number is an item of the list, no error of it.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn snapshots(&self) -> Result<Vec<LegacySnapshot>, LogError> {
        let (mut start, end) = self.keys().legacy_snapshots();
        let below = start.clone();
        let mut snapshots = Vec::new();
        loop {
            let limit = RangeLimit { pairs: usize::MAX, bytes: PAGE_BYTES };
            let page = read_page(&**self.kv(), &start, &end, limit).await?;
            for pair in &page.pairs {
                let rest = pair.key.strip_prefix(&below[..]).and_then(|rest| rest.strip_suffix(b"/sequence_id"));
                let Some(id) = rest.filter(|id| !id.contains(&b'/')) else { continue };
                snapshots.push(LegacySnapshot {
                    id: id.escape_ascii().to_string(),
                    key: pair.key.escape_ascii().to_string(),
                    sequence: parse_latest(&pair.key, &pair.value),
                });
            }
            match page.pairs.last() {
                Some(last) if page.more => start = after(&last.key),
                _ => return Ok(snapshots),
            }
        }
    }

    /// Removes the entries up to `covered_through` and says how many there were (RFC hot standby §6). The caller vouches that nobody
    /// needs them: a verified snapshot of ours holds what they said.
    ///
    /// It removes ranges, oldest first, and never a key that is no entry. A call that failed half way may be repeated.
    ///
    /// # Errors
    /// [`LogError::Refused`] for a sequence above what the log is known to hold: its `latest`, or its base once it is cut over.
    /// [`LogError::Fault`] if that cannot be told; [`LogError::Store`].
    ///
    /// # Cancel safety
    /// Safe: what was removed is removed, and the next call goes on.
    pub async fn clean_up(&self, covered_through: Seq) -> Result<u64, LogError> {
        let (most, what) = match self.read_prefix().await? {
            Some(prefix) => (super::base_of(&self.storage, &prefix).await?, "the base at which it was cut over"),
            None => (self.latest().await?, "its latest sequence"),
        };
        if covered_through > most {
            return Err(LogError::Refused(format!(
                "legacy entries up to {covered_through} cannot be removed: the log of this cluster ends at {most}, {what}"
            )));
        }
        let (mut scan, mut removed) = (self.scan(Seq::ZERO, covered_through, PAGE_BYTES), 0);
        loop {
            let runs = scan.next_runs().await?;
            if runs.is_empty() {
                return Ok(removed);
            }
            for (first, last) in runs {
                removed += self.kv().delete_range(&first, &after(&last)).await?;
            }
        }
    }
}

/// The first key after `key`.
pub(super) fn after(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}
