//! Owns the key layout of the log (RFC batch record §4) and what a key found under a cluster is. Reads no store.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

#[cfg(test)]
mod tests;

use bytes::Bytes;
use ha_types::{BatchId, ClusterId, Seq};

/// How many decimal digits an id has in a key: every u64 fits, so byte order is numeric order.
const ID_DIGITS: usize = 20;

/// The keys of one cluster's log below one root, and Plimsoll's own keys for that cluster below `/plimsoll`.
///
/// ```text
/// {root}/{cluster}/batches/{batch id, 20 digits}     one batch record
/// {root}/{cluster}/durable_prefix                    the durable prefix
/// {root}/{cluster}/{sequence, 20 digits}             an entry of the legacy log
/// {root}/{cluster}/latest                            the legacy log's latest sequence
/// {root}/{cluster}/snapshot/{id}/sequence_id         a legacy snapshot's sequence
/// {root}/{cluster}/producer_view                     which of Mooncake's primaries may write its batches
/// mooncake-store/{cluster}/master_view               the election key of the original, whatever the root
/// /plimsoll/{cluster}/leader                         the leader's lease key
/// /plimsoll/{cluster}/snapshots/{id}                 the snapshot catalogue
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKeys {
    base: String,
    own: String,
    cluster: ClusterId,
}

/// What a key below a cluster's part of the root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKey {
    /// The durable prefix.
    DurablePrefix,
    /// A batch record.
    Batch(BatchId),
    /// An entry of the legacy per-entry log.
    LegacyEntry(Seq),
    /// The legacy log's latest sequence.
    LegacyLatest,
    /// Something of a legacy snapshot.
    LegacySnapshot,
    /// Which of Mooncake's primaries may write its batches.
    ProducerView,
    /// Nothing that belongs to a log of ours or a legacy log.
    Unknown,
}

/// Why a text is no root for logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log root {root:?} {problem}; give a path such as {:?}", LogKeys::DEFAULT_ROOT)]
pub struct RootError {
    /// The text.
    pub root: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl LogKeys {
    /// The root where clusters keep their logs.
    pub const DEFAULT_ROOT: &str = "/oplog";

    /// The root of the keys that are Plimsoll's own.
    pub const OWN_ROOT: &str = "/plimsoll";

    /// The longest root, in bytes.
    pub const MAX_ROOT_BYTES: usize = 256;

    /// The keys of `cluster` below `root`: path parts of `[A-Za-z0-9_.-]`, with or without a `/` in front or at the end.
    ///
    /// # Errors
    /// [`RootError`] for a root that is empty, overlong, has an empty part or another character, or lies in
    /// [`Self::OWN_ROOT`].
    pub fn new(root: &str, cluster: &ClusterId) -> Result<Self, RootError> {
        let fail = |problem| Err(RootError { root: root.chars().take(Self::MAX_ROOT_BYTES).collect(), problem });
        if root.len() > Self::MAX_ROOT_BYTES {
            return fail("is longer than 256 bytes");
        }
        let path = root.strip_suffix('/').unwrap_or(root);
        let parts = path.strip_prefix('/').unwrap_or(path);
        if parts.is_empty() {
            return fail("is empty");
        }
        if parts.split('/').any(str::is_empty) {
            return fail("has an empty part");
        }
        if !parts.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/')) {
            return fail("has a character other than letters, digits, '_', '.', '-' and '/'");
        }
        if path.strip_prefix(Self::OWN_ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            return fail("is where Plimsoll keeps its own keys");
        }
        Ok(Self::below(path, cluster))
    }

    /// The keys of `cluster` below [`Self::DEFAULT_ROOT`].
    #[must_use]
    pub fn of(cluster: &ClusterId) -> Self {
        Self::below(Self::DEFAULT_ROOT, cluster)
    }

    fn below(root: &str, cluster: &ClusterId) -> Self {
        Self {
            base: format!("{root}/{cluster}/"),
            own: format!("{}/{cluster}/", Self::OWN_ROOT),
            cluster: cluster.clone(),
        }
    }

    /// The durable prefix.
    #[must_use]
    pub fn durable_prefix(&self) -> Bytes {
        format!("{}durable_prefix", self.base).into()
    }

    /// One batch record.
    #[must_use]
    pub fn batch(&self, id: BatchId) -> Bytes {
        format!("{}batches/{:0ID_DIGITS$}", self.base, id.get()).into()
    }

    /// The batch records with `after < id <= through`, as first key and the key after the last.
    #[must_use]
    pub fn batch_range(&self, after: BatchId, through: BatchId) -> (Bytes, Bytes) {
        let end = match through.next() {
            Some(next) => self.batch(next),
            None => self.all_batches().1,
        };
        (after.next().map_or_else(|| end.clone(), |first| self.batch(first)), end)
    }

