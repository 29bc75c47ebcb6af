//! Owns a serving node's steps. What follows an answer or a read is [`BatchFlight`]'s to say, the product's own; what stands here
//! besides is what a removed rule leaves.

use ha_kv::{Effect, KvError, KvErrorKind, TxnOutcome};
use oplog_core::proof::{BatchFlight, FlightStep, append_txn};
use oplog_core::{DurablePrefix, Outcome, Owner, Terminal};

use super::Turn;
use crate::model::action::Fate;
use crate::model::fold::{Fold, epoch};
use crate::model::invariant::Invariant;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::store::{Check, Request, Sort, keys};
use crate::model::truth::Told;
use crate::model::world::{Next, Role, Writing, content};

impl Turn<'_> {
    pub(super) fn seal(&mut self, at: usize, entries: u8, prefix: &DurablePrefix) {
        let contents = self.commit(at, entries);
        let (record, crc, new) = self.world.nodes[at].fold.seal(prefix, &contents);
        let flight = BatchFlight::new(*prefix, new, contents.len());
        let writing = Writing { flight, record, crc, contents, next: Next::Append, sent: false };
        self.become_role(at, Role::Writing(writing.into()));
    }

    fn commit(&mut self, at: usize, entries: u8) -> Vec<u8> {
        let first = self.world.nodes[at].committed;
        self.world.nodes[at].committed += entries;
        (first..first + entries).map(|n| content(at, n)).collect()
    }

    pub(super) fn send_append(&mut self, at: usize, mut writing: Writing, fate: Fate) {
        let repeated = std::mem::replace(&mut writing.sent, true);
        let answer = self.send(self.append_request(&writing), fate);
        match answer {
            Some(false) => {
                let claimed = self.world.store.prefix().is_some_and(|p| p.epoch > writing.flight.expected().epoch);
                if repeated && claimed {
                    self.note(Situation::ClaimBetweenReadAndWrite);
                }
                if !self.keep(Rule::FailedCompareIsReread) {
                    return self.end(at, writing, Outcome::Never);
                }
            }
            None if !self.keep(Rule::NoAnswerIsUnknown) => return self.end(at, writing, Outcome::Never),
            None if !self.keep(Rule::NoAnswerIsNoSuccess) => return self.committed(at, &writing),
            Some(true) | None => {}
        }
        let answer = match answer {
            Some(true) => Ok(TxnOutcome::Committed),
            Some(false) => Ok(TxnOutcome::CompareFailed),
            None => Err(KvError::new(KvErrorKind::Timeout, Effect::Unknown, "silence")),
        };
        let step = writing.flight.on_append(&answer);
        self.go_on(at, writing, step);
    }

    fn append_request(&self, writing: &Writing) -> Request {
        let (expected, new) = (writing.flight.expected(), writing.flight.new_prefix());
        let txn = append_txn(keys(), expected, new, writing.record.clone()).expect("the next batch of this claim");
        let mut request = Request::of(Sort::Append, txn);
        if !self.keep(Rule::AppendComparesPrefix) {
            request.checks.clear();
        }
        if !self.keep(Rule::AppendComparesClaim) {
            request.checks = vec![Check::Boundary(expected.batch_id.get(), expected.last_seq.get())];
        }
        request
    }

    pub(super) fn look_as_writer(&mut self, at: usize, writing: Writing) {
        match writing.next {
            Next::ReadPrefix => self.read_prefix(at, writing),
            Next::ReadBatch => self.read_stored(at, writing),
            Next::Append => unreachable!("nothing is read before a transaction is sent"),
        }
    }

    fn read_prefix(&mut self, at: usize, mut writing: Writing) {
        let (expected, new) = (*writing.flight.expected(), *writing.flight.new_prefix());
        let mut found = self.world.store.prefix();
        let higher = found.filter(|found| found.epoch > expected.epoch);
        if found == Some(new) && !self.keep(Rule::OwnSuccessIsSeen) {
            found = Some(DurablePrefix { owner: Owner::new(u64::MAX), ..new });
        }
        if found.is_some_and(|found| found.same_boundary(&new)) && !self.keep(Rule::OwnSuccessIsExact) {
            found = Some(new);
        }
        if found == Some(expected) && !self.keep(Rule::UnchangedIsNotOver) {
            return self.end(at, writing, Outcome::Never);
        }
        if let Some(higher) = higher.filter(|_| !self.keep(Rule::HigherEpochFences)) {
            return self.write_on(at, &writing, &higher);
        }
        if higher.is_some_and(|h| h.batch_id > expected.batch_id) && !self.keep(Rule::StoredBatchIsRead) {
            return self.end(at, writing, Outcome::Never);
        }
        let lower = found.filter(|f| f.epoch == expected.epoch && f.batch_id < expected.batch_id);
        if let Some(lower) = lower.filter(|_| !self.keep(Rule::LowerPrefixEnds)) {
            return self.write_on(at, &writing, &lower);
        }
        let step = writing.flight.on_prefix(&Ok(found));
        match &step {
            FlightStep::Committed => self.note(Situation::CommittedFoundByReading),
            FlightStep::Append => self.note(Situation::SentAgain),
            FlightStep::End(Terminal::Fenced { .. }, _) => self.note(Situation::FencedBeforeBatch),
            FlightStep::End(Terminal::Corrupt { .. }, _) => self.note(Situation::WriterMeetsLoss),
            _ => {}
        }
        self.go_on(at, writing, step);
    }

    /// Without the rule that ends a writer it goes on from whatever prefix it finds.
    fn write_on(&mut self, at: usize, writing: &Writing, found: &DurablePrefix) {
        let mut fold = Fold::default();
        if fold.catch_up(&self.world.store, found, self.model.rules()).is_err() {
            return self.become_role(at, Role::Out);
        }
        let (record, crc, new) = fold.seal(found, &writing.contents);
        let flight = BatchFlight::new(*found, new, writing.contents.len());
        self.world.nodes[at].fold = fold;
        let writing = Writing { flight, record, crc, next: Next::Append, ..writing.clone() };
        self.become_role(at, Role::Writing(writing.into()));
    }

    fn read_stored(&mut self, at: usize, mut writing: Writing) {
        let (mine, id) = (writing.flight.expected().epoch, writing.flight.new_prefix().batch_id);
        let mut stored = self.world.store.batch(id).map(|record| epoch(record));
        match stored {
            None => {
                self.note(Situation::FencedTruncated);
                if !self.keep(Rule::AbsentBatchIsUnknown) {
                    return self.end(at, writing, Outcome::Never);
                }
            }
            Some(epoch) if epoch == mine => self.note(Situation::FencedMine),
            Some(_) => self.note(Situation::FencedHigher),
        }
        if stored.is_some() && !self.keep(Rule::StoredEpochDecides) {
            stored = Some(mine);
        }
        let step = writing.flight.on_stored(stored);
        self.go_on(at, writing, step);
    }

    pub(super) fn go_on(&mut self, at: usize, mut writing: Writing, step: FlightStep) {
        writing.next = match step {
            FlightStep::Append => {
                if writing.sent && !self.keep(Rule::SameTransactionAgain) {
                    self.send_something_else(at, &mut writing);
                }
                Next::Append
            }
            FlightStep::ReadPrefix => Next::ReadPrefix,
            FlightStep::ReadBatch => Next::ReadBatch,
            FlightStep::Committed => return self.committed(at, &writing),
            FlightStep::Cut => unreachable!("no batch is too large here"),
            FlightStep::End(terminal, outcome) => {
                if matches!(terminal, Terminal::Corrupt { .. }) && !self.world.truth.lost {
                    self.broken(Invariant::Calm);
                }
                return self.end(at, writing, outcome);
            }
        };
        self.become_role(at, Role::Writing(writing.into()));
    }

    /// Without the rule a repetition carries what waits by now, under the same ids.
    fn send_something_else(&mut self, at: usize, writing: &mut Writing) {
        let entries = writing.contents.len() as u8;
        if self.world.nodes[at].committed + entries > self.model.bounds().entries {
            return;
        }
        writing.contents = self.commit(at, entries);
        let (record, crc, _) = self.world.nodes[at].fold.seal(writing.flight.expected(), &writing.contents);
        (writing.record, writing.crc) = (record, crc);
    }

    fn committed(&mut self, at: usize, writing: &Writing) {
        self.tell_durable(writing);
        let new = *writing.flight.new_prefix();
        self.world.nodes[at].fold.wrote(&new, writing.crc, &writing.contents);
        self.become_role(at, Role::Serving { at: new });
    }

    fn tell_durable(&mut self, writing: &Writing) {
        let last_seq = self.world.store.prefix().map(|p| p.last_seq.get());
        let new = writing.flight.new_prefix();
        let first = new.last_seq.get() + 1 - writing.contents.len() as u64;
        for (seq, content) in (first..).zip(&writing.contents) {
            let told = Told { seq, content: *content, epoch: new.epoch.get() };
            self.world.truth.tell_durable(told, last_seq);
        }
    }

    /// The writer ends, and its callers are told.
    fn end(&mut self, at: usize, writing: Writing, outcome: Outcome) {
        match outcome {
            Outcome::Durable => self.tell_durable(&writing),
            Outcome::Never => writing.contents.iter().for_each(|content| self.world.truth.tell_never(*content)),
            Outcome::Unknown => {}
        }
        if self.keep(Rule::ServedStateIsDropped) {
            return self.become_role(at, Role::Out);
        }
        let new = *writing.flight.new_prefix();
        self.world.nodes[at].fold.wrote(&new, writing.crc, &writing.contents);
        self.become_role(at, Role::Following);
    }

    pub(super) fn stop(&mut self, at: usize) {
        self.world.spent.stops += 1;
        let Role::Writing(mut writing) = self.world.nodes[at].role.clone() else {
            return self.become_role(at, Role::Out);
        };
        let FlightStep::End(_, mut outcome) = writing.flight.stop(false) else {
            unreachable!("a writer that is told to stop ends");
        };
        if outcome == Outcome::Unknown {
            self.note(Situation::StoppedUnknown);
            if !self.keep(Rule::StopSaysUnknown) {
                outcome = Outcome::Never;
            }
        }
        self.end(at, *writing, outcome);
    }
}
