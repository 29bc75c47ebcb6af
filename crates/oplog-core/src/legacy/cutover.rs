//! Owns the cutover from the legacy log to batch records (RFC batch record §6, design §3.4): its settings, its refusals and what it
//! gives. It deletes nothing and publishes no snapshot; the legacy entries stay until one of ours holds what they say.

mod error;
mod looks;
mod plan;
mod replay;
pub(crate) mod transaction;

use std::time::Duration;

use bytes::Bytes;
use ha_types::Seq;

use self::looks::Look;
use super::{LegacyLog, LegacyReplica};
use crate::{BatchStorage, DurablePrefix, FirstPrefix, ReplayFault, Replica, WriterEnv};

pub use error::CutoverError;

/// How long `latest` must not have moved: the original writes it at least once a second while it writes at all.
pub const OLD_PRIMARY_QUIET: Duration = Duration::from_secs(5);

/// What an operator says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutoverOptions {
    /// The old primary was stopped, whatever its election key or `latest` look like. Default no.
    pub old_primary_stopped: bool,
    /// What missing entries said is lost, and that is accepted. Default no. A log whose *start* is gone is refused all the same.
    pub accept_holes: bool,
    /// The last entry that counts, in place of what `latest` says.
    pub last_seq: Option<Seq>,
    /// How many bytes of entries are read at once. Default 4 MiB.
    pub page_bytes: usize,
}

impl Default for CutoverOptions {
    fn default() -> Self {
        Self { old_primary_stopped: false, accept_holes: false, last_seq: None, page_bytes: 4 << 20 }
    }
}

/// Entries that are missing, first and last included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyHole {
    /// The first.
    pub first: Seq,
    /// The last.
    pub last: Seq,
}

impl std::fmt::Display for LegacyHole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{} to {}", self.first, self.last),
        }
    }
}

/// What a look at the log came to. Nothing has been changed yet.
#[derive(Debug)]
pub enum CutoverCheck<S> {
    /// The log was cut over before, by whoever: this prefix is the truth.
    Done(DurablePrefix),
    /// The log can be cut over.
    Ready(Box<CutoverPlan<S>>),
}

/// A log that can be cut over, replayed to its base. It is made by [`CutoverPlan::prepare`] alone, which refuses all else.
#[derive(Debug)]
pub struct CutoverPlan<S> {
    storage: BatchStorage,
    log: LegacyLog,
    options: CutoverOptions,
    env: WriterEnv,
    look: Look,
    first: DurablePrefix,
    replica: LegacyReplica<S>,
    entries: u64,
    holes: Vec<LegacyHole>,
    above: Option<ReplayFault>,
}

/// A log that was cut over.
#[derive(Debug)]
pub struct CutoverDone<S> {
    /// The first prefix, created or found: who loses the race takes the winner's.
    pub prefix: FirstPrefix,
    /// The last legacy entry that counts.
    pub base: Seq,
    /// The state at the base, from where the batches go on; `None` if the winner chose another base than was replayed to.
    pub replica: Option<Replica<S>>,
    /// The holes that were accepted.
    pub holes: Vec<LegacyHole>,
    /// An entry above the base: an alarm that names it.
    pub above: Option<ReplayFault>,
}

impl<S> CutoverPlan<S> {
    /// The last legacy entry that will count.
    #[must_use]
    pub fn base(&self) -> Seq {
        self.first.last_seq
    }

    /// How many entries were replayed.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The holes that are accepted.
    #[must_use]
    pub fn holes(&self) -> &[LegacyHole] {
        &self.holes
    }

    /// The first entry above the base, as an alarm that names it. It will not be in the log.
    #[must_use]
    pub fn above(&self) -> Option<&ReplayFault> {
        self.above.as_ref()
    }

    /// The state at the base.
    #[must_use]
    pub fn replica(&self) -> &LegacyReplica<S> {
        &self.replica
    }

    /// What `latest` was when it was looked at, byte for byte; the transaction compares it.
    #[must_use]
    pub fn latest(&self) -> Option<&Bytes> {
        self.look.latest.as_ref()
    }
}