    /// Everything below `batches/`, as first key and the key after the last.
    #[must_use]
    pub fn all_batches(&self) -> (Bytes, Bytes) {
        subtree(&format!("{}batches/", self.base))
    }

    /// Everything of this cluster below the root, as first key and the key after the last. Never a key of another cluster.
    #[must_use]
    pub fn whole_log(&self) -> (Bytes, Bytes) {
        subtree(&self.base)
    }

    /// The legacy log's latest sequence.
    #[must_use]
    pub fn legacy_latest(&self) -> Bytes {
        format!("{}latest", self.base).into()
    }

    /// One entry of the legacy log.
    #[must_use]
    pub fn legacy_entry(&self, seq: Seq) -> Bytes {
        format!("{}{:0ID_DIGITS$}", self.base, seq.get()).into()
    }

    /// The legacy entries with `after < seq <= through`, as first key and the key after the last. Other keys may lie between
    /// them: whoever scans asks [`Self::legacy_seq`].
    #[must_use]
    pub fn legacy_range(&self, after: Seq, through: Seq) -> (Bytes, Bytes) {
        let end = match through.next() {
            Some(next) => self.legacy_entry(next),
            // `:` is the byte after `9`.
            None => format!("{}:", self.base).into(),
        };
        (after.next().map_or_else(|| end.clone(), |first| self.legacy_entry(first)), end)
    }

    /// The sequence of the legacy entry under `key`: `None` unless the key is of this cluster and ends in exactly 20 digits that
    /// fit a u64.
    #[must_use]
    pub fn legacy_seq(&self, key: &[u8]) -> Option<Seq> {
        key.strip_prefix(self.base.as_bytes()).and_then(parse_id).map(Seq::new)
    }

    /// Everything of the legacy log's snapshots, as first key and the key after the last.
    #[must_use]
    pub fn legacy_snapshots(&self) -> (Bytes, Bytes) {
        subtree(&format!("{}snapshot/", self.base))
    }

    /// The key under which the original's primary is elected. It does not lie below the log's root.
    #[must_use]
    pub fn old_master_view(&self) -> Bytes {
        format!("mooncake-store/{}/master_view", self.cluster).into()
    }

    /// Which of Mooncake's primaries may write its batches.
    #[must_use]
    pub fn producer_view(&self) -> Bytes {
        format!("{}producer_view", self.base).into()
    }

    /// The leader's key.
    #[must_use]
    pub fn leader(&self) -> Bytes {
        format!("{}leader", self.own).into()
    }

    /// The catalogue entry of one snapshot.
    #[must_use]
    pub fn snapshot(&self, id: &str) -> Bytes {
        format!("{}snapshots/{id}", self.own).into()
    }

    /// The whole snapshot catalogue, as first key and the key after the last.
    #[must_use]
    pub fn snapshots(&self) -> (Bytes, Bytes) {
        subtree(&format!("{}snapshots/", self.own))
    }

    /// A key that no transaction of ours ever writes: what a harmless probe would put if its compare could hold.
    #[must_use]
    pub fn probe(&self) -> Bytes {
        format!("{}probe", self.own).into()
    }

    /// What `key` is. A key that is not below this cluster's part of the root is [`LogKey::Unknown`].
    #[must_use]
    pub fn classify(&self, key: &[u8]) -> LogKey {
        let Some(rest) = key.strip_prefix(self.base.as_bytes()) else { return LogKey::Unknown };
        match rest {
            b"durable_prefix" => LogKey::DurablePrefix,
            b"latest" => LogKey::LegacyLatest,
            b"producer_view" => LogKey::ProducerView,
            _ if rest.starts_with(b"snapshot/") => LogKey::LegacySnapshot,
            _ => {
                let batch = rest.strip_prefix(b"batches/").and_then(parse_id).map(|id| LogKey::Batch(BatchId::new(id)));
                let entry = || parse_id(rest).map(|seq| LogKey::LegacyEntry(Seq::new(seq)));
                batch.or_else(entry).unwrap_or(LogKey::Unknown)
            }
        }
    }
}

/// Exactly 20 digits that fit a u64.
fn parse_id(text: &[u8]) -> Option<u64> {
    if text.len() != ID_DIGITS || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |id, digit| id.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// The keys that start with `prefix`, which ends in `/`: `0` is the byte after it.
fn subtree(prefix: &str) -> (Bytes, Bytes) {
    let end = prefix.strip_suffix('/').map(|path| format!("{path}0")).unwrap_or_default();
    (Bytes::from(prefix.to_owned()), end.into())
}
