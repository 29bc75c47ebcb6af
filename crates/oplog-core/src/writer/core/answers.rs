//! Owns what an answer of the store changes beside the flight: the gate and the latch (RFC batch record §§10–11).

use ha_kv::{KvError, TxnOutcome};
use ha_types::{Epoch, MonoTime};

use super::Core;
use crate::writer::Phase;
use crate::writer::flight::{Action, Flight, Moment, Then};
use crate::{DurablePrefix, LogError, Terminal};

impl Core {
    pub(in crate::writer) fn on_append(&mut self, answer: &Result<TxnOutcome, KvError>, at: Moment<'_>) -> Action {
        self.step(|flight| flight.on_append(answer, at))
    }

    pub(in crate::writer) fn on_prefix(
        &mut self,
        read: &Result<Option<DurablePrefix>, LogError>,
        at: Moment<'_>,
    ) -> Action {
        let action = self.step(|flight| flight.on_prefix(read, at));
        self.counters.recovered_unknown += u64::from(action == Action::Committed);
        action
    }

    pub(in crate::writer) fn on_stored(&mut self, read: &Result<Option<Epoch>, KvError>, at: Moment<'_>) -> Action {
        self.step(|flight| flight.on_stored(read, at))
    }

    pub(in crate::writer) fn on_pause_over(&mut self, then: Then, now: MonoTime) -> Action {
        self.step(|flight| flight.on_pause_over(then, now))
    }

    /// The flight is broken off; `sent` says whether a transaction is without its answer.
    pub(in crate::writer) fn interrupt(&mut self, terminal: Terminal, sent: bool) -> Action {
        self.step(|flight| flight.interrupt(terminal, sent))
    }

    /// A transaction sent at `began` is still without an answer.
    pub(in crate::writer) fn not_answered_yet(&mut self, began: MonoTime) {
        self.flight().not_answered_yet(began);
    }

    /// By when a request sent at `now` must be answered.
    pub(in crate::writer) fn answer_by(&mut self, now: MonoTime) -> Option<MonoTime> {
        self.flight().trouble().answer_by(now)
    }

    fn flight(&mut self) -> &mut Flight {
        self.flying.as_mut().and_then(|f| f.flight.as_mut()).expect("a batch is in flight")
    }

    fn step(&mut self, event: impl FnOnce(&mut Flight) -> Action) -> Action {
        let flight = self.flight();
        let action = event(flight);
        if matches!(action, Action::Committed) {
            return action;
        }
        let fenced_by = flight.fenced_by();
        if let (Some(closed), Some(failure)) = (flight.trouble().closed(), flight.trouble().failure()) {
            self.counters.last_error = Some(failure.clone());
            self.failing = Some((closed, failure));
            self.failed = closed;
            // L7: from the first failure on nobody is admitted, nor left waiting for it.
            self.admission.refuse_all(&mut self.wake);
        }
        if let Some(found) = fenced_by {
            self.latch(Terminal::Fenced { found });
        }
        if let Action::End(terminal, _) = &action {
            self.latch(terminal.clone());
        }
        if let Some(flying) = &mut self.flying {
            flying.phase = Phase::of(&action);
        }
        action
    }

    /// The end is latched: the first one stays.
    pub(super) fn latch(&mut self, terminal: Terminal) {
        if self.terminal.is_none() {
            self.terminal = Some(terminal);
        }
        self.admission.refuse_all(&mut self.wake);
    }
}
