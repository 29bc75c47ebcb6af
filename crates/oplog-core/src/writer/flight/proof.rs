//! Owns a flight as a checker sees it: the same decisions, no time, and an identity by what they depend on.

use std::hash::{Hash, Hasher};

use ha_kv::{KvError, TxnOutcome};
use ha_types::{Entropy, Epoch, MonoTime};

use super::{Action, Flight, Moment, Then};
use crate::{DurablePrefix, LogError, Outcome, Terminal, WriterConfig};

/// What a writer does next about its one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlightStep {
    /// Send the transaction, again or for the first time.
    Append,
    /// Read the prefix again.
    ReadPrefix,
    /// Read the record stored at the batch's id.
    ReadBatch,
    /// The batch is durable.
    Committed,
    /// Cut the batch, which the store found too large.
    Cut,
    /// The writer ends, and this became of the batch.
    End(Terminal, Outcome),
}

/// One batch on its way, by the writer's own rules, with every pause over at once and no budget. Two are alike if no answer can
/// tell them apart, whatever their figures.
#[derive(Clone, Debug)]
pub struct BatchFlight {
    flight: Flight,
}

impl BatchFlight {
    /// A batch of `entries` entries that is to move the prefix from `expected` to `new`.
    #[must_use]
    pub fn new(expected: DurablePrefix, new: DurablePrefix, entries: usize) -> Self {
        Self { flight: Flight::new(expected, new, entries, &WriterConfig::default()) }
    }

    /// The prefix that its transaction compares.
    #[must_use]
    pub fn expected(&self) -> &DurablePrefix {
        &self.flight.expected
    }

    /// The prefix that its transaction puts.
    #[must_use]
    pub fn new_prefix(&self) -> &DurablePrefix {
        &self.flight.new
    }

    /// The transaction was answered, or was not.
    pub fn on_append(&mut self, answer: &Result<TxnOutcome, KvError>) -> FlightStep {
        self.flight.on_append(answer, MOMENT).into()
    }

    /// The prefix was read.
    pub fn on_prefix(&mut self, read: &Result<Option<DurablePrefix>, LogError>) -> FlightStep {
        self.flight.on_prefix(read, MOMENT).into()
    }

    /// The record at the batch's id was read: the epoch inside it, if it is there, readable and has one.
    ///
    /// # Panics
    /// If the writer was not fenced: only then is the record read.
    pub fn on_stored(&mut self, stored: Option<Epoch>) -> FlightStep {
        self.flight.on_stored(&Ok(stored), MOMENT).into()
    }

    /// The read of the record at the batch's id failed.
    ///
    /// # Panics
    /// As [`Self::on_stored`].
    pub fn on_stored_failed(&mut self, error: KvError) -> FlightStep {
        self.flight.on_stored(&Err(error), MOMENT).into()
    }

    /// The writer is told to stop while `sent`, a transaction, was or was not without its answer.
    pub fn stop(&mut self, sent: bool) -> FlightStep {
        self.flight.interrupt(Terminal::Shutdown, sent).into()
    }

    /// All that an answer's meaning depends on where no time passes. Names every field, so that a new one is thought about.
    fn decisive(&self) -> impl Eq + Hash {
        let Flight {
            expected,
            new,
            entries,
            backoff: _,
            trouble: _,
            unknown,
            appends: _,
            doubted,
            fenced_by,
            batch_reads,
        } = &self.flight;
        (*expected, *new, *entries, *unknown, *doubted, *fenced_by, *batch_reads)
    }
}

impl PartialEq for BatchFlight {
    fn eq(&self, other: &Self) -> bool {
        self.decisive() == other.decisive()
    }
}

impl Eq for BatchFlight {}

impl Hash for BatchFlight {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.decisive().hash(state);
    }
}

impl From<Action> for FlightStep {
    fn from(action: Action) -> Self {
        match action {
            Action::Append | Action::Pause(_, Then::Append) => Self::Append,
            Action::ReadPrefix | Action::Pause(_, Then::ReadPrefix) => Self::ReadPrefix,
            Action::ReadBatch | Action::Pause(_, Then::ReadBatch) => Self::ReadBatch,
            Action::Committed => Self::Committed,
            Action::Cut => Self::Cut,
            Action::End(terminal, outcome) => Self::End(terminal, outcome),
        }
    }
}

/// Pauses have no length here, so their jitter may as well have none.
#[derive(Debug)]
struct NoJitter;

impl Entropy for NoJitter {
    fn next_u64(&self) -> u64 {
        0
    }
}

const MOMENT: Moment<'static> = Moment { began: MonoTime::ZERO, now: MonoTime::ZERO, entropy: &NoJitter };

#[cfg(test)]
mod tests {
    use ha_kv::{Effect, KvErrorKind};
    use ha_types::{BatchId, Owner, Seq};

    use super::*;

    #[test]
    fn flights_that_no_answer_tells_apart_are_alike() {
        let expected = DurablePrefix { epoch: Epoch::new(1), owner: Owner::new(7), ..DurablePrefix::FRESH };
        let new = DurablePrefix { batch_id: BatchId::new(1), last_seq: Seq::new(1), ..expected };
        let fresh = BatchFlight::new(expected, new, 1);
        assert_eq!((fresh.expected(), fresh.new_prefix()), (&expected, &new));
        let silence = Err(KvError::new(KvErrorKind::Timeout, Effect::Unknown, "silence"));
        let mut once = fresh.clone();
        assert_eq!(once.on_append(&silence), FlightStep::ReadPrefix);
        assert_ne!(once, fresh, "one of them may have been applied");
        let mut twice = once.clone();
        assert_eq!(twice.on_prefix(&Ok(Some(expected))), FlightStep::Append);
        assert_eq!(twice.on_append(&silence), FlightStep::ReadPrefix);
        assert_eq!(twice, once, "how often it was sent tells nothing");
        assert_eq!(twice.stop(false), FlightStep::End(Terminal::Shutdown, Outcome::Unknown));
        let claimed = DurablePrefix { epoch: Epoch::new(2), owner: Owner::new(8), ..new };
        assert_eq!(once.on_prefix(&Ok(Some(claimed))), FlightStep::ReadBatch);
        assert_eq!(once.on_stored(None), FlightStep::End(Terminal::Fenced { found: claimed }, Outcome::Unknown));
    }
}
