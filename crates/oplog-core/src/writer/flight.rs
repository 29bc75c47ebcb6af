//! Owns the fate of one batch: answers of the store in, the next step out (RFC batch record §§10–11, design §3.1). No clock, no
//! I/O, no runtime; it never sees the record's bytes.

#[cfg(any(test, feature = "proof"))]
pub(crate) mod proof;

use std::time::Duration;

use ha_kv::{ErrorClass, KvError, KvErrorKind, TxnOutcome};
use ha_types::{Backoff, Entropy, Epoch, MonoTime};

use super::trouble::{OutOfBudget, Trouble, is_damage};
use super::{Closed, WriterConfig};
use crate::outcome::{AppendVerdict, judge_append, judge_stored_batch};
use crate::{DurablePrefix, LogError, Outcome, Terminal};

/// How often the record at our id is asked for before its fate is called unknown.
const STORED_BATCH_READS: u32 = 8;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send the transaction.
    Append,
    /// Read the prefix again.
    ReadPrefix,
    /// Read the record stored at our batch id.
    ReadBatch,
    /// Wait, then go on.
    Pause(Duration, Then),
    /// The batch is durable.
    Committed,
    /// The batch is too large for the store, and certainly not in it: cut it.
    Cut,
    /// The writer ends, and so does this batch.
    End(Terminal, Outcome),
}

/// What follows a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Append,
    ReadPrefix,
    ReadBatch,
}

impl From<Then> for Action {
    fn from(then: Then) -> Self {
        match then {
            Then::Append => Self::Append,
            Then::ReadPrefix => Self::ReadPrefix,
            Then::ReadBatch => Self::ReadBatch,
        }
    }
}

/// When a request was sent, when its answer or the lack of one was known, and the jitter of the pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub(super) began: MonoTime,
    pub(super) now: MonoTime,
    pub(super) entropy: &'a dyn Entropy,
}

/// One batch on its way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) expected: DurablePrefix,
    pub(super) new: DurablePrefix,
    entries: usize,
    backoff: Backoff,
    trouble: Trouble,
    /// An attempt may have been applied, or may yet be.
    unknown: bool,
    appends: u64,
    /// The prefix was read once as rule 4 has it.
    doubted: bool,
    fenced_by: Option<DurablePrefix>,
    batch_reads: u32,
}

impl Flight {
    pub(super) fn new(expected: DurablePrefix, new: DurablePrefix, entries: usize, config: &WriterConfig) -> Self {
        Self {
            expected,
            new,
            entries,
            backoff: Backoff::new(config.oplog_retry_min, config.oplog_retry_max),
            trouble: Trouble::new(config.oplog_retry_budget),
            unknown: false,
            appends: 0,
            doubted: false,
            fenced_by: None,
            batch_reads: 0,
        }
    }

    /// What went wrong so far, and for how long.
    pub(super) fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    pub(super) fn maybe_applied(&self) -> bool {
        self.unknown
    }

    pub(super) fn was_sent(&self) -> bool {
        self.appends > 0
    }

    pub(super) fn retries(&self) -> u64 {
        self.appends.saturating_sub(1)
    }

    /// A transaction sent at `began` has no answer yet.
    pub(super) fn not_answered_yet(&mut self, began: MonoTime) {
        self.trouble.not_answered_yet(began);
    }

    /// A transaction was answered, or its outcome is unknown.
    pub(super) fn on_append(&mut self, answer: &Result<TxnOutcome, KvError>, at: Moment<'_>) -> Action {
        self.appends += 1;
        match answer {
            Ok(TxnOutcome::Committed) => Action::Committed,
            Ok(TxnOutcome::CompareFailed) => {
                let why = "the durable prefix is not the one this writer left; reading it again";
                self.trouble.on_failed_compare(why);
                Action::ReadPrefix
            }
            Err(e) if e.is_unknown() => {
                self.unknown = true;
                let within = self.trouble.on_unknown(e, at.began, at.now);
                self.if_within(within).unwrap_or(Action::ReadPrefix)
            }
            Err(e) => self.on_refusal(e, at),
        }
    }

    fn on_refusal(&mut self, e: &KvError, at: Moment<'_>) -> Action {
        self.trouble.on_refusal(e);
        match (e.kind, e.class()) {
            (KvErrorKind::TooLarge, _) if !self.unknown && self.entries > 1 => Action::Cut,
            (_, ErrorClass::Permanent) => Action::End(permanent(e), self.fate()),
            (_, ErrorClass::Transient | ErrorClass::Operator) => self.pause(at, Then::Append),
        }
    }

