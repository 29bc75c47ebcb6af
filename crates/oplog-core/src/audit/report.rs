//! Owns what an audit found, for whoever prints it.

use bytes::Bytes;
use ha_types::{BatchId, Owner, Seq};

use super::{AuditFaults, EpochRange};
use crate::{DurablePrefix, ReplayFault};

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Keys looked at below the cluster's part of the root.
    pub keys: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// The durable prefix at the end of the audit, where there is one that can be read.
    pub prefix: Option<DurablePrefix>,
    /// The owners that the prefix named at the beginning and at the end, each once; nobody's claim is none.
    pub owners: Vec<Owner>,
    /// The batch records.
    pub batches: BatchSummary,
    /// The per-entry log.
    pub legacy: LegacySummary,
    /// The value of Mooncake's producer view.
    pub producer_view: Option<Bytes>,
    /// The value of the election key of the original, which lies outside the root.
    pub election: Option<Bytes>,
    /// Whether there is a snapshot of ours in the catalogue.
    pub snapshot_of_ours: bool,
    /// Keys that belong to no log; each is a fault, too.
    pub stray_keys: u64,
    /// What is no fault and worth knowing.
    pub notes: Vec<String>,
    /// What is wrong.
    pub faults: AuditFaults,
}

impl AuditReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.total() == 0
    }

    /// Whether there is no key of a log at all: most likely another cluster or root was meant.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.keys == 0 && self.prefix.is_none() && self.faults.total() == 0
    }
}

/// The batch records of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchSummary {
    /// Records of ours.
    pub plb1: u64,
    /// Those of them that are compressed.
    pub compressed: u64,
    /// Records of Mooncake's.
    pub mooncake: u64,
    /// Records that cannot be read.
    pub unreadable: u64,
    /// The first one that is there.
    pub first: Option<BatchId>,
    /// The last one.
    pub last: Option<BatchId>,
    /// The first entry that can be read.
    pub first_seq: Option<Seq>,
    /// The last one.
    pub last_seq: Option<Seq>,
    /// Entries in all readable records.
    pub entries: u64,
    /// Bytes as stored.
    pub bytes: u64,
    /// Bytes with raw bodies.
    pub raw_bytes: u64,
    /// The time in the first record of ours, in milliseconds since the Unix epoch.
    pub first_ms: Option<u64>,
    /// The time in the last one.
    pub last_ms: Option<u64>,
    /// The epochs, in the order of the batches; 0 is Mooncake's. If there are very many, those before the last one are left out.
    pub epochs: Vec<EpochRange>,
    /// How many of them were left out.
    pub more_epochs: u64,
}

impl BatchSummary {
    /// All records, readable or not.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.plb1 + self.mooncake + self.unreadable
    }
}

/// The per-entry log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacySummary {
    /// Entries at or below the base, readable or not.
    pub entries: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// The first one.
    pub first: Option<Seq>,
    /// The last one.
    pub last: Option<Seq>,
    /// What `latest` says, where it can be read.
    pub latest: Option<Seq>,
    /// The last entry that counts, if the log was cut over and that can be told.
    pub base: Option<Seq>,
    /// Entries above the base: each is an alarm.
    pub above_base: u64,
    /// Holes that were accepted; the first ones are named by notes.
    pub accepted_holes: u64,
    /// Snapshots of the original, of which the first ones are listed. None is a place to start from.
    pub snapshots: Vec<AuditSnapshot>,
    /// How many snapshots there are.
    pub snapshot_count: u64,
}

/// A snapshot of the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSnapshot {
    /// The key, escaped.
    pub key: String,
    /// The sequence that it names, or what is there in its place.
    pub sequence: Result<Seq, ReplayFault>,
}
