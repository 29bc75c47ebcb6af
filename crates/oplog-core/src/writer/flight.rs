//! Owns the fate of one batch: answers of the store in, the next step out (RFC batch record §§10–11, design §3.1). No clock, no
//! I/O, no runtime; it never sees the record's bytes.

#[cfg(any(test, feature = "proof"))]
pub(crate) mod proof;

use std::time::Duration;

use ha_kv::{ErrorClass, KvError, KvErrorKind, TxnOutcome};
use ha_types::{Backoff, Entropy, Epoch, MonoTime};

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
    budget: Option<Duration>,
    /// Time without an answer to a transaction so far.
    spent: Duration,
    /// Set while the time since then is without an answer.
    counting_from: Option<MonoTime>,
    /// An attempt may have been applied, or may yet be.
    unknown: bool,
    appends: u64,
    /// The prefix was read once as rule 4 has it.
    doubted: bool,
    fenced_by: Option<DurablePrefix>,
    batch_reads: u32,
    unanswered_since: Option<MonoTime>,
    /// The first failure, in words: the cause.
    cause: Option<String>,
    /// The last one, if it says something else.
    lately: Option<String>,
    /// The last failure, for programs.
    closed: Option<Closed>,
}

impl Flight {
    pub(super) fn new(expected: DurablePrefix, new: DurablePrefix, entries: usize, config: &WriterConfig) -> Self {
        Self {
            expected,
            new,
            entries,
            backoff: Backoff::new(config.oplog_retry_min, config.oplog_retry_max),
            budget: config.oplog_retry_budget,
            spent: Duration::ZERO,
            counting_from: None,
            unknown: false,
            appends: 0,
            doubted: false,
            fenced_by: None,
            batch_reads: 0,
            unanswered_since: None,
            cause: None,
            lately: None,
            closed: None,
        }
    }

    /// Why the batch is not durable yet: the first cause, and the last one beside it. `None` before the first failure.
    pub(super) fn failure(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        Some(self.lately.as_ref().map_or_else(|| cause.clone(), |lately| format!("{cause}; lately: {lately}")))
    }

    /// The last failure, for programs. `None` before the first.
    pub(super) fn closed(&self) -> Option<Closed> {
        self.closed
    }

    fn failed(&mut self, closed: Closed, why: String) {
        self.closed = Some(closed);
        match &self.cause {
            None => self.cause = Some(why),
            Some(cause) => self.lately = (why != *cause).then_some(why),
        }
    }

    pub(super) fn unanswered_since(&self) -> Option<MonoTime> {
        self.unanswered_since
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

    /// By when the store must have answered a request sent at `now`, or the budget is used up.
    pub(super) fn answer_by(&self, now: MonoTime) -> Option<MonoTime> {
        Some(now.saturating_add(self.budget?.saturating_sub(self.spent)))
    }

    /// A transaction sent at `began` has no answer yet: until one comes, it may have been applied.
    pub(super) fn not_answered_yet(&mut self, began: MonoTime) {
        self.unanswered_since.get_or_insert(began);
    }

    /// A transaction was answered, or its outcome is unknown.
    pub(super) fn on_append(&mut self, answer: &Result<TxnOutcome, KvError>, at: Moment<'_>) -> Action {
        self.appends += 1;
        match answer {
            Ok(TxnOutcome::Committed) => Action::Committed,
            Ok(TxnOutcome::CompareFailed) => {
                self.answered();
                self.failed(
                    Closed::Prefix,
                    "the durable prefix is not the one this writer left; reading it again".into(),
                );
                Action::ReadPrefix
            }
            Err(e) if e.is_unknown() && e.class() == ErrorClass::Operator => {
                // The store said so itself, so it is not silent; and yet it may have applied what it complains about.
                self.unknown = true;
                self.answered();
                self.failed(Closed::Store(e.kind), e.to_string());
                Action::ReadPrefix
            }
            Err(e) if e.is_unknown() => {
                self.unknown = true;
                self.unanswered_since.get_or_insert(at.began);
                self.failed(Closed::Store(e.kind), e.to_string());
                self.unanswered(at).unwrap_or(Action::ReadPrefix)
            }
            Err(e) => self.on_refusal(e, at),
        }
    }

    fn on_refusal(&mut self, e: &KvError, at: Moment<'_>) -> Action {
        self.failed(Closed::Store(e.kind), e.to_string());
        if matches!(e.kind, KvErrorKind::Unavailable | KvErrorKind::Timeout) {
            // Not applied, and not said by the store either: it neither starts nor ends the time without an answer.
            self.counting_from = None;
        } else {
            self.answered();
        }
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
        self.failed(Closed::Prefix, Terminal::Fenced { found }.to_string());
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
        self.failed(Closed::Prefix, reason);
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
        self.failed(Closed::Store(e.kind), e.to_string());
        match e.class() {
            ErrorClass::Permanent => Action::End(permanent(e), self.fate()),
            ErrorClass::Operator => {
                self.counting_from = None;
                self.pause(at, then)
            }
            ErrorClass::Transient => self.unanswered(at).unwrap_or_else(|| self.pause(at, then)),
        }
    }

    /// The pause is over.
    pub(super) fn on_pause_over(&mut self, then: Then, now: MonoTime) -> Action {
        if let Some(from) = self.counting_from {
            self.spent += now.saturating_since(from);
            self.counting_from = Some(now);
        }
        self.over_budget().unwrap_or_else(|| then.into())
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

    fn answered(&mut self) {
        self.unanswered_since = None;
        self.counting_from = None;
    }

    fn unanswered(&mut self, at: Moment<'_>) -> Option<Action> {
        self.spent += at.now.saturating_since(self.counting_from.unwrap_or(at.began).max(at.began));
        self.counting_from = Some(at.now);
        self.over_budget()
    }

    fn over_budget(&self) -> Option<Action> {
        let over = self.budget.is_some_and(|budget| self.spent >= budget);
        over.then(|| Action::End(Terminal::RetryBudget, self.fate()))
    }

    fn pause(&mut self, at: Moment<'_>, then: Then) -> Action {
        Action::Pause(self.backoff.next_pause(at.entropy), then)
    }
}

/// The end that an error means which no retry cures.
fn permanent(e: &KvError) -> Terminal {
    let reason = e.to_string();
    match e.kind {
        KvErrorKind::Corrupt | KvErrorKind::WrongStore => Terminal::Corrupt { reason },
        _ => Terminal::Rejected { reason },
    }
}
