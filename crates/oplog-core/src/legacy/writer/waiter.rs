//! Owns telling one who committed what became of the entry: exactly once, whatever happens.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ha_types::Seq;
use tokio::sync::oneshot;

use crate::Outcome;

/// How somebody is told.
pub(super) enum Tell {
    Ticket(oneshot::Sender<Outcome>),
    Callback(Box<dyn FnOnce(Seq, Outcome) + Send>),
}

/// Somebody who waits for one entry. Dropped untold, as by a runtime that ends, it tells what is true by then.
pub(super) struct Waiter {
    seq: Seq,
    tell: Option<Tell>,
    /// Never until the entry was sent, then unknown, then what is decided.
    outcome: Outcome,
}

impl Waiter {
    pub(super) fn new(seq: Seq, tell: Tell) -> Self {
        Self { seq, tell: Some(tell), outcome: Outcome::Never }
    }

    /// The same, for the entry at `seq`.
    pub(super) fn of(mut self, seq: Seq) -> Self {
        self.seq = seq;
        self
    }

    /// What it will tell when it is dropped.
    pub(super) fn set(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }

    pub(super) fn is_callback(&self) -> bool {
        matches!(self.tell, Some(Tell::Callback(_)))
    }

    /// Forgets whom to tell: the entry was refused, and its caller is told so by the error.
    pub(super) fn dismiss(mut self) {
        self.tell = None;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let (seq, outcome) = (self.seq, self.outcome);
        match self.tell.take() {
            // Whoever dropped the ticket does not want to know.
            Some(Tell::Ticket(told)) => drop(told.send(outcome)),
            Some(Tell::Callback(callback)) => call(callback, seq, outcome),
            None => {}
        }
    }
}

fn call(callback: Box<dyn FnOnce(Seq, Outcome) + Send>, seq: Seq, outcome: Outcome) {
    if catch_unwind(AssertUnwindSafe(|| callback(seq, outcome))).is_err() {
        tracing::error!(%seq, ?outcome, "a callback of the legacy log panicked");
    }
}
