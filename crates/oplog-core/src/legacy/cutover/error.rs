//! Owns the refusals of the cutover. Each names the key and changes nothing.

use ha_kv::KvError;
use ha_types::Seq;

use super::LegacyHole;
use crate::{DurablePrefix, LogError, ReplayFault};

/// Why the log was not cut over.
#[derive(Debug, thiserror::Error)]
pub enum CutoverError {
    /// The log cannot be read, or is not as it must be: `latest` absent or no number, an entry that cannot be read or applied, a start
    /// that is gone, batches without a prefix.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The election key of the original is there: its primary may live.
    #[error("{key}: expected no such key, found \"{found}\": stop the old primary first, or say that it was stopped")]
    OldPrimaryElected {
        /// The key.
        key: String,
        /// Its value, escaped.
        found: String,
    },
    /// `latest` or the election key changed between two looks or before the transaction: somebody writes.
    #[error("{key}: expected {expected} as before, found {found}: an old primary still writes; stop it")]
    OldPrimaryWrites {
        /// The key.
        key: String,
        /// What it held.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// Entries up to the base are missing.
    #[error("{key}: {missing} entries up to the base {base} are missing, the first ones {}: restore them, or accept their loss in words", list(.holes))]
    Holes {
        /// The key of the first one missing.
        key: String,
        /// The first holes, at most [`Self::MAX_HOLES`].
        holes: Vec<LegacyHole>,
        /// How many entries are missing in all.
        missing: u64,
        /// The base.
        base: Seq,
    },
    /// The sequence asked for is above what the log holds.
    #[error("{key}: --last-seq {asked} is above reality: there is no such entry, and latest is {latest}")]
    LastSeqAboveReality {
        /// The key of the entry that would be the last.
        key: String,
        /// What was asked for.
        asked: Seq,
        /// What `latest` holds.
        latest: String,
    },
    /// The sequence asked for would drop entries that `latest` says count.
    #[error("{key}: --last-seq {asked} would drop this entry, which lies at or below latest, {latest}")]
    LastSeqBelowLatest {
        /// The key of an entry that would be dropped.
        key: String,
        /// What was asked for.
        asked: Seq,
        /// `latest`.
        latest: Seq,
    },
    /// The log was cut over, and holds more than what was asked for.
    #[error("{key}: --last-seq {asked} is below the durable prefix ({prefix}); nothing that is durable is taken back")]
    LastSeqBelowPrefix {
        /// The key of the durable prefix.
        key: String,
        /// What was asked for.
        asked: Seq,
        /// The prefix.
        prefix: DurablePrefix,
    },
    /// The log was cut over before.
    #[error("{key}: --last-seq {asked} comes after the cutover: the durable prefix is there ({prefix})")]
    LastSeqAfterCutover {
        /// The key of the durable prefix.
        key: String,
        /// What was asked for.
        asked: Seq,
        /// The prefix.
        prefix: DurablePrefix,
    },
    /// Whether the first prefix was or will be created is not known. Nothing else was changed; run it again.
    #[error("whether the log was cut over is not known: {0}; run it again, which is safe")]
    Unknown(#[source] KvError),
}

impl CutoverError {
    /// The most holes that are listed one by one.
    pub const MAX_HOLES: usize = 16;
}

impl From<KvError> for CutoverError {
    fn from(error: KvError) -> Self {
        Self::Log(error.into())
    }
}

impl From<ReplayFault> for CutoverError {
    fn from(fault: ReplayFault) -> Self {
        Self::Log(fault.into())
    }
}

fn list(holes: &[LegacyHole]) -> String {
    holes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
