//! Owns the group: the entries of one transaction, what it compares, what fits into it, and what is known of its fate.

use bytes::Bytes;
use ha_kv::{Compare, KvPair, Txn};
use ha_types::Seq;

use super::waiter::Waiter;
use super::{LegacyStartError, LegacyWriterConfig};
use crate::legacy::LegacyEntry;
use crate::writer::trouble::Trouble;
use crate::{BatchStorage, LogKeys, Outcome};

/// One entry in line.
pub(super) struct Pending {
    pub(super) entry: LegacyEntry,
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) waiter: Waiter,
}

impl Pending {
    /// What it adds to a transaction: its key is compared and put.
    pub(super) fn bytes(&self) -> usize {
        entry_bytes(self.key.len(), self.value.len())
    }
}

pub(super) fn entry_bytes(key: usize, value: usize) -> usize {
    2 * key + value
}

/// What fits into one transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) entries: usize,
    /// Bytes of a whole transaction.
    pub(super) bytes: usize,
    /// Bytes of a transaction beside its entries.
    pub(super) around: usize,
    /// Bytes of one entry's value.
    pub(super) value: usize,
}

/// The durable prefix and `latest` are compared beside the entries.
const COMPARES_AROUND: usize = 2;

/// The longest `latest`, in digits.
const LATEST_BYTES: usize = 20;

impl Limits {
    pub(super) fn new(storage: &BatchStorage, config: &LegacyWriterConfig) -> Result<Self, LegacyStartError> {
        config.validate().map_err(LegacyStartError::Config)?;
        if storage.max_batch_bytes() == 0 {
            let why = "the log was opened for reading only; open it for writing to start a writer";
            return Err(LegacyStartError::Config(why.into()));
        }
        let (store, keys) = (storage.kv().capabilities(), storage.keys());
        let entries = store.max_txn_ops.saturating_sub(COMPARES_AROUND);
        if entries == 0 {
            let (name, ops) = (store.backend, store.max_txn_ops);
            return Err(LegacyStartError::Config(format!(
                "the {name} store takes {ops} operations in a transaction; the legacy log needs {}",
                COMPARES_AROUND + 1
            )));
        }
        let around = keys.durable_prefix().len() + 2 * (keys.legacy_latest().len() + LATEST_BYTES);
        let bytes = config.max_txn_bytes.min(store.max_txn_bytes);
        Ok(Self { entries, bytes, around, value: store.max_value_bytes })
    }
}

/// The entries of one transaction, in order: at least one.
pub(super) struct Group {
    pub(super) pending: Vec<Pending>,
    /// What `latest` must hold.
    pub(super) expected: Option<Bytes>,
    /// An attempt had an unknown outcome: it may have applied, or may yet.
    pub(super) unknown: bool,
    /// A transaction is without its answer.
    pub(super) sent: bool,
    /// What went wrong with it so far.
    pub(super) trouble: Trouble,
}

impl Group {
    /// What is true of it if nothing more is heard.
    pub(super) fn fate(&self) -> Outcome {
        if self.unknown || self.sent { Outcome::Unknown } else { Outcome::Never }
    }

    pub(super) fn last(&self) -> Seq {
        self.pending.last().map_or(Seq::ZERO, |pending| pending.entry.seq)
    }

    pub(super) fn new_latest(&self) -> Bytes {
        self.last().to_string().into()
    }

    /// The transaction of this group.
    pub(super) fn txn(&self, keys: &LogKeys) -> Txn {
        let entries = self.pending.iter().map(|p| KvPair::new(p.key.clone(), p.value.clone()));
        group_txn(keys, self.expected.as_ref(), self.new_latest(), entries.collect())
    }
}

/// The transaction: no durable prefix, `latest` as its writer left it, and none of the entries there yet.
pub(crate) fn group_txn(keys: &LogKeys, expected: Option<&Bytes>, new_latest: Bytes, entries: Vec<KvPair>) -> Txn {
    let latest = keys.legacy_latest();
    let mut compares = vec![Compare::KeyAbsent { key: keys.durable_prefix() }];
    compares.push(match expected {
        Some(value) => Compare::ValueEquals { key: latest.clone(), value: value.clone() },
        None => Compare::KeyAbsent { key: latest.clone() },
    });
    compares.extend(entries.iter().map(|entry| Compare::KeyAbsent { key: entry.key.clone() }));
    let mut puts = vec![KvPair::new(latest, new_latest)];
    puts.extend(entries);
    Txn { compares, puts, deletes: Vec::new() }
}
