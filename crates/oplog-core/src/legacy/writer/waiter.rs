//! Owns who waits for an entry, and telling all who wait what became of theirs: tickets at once, callbacks in the order of sequences.

use ha_types::Seq;
use tokio::sync::oneshot;

use crate::Outcome;
use crate::writer::notifier::Callback;

/// Somebody who waits for one entry.
pub(super) enum Waiter {
    Ticket(oneshot::Sender<Outcome>),
    Callback(Callback),
}

impl Waiter {
    pub(super) fn is_callback(&self) -> bool {
        matches!(self, Self::Callback(_))
    }
}

/// Callbacks of entries that came to the same end, in order.
pub(super) type Run = (Vec<(Seq, Callback)>, Outcome);

/// Tells the tickets, and gives the callbacks, in order.
pub(super) fn tell_tickets(decided: impl IntoIterator<Item = (Seq, Waiter, Outcome)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (seq, waiter, outcome) in decided {
        match waiter {
            // Whoever dropped the ticket does not want to know.
            Waiter::Ticket(told) => drop(told.send(outcome)),
            Waiter::Callback(callback) => match runs.last_mut() {
                Some((run, same)) if *same == outcome => run.push((seq, callback)),
                _ => runs.push((vec![(seq, callback)], outcome)),
            },
        }
    }
    runs
}
