//! Owns the description of one call, for counters, scripts and observers.

use std::time::Duration;

use bytes::Bytes;

use crate::{LeaseId, RangeLimit, Txn};

/// One call as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the arguments of the trait method of the same name")]
pub enum Op {
    /// [`Kv::get`](crate::Kv::get).
    Get { key: Bytes },
    /// [`Kv::put`](crate::Kv::put).
    Put { key: Bytes, value: Bytes },
    /// [`Kv::range`](crate::Kv::range).
    Range { start: Bytes, end: Bytes, limit: RangeLimit },
    /// [`Kv::delete`](crate::Kv::delete).
    Delete { key: Bytes },
    /// [`Kv::delete_range`](crate::Kv::delete_range).
    DeleteRange { start: Bytes, end: Bytes },
    /// [`TxnKv::txn`](crate::TxnKv::txn).
    Txn(Txn),
    /// [`LeaseKv::grant`](crate::LeaseKv::grant).
    Grant { ttl: Duration },
    /// [`LeaseKv::keep_alive`](crate::LeaseKv::keep_alive).
    KeepAlive { lease: LeaseId },
    /// [`LeaseKv::revoke`](crate::LeaseKv::revoke).
    Revoke { lease: LeaseId },
    /// [`LeaseKv::put_if_absent`](crate::LeaseKv::put_if_absent).
    PutIfAbsent { key: Bytes, value: Bytes, lease: LeaseId },
    /// [`WatchKv::watch`](crate::WatchKv::watch).
    Watch { start: Bytes, end: Bytes },
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpKind {
    /// [`Kv::get`](crate::Kv::get).
    Get,
    /// [`Kv::put`](crate::Kv::put).
    Put,
    /// [`Kv::range`](crate::Kv::range).
    Range,
    /// [`Kv::delete`](crate::Kv::delete).
    Delete,
    /// [`Kv::delete_range`](crate::Kv::delete_range).
    DeleteRange,
    /// [`TxnKv::txn`](crate::TxnKv::txn).
    Txn,
    /// [`LeaseKv::grant`](crate::LeaseKv::grant).
    Grant,
    /// [`LeaseKv::keep_alive`](crate::LeaseKv::keep_alive).
    KeepAlive,
    /// [`LeaseKv::revoke`](crate::LeaseKv::revoke).
    Revoke,
    /// [`LeaseKv::put_if_absent`](crate::LeaseKv::put_if_absent).
    PutIfAbsent,
    /// [`WatchKv::watch`](crate::WatchKv::watch).
    Watch,
}

impl OpKind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Get,
        Self::Put,
        Self::Range,
        Self::Delete,
        Self::DeleteRange,
        Self::Txn,
        Self::Grant,
        Self::KeepAlive,
        Self::Revoke,
        Self::PutIfAbsent,
        Self::Watch,
    ];

    /// Whether a call of this kind changes the store, so that a lost reply leaves something unknown.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::Range | Self::Watch)
    }
}

impl Op {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Get { .. } => OpKind::Get,
            Self::Put { .. } => OpKind::Put,
            Self::Range { .. } => OpKind::Range,
            Self::Delete { .. } => OpKind::Delete,
            Self::DeleteRange { .. } => OpKind::DeleteRange,
            Self::Txn(_) => OpKind::Txn,
            Self::Grant { .. } => OpKind::Grant,
            Self::KeepAlive { .. } => OpKind::KeepAlive,
            Self::Revoke { .. } => OpKind::Revoke,
            Self::PutIfAbsent { .. } => OpKind::PutIfAbsent,
            Self::Watch { .. } => OpKind::Watch,
        }
    }

    /// What a server counts of its size: keys and values together.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value } | Self::PutIfAbsent { key, value, .. } => key.len() + value.len(),
            Self::Txn(txn) => txn.bytes(),
            _ => 0,
        }
    }

    /// Whether it stores anything: what a full server refuses.
    pub(super) fn needs_space(&self) -> bool {
        match self {
            Self::Put { .. } | Self::PutIfAbsent { .. } | Self::Grant { .. } => true,
            Self::Txn(txn) => !txn.puts.is_empty(),
            _ => false,
        }
    }
}

/// When an observer sees a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The client made the call; nothing has happened yet. Seen once a call, whatever befalls it.
    Called,
    /// The store did it: a write is in force, or a read was answered. A duplicate is seen twice, a held call when it lands.
    Applied,
    /// The store judged the compares of a transaction, or found the key of a put-if-absent held; nothing changed.
    NotTaken,
    /// The store answered with an error.
    Refused,
}
