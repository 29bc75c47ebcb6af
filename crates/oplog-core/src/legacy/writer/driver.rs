//! Owns the writer's task: one group after the other, each until it is decided. What a reading means is `judge`'s.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{ErrorClass, KvError, KvErrorKind, TxnOutcome};
use ha_types::{Backoff, MonoTime, Seq};

use super::LegacyTerminal;
use super::group::{Group, Pending};
use super::judge::{Reading, Sent, Verdict, judge};
use super::look::look;
use super::queue::Next;
use super::shared::Shared;
use crate::sync::{sleep, timeout};
use crate::writer::patience::{Patience, Waited};
use crate::writer::trouble::{OutOfBudget, Trouble, is_damage};
use crate::{Closed, LogError, Outcome};

/// How long a transaction on its way is waited for once the writer is stopped.
const STOP_GRACE: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    shared: Arc<Shared>,
    /// What this writer left in `latest`.
    latest: Option<Bytes>,
    /// Most entries of a group: lowered for good by a server that calls one too large.
    most: usize,
    /// The group on its way. It is here, and not in the task's own frame, so that however the task goes those who wait for it are told
    /// after those who waited before them.
    flying: Option<Group>,
    /// The stop signal was seen.
    stopping: bool,
    ended: bool,
}

/// How a writer ends, and what became of the group on its way: of each entry, or of all alike.
struct End {
    terminal: LegacyTerminal,
    fate: Fate,
}

enum Fate {
    All(Outcome),
    Each(Vec<Outcome>),
}

