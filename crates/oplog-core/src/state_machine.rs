//! Owns what a state must be able to do to follow the log.

use ha_types::Seq;

use crate::EntryRef;

/// A state that is a fold of the log.
pub trait StateMachine: Send + 'static {
    /// The sequence of the last entry applied; zero before the first.
    fn last_applied(&self) -> Seq;

    /// Applies one entry. Deterministic: no clock, no randomness, no I/O. Atomic: on `Err` nothing has changed.
    ///
    /// # Errors
    /// [`ApplyError`] if the entry decodes but cannot be applied.
    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError>;
}

/// Why an entry could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ApplyError {
    /// What is wrong, expected and found.
    pub reason: String,
}