    /// The prefix was read, or could not be.
    pub(super) fn on_prefix(&mut self, read: &Result<Option<DurablePrefix>, LogError>, at: Moment<'_>) -> Action {
        let found = match read {
            Ok(found) => found.as_ref(),
            Err(LogError::Store(e)) => return self.on_failed_read(e, at, Then::ReadPrefix),
            Err(e @ (LogError::Fault(_) | LogError::Refused(_))) => return self.doubt(e.to_string(), at),
        };
        match judge_append(&self.expected, &self.new, found) {
            AppendVerdict::Committed => Action::Committed,
            AppendVerdict::Resend => {
                self.doubted = false;
                self.pause(at, Then::Append)
            }
            AppendVerdict::FencedNever => self.fenced(found, Some(Outcome::Never)),
            AppendVerdict::FencedReadBatch => self.fenced(found, None),
            AppendVerdict::Corrupt => {
                let found = found.map_or_else(|| "no prefix".into(), DurablePrefix::encode);
                self.doubt(format!("expected the prefix {:?}, found {found:?}", self.expected.encode()), at)
            }
        }
    }

    fn fenced(&mut self, found: Option<&DurablePrefix>, batch: Option<Outcome>) -> Action {
        let found = *found.expect("the rule that fences needs a prefix");
        self.fenced_by = Some(found);
        self.trouble.failed(Closed::Prefix, Terminal::Fenced { found }.to_string());
        batch.map_or(Action::ReadBatch, |batch| Action::End(Terminal::Fenced { found }, batch))
    }

    /// Who fenced this batch; the writer has ended, and only the batch's own fate is open.
    pub(super) fn fenced_by(&self) -> Option<DurablePrefix> {
        self.fenced_by
    }

    fn doubt(&mut self, reason: String, at: Moment<'_>) -> Action {
        if self.doubted {
            return Action::End(Terminal::Corrupt { reason }, self.fate());
        }
        self.doubted = true;
        self.trouble.failed(Closed::Prefix, reason);
        self.pause(at, Then::ReadPrefix)
    }

    /// The record at our id was read: the epoch inside it, if it is there, readable and has one.
    pub(super) fn on_stored(&mut self, read: &Result<Option<Epoch>, KvError>, at: Moment<'_>) -> Action {
        let found = self.fenced_by.expect("the stored record is read by the fenced only");
        let end = |batch| Action::End(Terminal::Fenced { found }, batch);
        match read {
            Ok(stored) => end(judge_stored_batch(self.expected.epoch, *stored)),
            Err(e) => {
                self.batch_reads += 1;
                if e.class() == ErrorClass::Permanent || self.batch_reads >= STORED_BATCH_READS {
                    return end(Outcome::Unknown);
                }
                match self.on_failed_read(e, at, Then::ReadBatch) {
                    Action::End(..) => end(Outcome::Unknown),
                    action => action,
                }
            }
        }
    }

    fn on_failed_read(&mut self, e: &KvError, at: Moment<'_>, then: Then) -> Action {
        let within = self.trouble.on_failed_read(e, at.began, at.now);
        match e.class() {
            ErrorClass::Permanent => Action::End(permanent(e), self.fate()),
            ErrorClass::Operator | ErrorClass::Transient => {
                self.if_within(within).unwrap_or_else(|| self.pause(at, then))
            }
        }
    }

    /// The pause is over.
    pub(super) fn on_pause_over(&mut self, then: Then, now: MonoTime) -> Action {
        let within = self.trouble.on_pause_over(now);
        self.if_within(within).unwrap_or_else(|| then.into())
    }

    /// The budget ran out, or the writer is stopped, while `sent` (a transaction) was or was not without its answer.
    pub(super) fn interrupt(&mut self, terminal: Terminal, sent: bool) -> Action {
        self.unknown |= sent;
        match self.fenced_by {
            Some(found) => Action::End(Terminal::Fenced { found }, Outcome::Unknown),
            None => Action::End(terminal, self.fate()),
        }
    }

    /// What became of the batch if nothing more is heard.
    fn fate(&self) -> Outcome {
        if self.unknown { Outcome::Unknown } else { Outcome::Never }
    }

    /// `None` to go on, or the end.
    fn if_within(&self, budget: Result<(), OutOfBudget>) -> Option<Action> {
        budget.err().map(|OutOfBudget| Action::End(Terminal::RetryBudget, self.fate()))
    }

    fn pause(&mut self, at: Moment<'_>, then: Then) -> Action {
        Action::Pause(self.backoff.next_pause(at.entropy), then)
    }
}

/// The end that an error means which no retry cures.
fn permanent(e: &KvError) -> Terminal {
    let reason = e.to_string();
    if is_damage(e) { Terminal::Corrupt { reason } } else { Terminal::Rejected { reason } }
}