/// What follows a refusal.
enum Refused {
    SendAgain,
    Cut,
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.ended {
            // The runtime went away under it, or it panicked.
            let fate = Fate::All(self.flying.as_ref().map_or(Outcome::Never, Group::fate));
            self.end(End { terminal: LegacyTerminal::Shutdown, fate });
        }
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, latest: Option<Bytes>) -> Self {
        let most = shared.limits().entries;
        Self { shared, latest, most, flying: None, stopping: false, ended: false }
    }

    pub(super) async fn run(mut self) {
        while let Some(pending) = self.next().await {
            let trouble = Trouble::new(self.shared.config.retry_budget);
            self.flying = Some(Group { pending, expected: self.latest.clone(), unknown: false, sent: false, trouble });
            if let Err(end) = self.fly().await {
                return self.end(end);
            }
            let Some(group) = self.flying.take() else { return };
            self.latest = Some(group.new_latest());
            self.shared.durable(group.pending);
        }
        self.end(End { terminal: LegacyTerminal::Shutdown, fate: Fate::All(Outcome::Never) });
    }

    fn end(&mut self, End { terminal, fate }: End) {
        match terminal {
            // What its owner asked for is no alarm.
            LegacyTerminal::Shutdown => tracing::info!("the writer of the legacy log was shut down"),
            _ => tracing::warn!(%terminal, "the writer of the legacy log has ended"),
        }
        self.ended = true;
        let pending = self.flying.take().map(|group| group.pending).unwrap_or_default();
        let outcomes = match fate {
            Fate::All(outcome) => vec![outcome; pending.len()],
            Fate::Each(outcomes) => outcomes,
        };
        self.shared.end(pending.into_iter().zip(outcomes).collect(), terminal);
    }

    /// The next entries; `None` once the writer was stopped, or nobody holds it and nothing waits.
    async fn next(&mut self) -> Option<Vec<Pending>> {
        loop {
            match self.shared.next(self.most) {
                Next::Entries(pending) => return Some(pending),
                Next::Over => return None,
                Next::Nothing => self.shared.work.notified().await,
            }
        }
    }

    fn group(&mut self) -> &mut Group {
        self.flying.as_mut().expect("a group is on its way")
    }

    /// Sends the group's transaction until it is durable.
    async fn fly(&mut self) -> Result<(), End> {
        let keys = self.shared.log.keys().clone();
        let (min, max) = (self.shared.config.retry_min, self.shared.config.retry_max);
        let mut backoff = Backoff::new(min, max);
        let mut txn = self.group().txn(&keys);
        loop {
            let (log, began) = (self.shared.log.clone(), self.shared.now());
            self.group().sent = true;
            let answer = self.ask(log.kv().txn(&txn), began, true).await?;
            let now = self.shared.now();
            let group = self.group();
            group.sent = false;
            match answer {
                Ok(TxnOutcome::Committed) => return Ok(()),
                // L7: a group that did not commit at once keeps admission closed, whatever the reading will say.
                Ok(TxnOutcome::CompareFailed) => {
                    let why = "something that the transaction compares is not as this writer left it; reading it again";
                    group.trouble.on_failed_compare(why);
                }
                Err(error) if error.is_unknown() => {
                    group.unknown = true;
                    let within = group.trouble.on_unknown(&error, began, now);
                    self.if_within(within)?;
                }
                Err(error) => {
                    match self.refused(&error)? {
                        Refused::Cut => txn = self.group().txn(&keys),
                        Refused::SendAgain => self.pause(&mut backoff).await?,
                    }
                    continue;
                }
            }
            self.show_trouble();
            if self.decide(&mut backoff).await? {
                return Ok(());
            }
            self.pause(&mut backoff).await?;
        }
    }

    /// A refusal: nothing of this attempt was or will be applied.
    fn refused(&mut self, error: &KvError) -> Result<Refused, End> {
        let group = self.group();
        group.trouble.on_refusal(error);
        let half = group.pending.len() / 2;
        if error.kind == KvErrorKind::TooLarge && !group.unknown && half > 0 {
            let rest = group.pending.split_off(half);
            self.most = half;
            self.shared.put_back(rest);
            self.show_trouble();
            return Ok(Refused::Cut);
        }
        self.show_trouble();
        match error.class() {
            ErrorClass::Permanent => Err(self.ends(permanent(error))),
            ErrorClass::Transient | ErrorClass::Operator => Ok(Refused::SendAgain),
        }
    }

    /// Finds out what became of the group by reading: whether it is durable, or is to be sent again.
    async fn decide(&mut self, backoff: &mut Backoff) -> Result<bool, End> {
        let group = self.group();
        let first = group.pending.first().map_or(Seq::ZERO, |pending| pending.entry.seq);
        let values: Vec<Bytes> = group.pending.iter().map(|pending| pending.value.clone()).collect();
        let (last, count) = (group.last(), values.len());
        let sent = Sent { first, values, expected: group.expected.clone(), unknown: group.unknown };
        let mut doubted = false;
        loop {
            let (shared, began) = (Arc::clone(&self.shared), self.shared.now());
            let reading = self.ask(look(&shared, first, last, count), began, false).await?;
            let now = self.shared.now();
            // What was read between two writes, or in one damaged reply, is no verdict.
            let doubt = match reading {
                Ok(reading) => match judge(&sent, &reading) {
                    Verdict::Committed => return Ok(true),
                    Verdict::Resend => return Ok(false),
                    Verdict::Ended(outcomes) => {
                        return Err(End { terminal: self.why(&reading), fate: Fate::Each(outcomes) });
                    }
                    Verdict::Doubtful(outcomes) => End { terminal: self.why(&reading), fate: Fate::Each(outcomes) },
                },
                Err(LogError::Store(error)) => {
                    let within = self.group().trouble.on_failed_read(&error, began, now);
                    if error.class() == ErrorClass::Permanent {
                        return Err(self.ends(permanent(&error)));
                    }
                    self.if_within(within)?;
                    self.show_trouble();
                    self.pause(backoff).await?;
                    continue;
                }
                Err(error @ (LogError::Fault(_) | LogError::Refused(_))) => {
                    self.ends(LegacyTerminal::Corrupt { reason: error.to_string() })
                }
            };
            if std::mem::replace(&mut doubted, true) {
                return Err(doubt);
            }
            self.group().trouble.failed(Closed::Prefix, doubt.terminal.to_string());
            self.show_trouble();
            self.pause(backoff).await?;
        }
    }

    /// Who else was here: the key that gave it away.
    fn why(&self, reading: &Reading) -> LegacyTerminal {
        if let Some((found, _)) = reading.prefix {
            return LegacyTerminal::Fenced { found };
        }
        let shown = |value: Option<&Bytes>| match value {
            Some(value) => format!("\"{}\"", crate::legacy::entry::excerpt(value)),
            None => "no such key".to_owned(),
        };
        let group = self.flying.as_ref();
        let pending = group.map_or(&[][..], |group| &group.pending);
        let taken = pending
            .iter()
            .zip(&reading.stored)
            .find(|(mine, found)| found.as_ref().is_some_and(|found| *found != mine.value));
        let (key, expected, found) = match taken {
            Some((mine, found)) => (mine.key.clone(), shown(None), shown(found.as_ref())),
            None => {
                let latest = self.shared.log.keys().legacy_latest();
                (latest, shown(group.and_then(|group| group.expected.as_ref())), shown(reading.latest.as_ref()))
            }
        };
        LegacyTerminal::OtherWriter { key: key.escape_ascii().to_string(), expected, found }
    }

    /// Awaits the answer of a request sent at `began`, as long as the budget and the stop allow.
    async fn ask<T>(&mut self, request: impl Future<Output = T>, began: MonoTime, transaction: bool) -> Result<T, End> {
        let mut request = pin!(request);
        let answer_by = self.group().trouble.answer_by(began);
        let mut patience = Patience::new(began, transaction, answer_by);
        let shared = Arc::clone(&self.shared);
        while !self.stopping {
            tokio::select! {
                biased;
                waited = patience.wait(request.as_mut(), &*shared.env.clock) => match waited {
                    Waited::Answer(answer) => return Ok(answer),
                    Waited::OutOfBudget => return Err(self.ends(LegacyTerminal::RetryBudget)),
                    Waited::Noticed => {
                        self.group().trouble.not_answered_yet(began);
                        self.show_trouble();
                    }
                },
                () = shared.stop.notified() => self.stopping = true,
            }
        }
        timeout(STOP_GRACE, request).await.map_err(|_| self.ends(LegacyTerminal::Shutdown))
    }

    async fn pause(&mut self, backoff: &mut Backoff) -> Result<(), End> {
        let pause = backoff.next_pause(&*self.shared.env.entropy);
        // A stop that was noticed while a request was in flight is not told a second time.
        self.stopping = self.stopping
            || tokio::select! {
                biased;
                () = self.shared.stop.notified() => true,
                () = sleep(pause) => false,
            };
        if self.stopping {
            return Err(self.ends(LegacyTerminal::Shutdown));
        }
        let now = self.shared.now();
        let within = self.group().trouble.on_pause_over(now);
        self.if_within(within)
    }

    fn show_trouble(&self) {
        if let Some(group) = &self.flying {
            self.shared.trouble(&group.trouble);
        }
    }

    fn if_within(&self, budget: Result<(), OutOfBudget>) -> Result<(), End> {
        budget.map_err(|OutOfBudget| self.ends(LegacyTerminal::RetryBudget))
    }

    /// The end, with what is true of a group that nobody will send again.
    fn ends(&self, terminal: LegacyTerminal) -> End {
        // The last word about the group is shown with the end.
        self.show_trouble();
        End { terminal, fate: Fate::All(self.flying.as_ref().map_or(Outcome::Never, Group::fate)) }
    }
}

/// The end that an error means which no retry cures.
fn permanent(error: &KvError) -> LegacyTerminal {
    let reason = error.to_string();
    if is_damage(error) { LegacyTerminal::Corrupt { reason } } else { LegacyTerminal::Rejected { reason } }
}
