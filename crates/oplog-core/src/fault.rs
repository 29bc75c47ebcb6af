//! Owns the fault: something in the log is not as it must be.

use ha_types::{BatchId, Seq};

use crate::record::RecordError;
use crate::{DurablePrefix, PrefixError};

/// What kind of fault. It says whether a second read may take the verdict back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The durable prefix cannot be decoded.
    PrefixUndecodable,
    /// The durable prefix is absent.
    PrefixMissing,
    /// The durable prefix is lower than it was, or another owner's under the same epoch.
    PrefixRegressed,
    /// The reader has applied more than the durable prefix covers.
    AppliedAbovePrefix,
    /// A batch at or below the durable prefix is absent.
    BatchMissing,
    /// A batch record cannot be decoded: checksum, schema, flag, encoding or a broken constraint.
    BatchUndecodable,
    /// A key among the batch records that names no batch.
    StrayKey,
    /// A record under another batch's key.
    WrongBatchId,
    /// The sequences of two neighbouring batches, or of the last one and the prefix, do not join.
    SequenceGap,
    /// A batch of a lower epoch after one of a higher, or above the prefix's epoch.
    WrongEpoch,
    /// A batch does not name the CRC of the one before it: the store was rolled back under the reader.
    BrokenChain,
    /// The log begins above what the reader holds: it needs a snapshot or the legacy log.
    BaseNotHeld,
    /// An entry decodes and cannot be applied.
    Apply,
    /// The state machine does not stand where the replica has brought it.
    Machine,
    /// There is state of another log, or of this one without its durable prefix.
    ForeignState,
    /// An entry of the legacy log cannot be decoded.
    LegacyUndecodable,
    /// An entry of the legacy log is absent although a later one is there, or its `latest` is at or above it.
    LegacyGap,
    /// The legacy log's `latest` is absent beside entries, or is no number.
    LegacyLatest,
    /// The legacy log's first entries are gone, and no snapshot of ours holds what they said.
    LegacyStartGone,
    /// A legacy entry's `key_sequence_id` is not above the one before it of the same key.
    LegacyKeySequence,
    /// A legacy entry lies above the base at which the log was cut over.
    LegacyAboveBase,
}

impl FaultKind {
    /// Whether the verdict stands only after a second read (design §4): what a reader saw between two writes, or in a reply
    /// that was older than the one before, is no fault.
    #[must_use]
    pub const fn needs_second_read(self) -> bool {
        match self {
            Self::PrefixMissing
            | Self::PrefixRegressed
            | Self::AppliedAbovePrefix
            | Self::BatchMissing
            | Self::SequenceGap
            | Self::LegacyGap
            | Self::LegacyLatest => true,
            Self::PrefixUndecodable
            | Self::BatchUndecodable
            | Self::StrayKey
            | Self::WrongBatchId
            | Self::WrongEpoch
            | Self::BrokenChain
            | Self::BaseNotHeld
            | Self::Apply
            | Self::Machine
            | Self::ForeignState
            | Self::LegacyUndecodable
            | Self::LegacyStartGone
            | Self::LegacyKeySequence
            | Self::LegacyAboveBase => false,
        }
    }

    /// A short name for metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PrefixUndecodable => "prefix_undecodable",
            Self::PrefixMissing => "prefix_missing",
            Self::PrefixRegressed => "prefix_regressed",
            Self::AppliedAbovePrefix => "applied_above_prefix",
            Self::BatchMissing => "batch_missing",
            Self::BatchUndecodable => "batch_undecodable",
            Self::StrayKey => "stray_key",
            Self::WrongBatchId => "wrong_batch_id",
            Self::SequenceGap => "sequence_gap",
            Self::WrongEpoch => "wrong_epoch",
            Self::BrokenChain => "broken_chain",
            Self::BaseNotHeld => "base_not_held",
            Self::Apply => "apply",
            Self::Machine => "machine",
            Self::ForeignState => "foreign_state",
            Self::LegacyUndecodable => "legacy_undecodable",
            Self::LegacyGap => "legacy_gap",
            Self::LegacyLatest => "legacy_latest",
            Self::LegacyStartGone => "legacy_start_gone",
            Self::LegacyKeySequence => "legacy_key_sequence",
            Self::LegacyAboveBase => "legacy_above_base",
        }
    }

    /// What an operator does about it. Nothing here repairs a log: whatever is guessed could undo what was acknowledged.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::PrefixUndecodable | Self::BatchUndecodable => {
                "use the version that wrote it, or restore the store from a backup"
            }
            Self::PrefixMissing
            | Self::BatchMissing
            | Self::StrayKey
            | Self::WrongBatchId
            | Self::SequenceGap
            | Self::WrongEpoch => "stop what else writes these keys, and restore the store from a backup",
            Self::PrefixRegressed | Self::AppliedAbovePrefix | Self::BrokenChain => {
                "the store was rolled back: bring back its newest state, then restart this node"
            }
            Self::BaseNotHeld => "start from a state that holds what is below it",
            Self::Apply | Self::Machine => "use the version that wrote the entry, and restart this node",
            Self::ForeignState => "name another cluster id, or restore what belongs to it",
            Self::LegacyUndecodable | Self::LegacyKeySequence => {
                "find out what wrote it, and restore the entry or the store from a backup"
            }
            Self::LegacyGap => "restore the entry, or accept its loss in words",
            Self::LegacyLatest => "set it to the last entry that counts, or name that entry",
            Self::LegacyStartGone => "restore the entries from a backup, or use another cluster id",
            Self::LegacyAboveBase => "stop the old primary that still writes; what it writes is not in the log",
        }
    }
}

/// Something in the log is not as it must be. No retry cures it, but for the kinds that a second read may take back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}, found {found}; {}", .kind.remedy())]
pub struct ReplayFault {
    /// What kind.
    pub kind: FaultKind,
    /// The key in the store.
    pub key: String,
    /// The entry, where one entry is at fault.
    pub seq: Option<Seq>,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl ReplayFault {
    /// A fault about a key.
    #[cold]
    #[must_use]
    pub fn new(kind: FaultKind, key: &[u8], expected: impl ToString, found: impl ToString) -> Self {
        Self {
            kind,
            key: key.escape_ascii().to_string(),
            seq: None,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// The same fault, about one entry.
    #[must_use]
    pub fn at(mut self, seq: Seq) -> Self {
        self.seq = Some(seq);
        self
    }

    pub(crate) fn prefix_undecodable(key: &[u8], error: &PrefixError) -> Self {
        let expected = format!("{} at byte {}: {}", error.field, error.offset, error.expected);
        Self::new(FaultKind::PrefixUndecodable, key, expected, &error.found)
    }

    pub(crate) fn prefix_missing(key: &[u8]) -> Self {
        Self::new(FaultKind::PrefixMissing, key, "a durable prefix", "no such key")
    }

    pub(crate) fn batch_undecodable(key: &[u8], error: &RecordError) -> Self {
        let expected = format!("{} at byte {}: {}", error.field, error.offset, error.expected);
        Self::new(FaultKind::BatchUndecodable, key, expected, &error.found)
    }

    pub(crate) fn batch_missing(key: &[u8], id: BatchId, prefix: &DurablePrefix) -> Self {
        let expected = format!("batch {id}, as the durable prefix is at batch {}", prefix.batch_id);
        Self::new(FaultKind::BatchMissing, key, expected, "no such key")
    }
}
