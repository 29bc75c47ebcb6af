//! Owns the reservation: a slot of the waiting queue, moved, never copied; dropped, it is given back (RFC batch record §7).

use std::fmt;
use std::sync::Arc;

use super::CommitError;
use super::class::Class;
use super::core::Core;
use super::notifier::Callback;
use super::shared::Handle;
use super::ticket::Ticket;
use crate::{NewEntry, Outcome, Seq};

/// A slot. Dropping it aborts: no sequence is used, nobody is called.
#[must_use]
pub struct Reservation {
    /// `None` once the slot is the entry's.
    handle: Option<Arc<Handle>>,
    class: Class,
}

impl Reservation {
    /// The caller holds a slot.
    pub(super) fn of_slot(handle: Arc<Handle>, class: Class) -> Self {
        Self { handle: Some(handle), class }
    }

    /// Takes the next sequence for `entry` and puts it into the log's queue (RFC batch record §7, §9). Short and synchronous: it
    /// may be called under the caller's own lock, and neither waits nor runs or wakes anything of a caller's.
    ///
    /// # Errors
    /// [`CommitError`] if the entry could not fit a batch, has a field that is not allowed, or the writer has ended. No sequence
    /// was used and the slot is given back.
    pub fn commit(self, entry: NewEntry<'_>) -> Result<Ticket, CommitError> {
        let (seq, handle) = self.put(&entry, None)?;
        Ok(Ticket::new(handle, seq))
    }

    /// The same with a callback, called exactly once with the sequence and its outcome: in order of sequence, on a blocking
    /// thread of the runtime, outside all locks. A callback that blocks holds up later callbacks, no transaction; one that panics
    /// is reported and counted.
    ///
    /// # Errors
    /// As [`Self::commit`]; the callback is dropped uncalled.
    pub fn commit_with(
        self,
        entry: NewEntry<'_>,
        callback: impl FnOnce(Seq, Outcome) + Send + 'static,
    ) -> Result<Seq, CommitError> {
        let callback = Callback::new(callback);
        self.put(&entry, Some(callback)).map(|(seq, _)| seq)
    }

    fn put(mut self, entry: &NewEntry<'_>, mut callback: Option<Callback>) -> Result<(Seq, Arc<Handle>), CommitError> {
        let handle = self.handle.as_ref().expect("a reservation holds its slot until it is consumed");
        let shared = &handle.0;
        let commit = |core: &mut Core| core.commit(self.class, entry, &mut callback, || shared.clock.now());
        let (seq, wake_driver) = shared.with_core(commit)?;
        if wake_driver {
            shared.work.notify_one();
        }
        let handle = self.handle.take().expect("the slot was still held");
        Ok((seq, handle))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.0.with_core(|core| core.abort(self.class));
            handle.0.progress.notify_waiters();
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reservation")
    }
}
