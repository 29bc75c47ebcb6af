//! Owns the names of what a writer can be doing.

use super::flight::{Action, Then};

/// What the writer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Nothing waits and nothing is in flight.
    #[default]
    Idle,
    /// Entries wait for a batch, and none is in flight.
    Waiting,
    /// A batch is being sealed.
    Sealing,
    /// Its transaction is without an answer.
    Appending,
    /// The prefix is being read again.
    ReadingPrefix,
    /// Fenced, the record at the batch's id is being read.
    ReadingBatch,
    /// A pause before the same transaction is sent again.
    PausingToAppend,
    /// A pause before the prefix is read again.
    PausingToReadPrefix,
    /// Fenced, a pause before the record is read again.
    PausingToReadBatch,
    /// All is resolved.
    Ended,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Idle,
        Self::Waiting,
        Self::Sealing,
        Self::Appending,
        Self::ReadingPrefix,
        Self::ReadingBatch,
        Self::PausingToAppend,
        Self::PausingToReadPrefix,
        Self::PausingToReadBatch,
        Self::Ended,
    ];

    /// A short name for metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Sealing => "sealing",
            Self::Appending => "appending",
            Self::ReadingPrefix => "reading_prefix",
            Self::ReadingBatch => "reading_batch",
            Self::PausingToAppend => "pausing_to_append",
            Self::PausingToReadPrefix => "pausing_to_read_prefix",
            Self::PausingToReadBatch => "pausing_to_read_batch",
            Self::Ended => "ended",
        }
    }

    /// While a batch in flight is about to do `action`.
    pub(super) fn of(action: &Action) -> Self {
        match action {
            Action::Append => Self::Appending,
            Action::ReadPrefix => Self::ReadingPrefix,
            Action::ReadBatch => Self::ReadingBatch,
            Action::Pause(_, Then::Append) => Self::PausingToAppend,
            Action::Pause(_, Then::ReadPrefix) => Self::PausingToReadPrefix,
            Action::Pause(_, Then::ReadBatch) => Self::PausingToReadBatch,
            // What follows is a matter of the same turn.
            Action::Committed | Action::Cut | Action::End(..) => Self::Sealing,
        }
    }
}
