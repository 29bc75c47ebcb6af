//! Owns the line of entries of a legacy writer and why nothing is put into it. It has no lock, no clock and no driver.

use std::collections::VecDeque;

use ha_types::{MonoTime, Seq};

use super::group::{Limits, Pending};
use super::{LegacyTerminal, LegacyWriterStatus};
use crate::Closed;
use crate::legacy::KeySequences;

pub(super) struct Queue {
    /// The last entry that was taken.
    pub(super) last: Seq,
    pub(super) durable: Seq,
    pub(super) waiting: VecDeque<Pending>,
    pub(super) bytes: usize,
    pub(super) key_sequences: KeySequences,
    /// Entries taken and not decided.
    pub(super) undecided: usize,
    /// Callbacks of entries that were taken and that have not run.
    pub(super) callbacks: usize,
    /// The store fails: nothing is taken until it has answered.
    pub(super) failing: Option<(Closed, String)>,
    pub(super) unanswered_since: Option<MonoTime>,
    pub(super) draining: bool,
    pub(super) orphaned: bool,
    pub(super) stopped: bool,
    pub(super) ended: Option<LegacyTerminal>,
}

/// What the driver finds when it looks for work.
pub(super) enum Next {
    /// Entries for one transaction.
    Entries(Vec<Pending>),
    /// None yet.
    Nothing,
    /// There will be none: it was stopped, or nobody holds it and nothing waits.
    Over,
}

impl Queue {
    pub(super) fn new(last: Seq, key_sequences: KeySequences) -> Self {
        Self {
            last,
            durable: last,
            waiting: VecDeque::new(),
            bytes: 0,
            key_sequences,
            undecided: 0,
            callbacks: 0,
            failing: None,
            unanswered_since: None,
            draining: false,
            orphaned: false,
            stopped: false,
            ended: None,
        }
    }

    /// Why nothing is taken, for programs.
    pub(super) fn closed(&self) -> Option<Closed> {
        let failing = self.failing.as_ref().map(|(closed, _)| *closed);
        let ended = self.ended.as_ref().map(|_| Closed::Ended);
        [ended, failing, self.draining.then_some(Closed::Draining)].into_iter().flatten().min()
    }

    /// Why it is closed, in words. The first cause is kept after the end.
    pub(super) fn reason(&self) -> Option<String> {
        let failing = self.failing.as_ref().map(|(_, why)| why.clone());
        let state = match &self.ended {
            Some(terminal) => Some(terminal.to_string()),
            None => self.draining.then(|| "it is being drained".to_owned()),
        };
        match (state, failing) {
            (Some(state), Some(failing)) => Some(format!("{state}; {failing}")),
            (state, failing) => state.or(failing),
        }
    }

    /// What is shown of it.
    pub(super) fn status(&self) -> LegacyWriterStatus {
        let closed = self.closed();
        LegacyWriterStatus {
            accepting: closed.is_none(),
            closed,
            reason: self.reason(),
            durable: self.durable,
            undecided: self.undecided,
            unanswered_since: self.unanswered_since,
            terminal: self.ended.clone(),
        }
    }

    /// The next entries for one transaction, at most `most`.
    pub(super) fn next(&mut self, most: usize, limits: &Limits) -> Next {
        // Asked first: while entries keep coming there is always something to send.
        if self.stopped {
            return Next::Over;
        }
        let (mut bytes, mut taken) = (limits.around, Vec::new());
        while taken.len() < most {
            let Some(next) = self.waiting.front() else { break };
            bytes += next.bytes();
            if bytes > limits.bytes && !taken.is_empty() {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            self.bytes -= next.bytes();
            taken.push(next);
        }
        match taken.is_empty() {
            false => Next::Entries(taken),
            // What was committed before the last handle went is still written.
            true if self.orphaned => Next::Over,
            true => Next::Nothing,
        }
    }

    /// Puts entries back to the front of the line, for the store has certainly not taken them.
    pub(super) fn put_back(&mut self, pending: Vec<Pending>) {
        for pending in pending.into_iter().rev() {
            self.bytes += pending.bytes();
            self.waiting.push_front(pending);
        }
    }
}
