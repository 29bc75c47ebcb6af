//! Owns the store of the model: real keys and values, read with the product's decoders. It applies what it is given and knows
//! no protocol.

use std::sync::LazyLock;

use bytes::Bytes;
use ha_kv::{Compare, Txn};
use ha_types::{BatchId, ClusterId, Seq};
use oplog_core::{DurablePrefix, LogKey, LogKeys};

static KEYS: LazyLock<LogKeys> = LazyLock::new(|| LogKeys::of(&ClusterId::new("c").expect("a letter is a cluster id")));

/// The keys of the one log.
pub(super) fn keys() -> &'static LogKeys {
    &KEYS
}

static PREFIX_KEY: LazyLock<Bytes> = LazyLock::new(|| KEYS.durable_prefix());

/// The key of the durable prefix.
pub(super) fn prefix_key() -> &'static Bytes {
    &PREFIX_KEY
}

/// A condition of a request: the product's, or what is left of one when its rule was removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Check {
    Equals(Bytes, Bytes),
    Absent(Bytes),
    /// The prefix has this batch id and sequence, under whatever claim.
    Boundary(u64, u64),
}

impl Check {
    /// The key it looks at.
    pub(super) fn key(&self) -> &Bytes {
        match self {
            Self::Equals(key, _) | Self::Absent(key) => key,
            Self::Boundary(..) => prefix_key(),
        }
    }
}

/// What sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Sort {
    Append,
    Claim,
    FirstPrefix,
    Legacy,
}

/// A transaction on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) sort: Sort,
    pub(super) checks: Vec<Check>,
    pub(super) puts: Vec<(Bytes, Bytes)>,
}

impl Request {
    pub(super) fn of(sort: Sort, txn: Txn) -> Self {
        assert!(txn.deletes.is_empty(), "no transaction of the log deletes");
        let checks = txn.compares.into_iter().map(|compare| match compare {
            Compare::ValueEquals { key, value } => Check::Equals(key, value),
            Compare::KeyAbsent { key } => Check::Absent(key),
        });
        Self { sort, checks: checks.collect(), puts: txn.puts.into_iter().map(|p| (p.key, p.value)).collect() }
    }

    /// The prefix that it puts.
    pub(super) fn new_prefix(&self) -> Option<DurablePrefix> {
        self.puts.iter().find(|(k, _)| k == prefix_key()).map(|(_, value)| decode(value))
    }
}

/// All keys and values, in order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pairs: Vec<(Bytes, Bytes)>,
}

impl Store {
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.pairs.binary_search_by(|(other, _)| other[..].cmp(key))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.find(key).ok().map(|at| &self.pairs[at].1)
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes) {
        match self.find(&key) {
            Ok(at) => self.pairs[at].1 = value,
            Err(at) => self.pairs.insert(at, (key, value)),
        }
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        if let Ok(at) = self.find(key) {
            self.pairs.remove(at);
        }
    }

    pub(super) fn holds(&self, check: &Check) -> bool {
        match check {
            Check::Equals(key, value) => self.get(key) == Some(value),
            Check::Absent(key) => self.get(key).is_none(),
            Check::Boundary(batch, seq) => {
                self.prefix().is_some_and(|p| (p.batch_id.get(), p.last_seq.get()) == (*batch, *seq))
            }
        }
    }

    pub(super) fn prefix(&self) -> Option<DurablePrefix> {
        self.get(prefix_key()).map(|value| decode(value))
    }

    pub(super) fn batch(&self, id: BatchId) -> Option<&Bytes> {
        self.get(&keys().batch(id))
    }

    /// The batches in order of their ids.
    pub(super) fn batches(&self) -> impl Iterator<Item = (BatchId, &Bytes)> {
        self.pairs.iter().filter_map(|(key, value)| match keys().classify(key) {
            LogKey::Batch(id) => Some((id, value)),
            _ => None,
        })
    }

    /// `/latest` of the legacy log.
    pub(super) fn latest(&self) -> Option<Seq> {
        let value = self.get(&keys().legacy_latest())?;
        let text = std::str::from_utf8(value).expect("the model writes text");
        Some(Seq::new(text.parse().expect("the model writes a number")))
    }

    /// What the legacy entry at `seq` holds.
    pub(super) fn legacy_entry(&self, seq: u64) -> Option<u8> {
        self.get(&keys().legacy_entry(Seq::new(seq))).map(|value| value[0])
    }
}

fn decode(value: &[u8]) -> DurablePrefix {
    DurablePrefix::decode(value).expect("nothing in the model writes another prefix")
}
