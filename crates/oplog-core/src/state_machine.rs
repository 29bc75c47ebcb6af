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

    /// Goes on as if the entries after [`Self::last_applied`] and up to `through` had been applied and had changed nothing: a
    /// hole of a legacy log whose loss was accepted in words (design §3.4). Never called for a log in batch records.
    ///
    /// # Errors
    /// [`ApplyError`] by a machine that does not stand for that, which is the default.
    fn pass_hole(&mut self, through: Seq) -> Result<(), ApplyError> {
        let (after, reason) = (self.last_applied(), "this state takes no log with a hole");
        Err(ApplyError { reason: format!("{reason}: the entries after {after} and up to {through} are missing") })
    }
}

/// Why an entry could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ApplyError {
    /// What is wrong, expected and found.
    pub reason: String,
}
