//! Owns the writer's task: one group after the other, each until it is decided. What a reading means is `judge`'s.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{ErrorClass, KvError, KvErrorKind, TxnOutcome};
use ha_types::{Backoff, Seq};

use super::LegacyTerminal;
use super::group::{Group, Pending};
use super::judge::{Reading, Sent, Verdict, judge};
use super::shared::Shared;
use crate::legacy::base_of;
use crate::{BatchStorage, DurablePrefix, LogError, Outcome};

/// How long a transaction on its way is waited for once the writer is stopped.
const STOP_GRACE: Duration = Duration::from_millis(50);

pub(super) struct Driver {
    shared: Arc<Shared>,
    /// What this writer left in `latest`.
    latest: Option<Bytes>,
    /// Most entries of a group: lowered for good by a server that calls one too large.
    most: usize,
    pauses: Backoff,
    ended: bool,
}

/// How a group came to its end.
enum End {
    Committed,
    /// Cut in two; the rest is back in line.
    Cut,
    Terminal(LegacyTerminal, Vec<Outcome>),
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.ended {
            // The runtime went away under it.
            self.shared.end(Vec::new(), LegacyTerminal::Shutdown);
        }
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, latest: Option<Bytes>) -> Self {
        let (most, config) = (shared.limits().entries, &shared.config);
        let pauses = Backoff::new(config.retry_min, config.retry_max);
        Self { shared, latest, most, pauses, ended: false }
    }

    pub(super) async fn run(mut self) {
        while let Some(pending) = self.next().await {
            let mut group = Group { pending, expected: self.latest.clone(), unknown: false };
            loop {
                match self.write(&mut group).await {
                    End::Cut => {}
                    End::Committed => {
                        self.latest = Some(group.new_latest());
                        self.pauses.reset();
                        self.shared.durable(group.pending);
                        break;
                    }
                    End::Terminal(terminal, outcomes) => {
                        let mut last = group.pending;
                        last.iter_mut().zip(outcomes).for_each(|(pending, outcome)| pending.waiter.set(outcome));
                        return self.end(last, terminal);
                    }
                }
            }
        }
        self.end(Vec::new(), LegacyTerminal::Shutdown);
    }

    fn end(&mut self, last: Vec<Pending>, terminal: LegacyTerminal) {
        tracing::warn!(%terminal, "the writer of the legacy log has ended");
        self.ended = true;
        self.shared.end(last, terminal);
    }

    /// The next entries; `None` once the writer was stopped, or nobody holds it and nothing waits.
    async fn next(&self) -> Option<Vec<Pending>> {
        loop {
            // Asked first: while entries keep coming there is always something to send.
            if self.shared.is_stopped() {
                return None;
            }
            // Asked before the line is looked at: what is committed before the last handle goes is still written.
            let orphaned = self.shared.is_orphaned();
            let pending = self.shared.take(self.most);
            if !pending.is_empty() {
                return Some(pending);
            }
            if orphaned {
                return None;
            }
            tokio::select! {
                () = self.shared.wake.notified() => {}
                () = self.shared.stopped() => return None,
            }
        }
    }

    /// Sends one transaction until it is decided.
    async fn write(&mut self, group: &mut Group) -> End {
        let keys = self.shared.log.keys().clone();
        let txn = group.txn(&keys);
        group.pending.iter_mut().for_each(|pending| pending.waiter.set(Outcome::Unknown));
        loop {
            let Some(answer) = self.unless_stopped(STOP_GRACE, self.shared.log.kv().txn(&txn)).await else {
                return all(group, LegacyTerminal::Shutdown, Outcome::Unknown);
            };
            match answer {
                Ok(TxnOutcome::Committed) => return End::Committed,
                // L7: a group that did not commit at once keeps admission closed, whatever the reading will say.
                Ok(TxnOutcome::CompareFailed) => self.shared.trouble(
                    "something that the transaction compares is not as this writer left it; reading it again".into(),
                ),
                Err(error) if error.is_unknown() => {
                    group.unknown = true;
                    self.shared.trouble(error.to_string());
                }
                Err(error) => {
                    if let Some(end) = self.refused(group, &error) {
                        return end;
                    }
                    if !self.pause().await {
                        return stopped(group);
                    }
                    continue;
                }
            }
            match self.decide(group).await {
                Ok(()) if self.pause().await => {}
                Ok(()) => return stopped(group),
                Err(end) => return end,
            }
        }
    }

    /// A refusal: nothing of this attempt was or will be applied. `None` if it may be sent again.
    fn refused(&mut self, group: &mut Group, error: &KvError) -> Option<End> {
        if error.kind == KvErrorKind::TooLarge && !group.unknown && group.pending.len() > 1 {
            self.most = group.pending.len() / 2;
            self.shared.put_back(group.pending.split_off(self.most));
            return Some(End::Cut);
        }
        if error.class() == ErrorClass::Permanent {
            let reason = error.to_string();
            return Some(all(group, LegacyTerminal::Rejected { reason }, undecided(group)));
        }
        self.shared.trouble(error.to_string());
        None
    }

    /// Finds out what became of the group by reading; `Ok` if it is to be sent again.
    async fn decide(&mut self, group: &mut Group) -> Result<(), End> {
        let first = group.pending.first().map_or(Seq::ZERO, |pending| pending.entry.seq);
        let values: Vec<Bytes> = group.pending.iter().map(|pending| pending.value.clone()).collect();
        let (last, count) = (group.last(), values.len());
        let sent = Sent { first, values, expected: group.expected.clone(), unknown: group.unknown };
        let mut doubted = false;
        loop {
            let Some(reading) = self.unless_stopped(Duration::ZERO, self.read(first, last, count)).await else {
                return Err(stopped(group));
            };
            match reading {
                Ok(reading) => match judge(&sent, &reading) {
                    Verdict::Committed => return Err(End::Committed),
                    Verdict::Resend => return Ok(()),
                    Verdict::Ended(outcomes) => return Err(End::Terminal(self.why(group, &reading), outcomes)),
                    Verdict::Doubtful(outcomes) if doubted => {
                        return Err(End::Terminal(self.why(group, &reading), outcomes));
                    }
                    // What was read between two writes is no verdict.
                    Verdict::Doubtful(_) => doubted = true,
                },
                Err(LogError::Store(error)) if error.class() != ErrorClass::Permanent => {
                    self.shared.trouble(error.to_string());
                }
                Err(error) => {
                    let reason = error.to_string();
                    return Err(all(group, LegacyTerminal::Corrupt { reason }, undecided(group)));
                }
            }
            if !self.pause().await {
                return Err(stopped(group));
            }
        }
    }

    /// Prefix, then `latest`, then the `count` entries from `first` to `last`: the order is what `judge` rests on.
    async fn read(&self, first: Seq, last: Seq, count: usize) -> Result<Reading, LogError> {
        let log = &self.shared.log;
        let prefix = match log.read_prefix().await? {
            None => None,
            Some(prefix) => Some((prefix, self.base(&prefix).await?)),
        };
        let latest = log.kv().get(&log.keys().legacy_latest()).await?;
        let mut stored: Vec<Option<Bytes>> = vec![None; count];
        let before = Seq::new(first.get().saturating_sub(1));
        let mut scan = log.scan(before, last, self.shared.limits().bytes);
        loop {
            let page = scan.next_page().await?;
            if page.is_empty() {
                return Ok(Reading { prefix, latest, stored });
            }
            for (seq, value) in page {
                let at = usize::try_from(seq.distance_from(first)).ok();
                if let Some(slot) = at.and_then(|at| stored.get_mut(at)) {
                    *slot = Some(value);
                }
            }
        }
    }

    /// The base, or `None` if only a snapshot could tell.
    async fn base(&self, prefix: &DurablePrefix) -> Result<Option<Seq>, LogError> {
        let log = &self.shared.log;
        let storage = BatchStorage::open_for_reading(Arc::clone(log.kv()), log.keys().clone());
        match base_of(&storage, prefix).await {
            Ok(base) => Ok(Some(base)),
            Err(LogError::Fault(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Who else was here: the key that gave it away.
    fn why(&self, group: &Group, reading: &Reading) -> LegacyTerminal {
        if let Some((found, _)) = reading.prefix {
            return LegacyTerminal::Fenced { found };
        }
        let shown = |value: Option<&Bytes>| match value {
            Some(value) => format!("\"{}\"", crate::legacy::entry::excerpt(value)),
            None => "no such key".to_owned(),
        };
        let taken = group
            .pending
            .iter()
            .zip(&reading.stored)
            .find(|(mine, found)| found.as_ref().is_some_and(|found| *found != mine.value));
        let (key, expected, found) = match taken {
            Some((mine, found)) => (mine.key.clone(), shown(None), shown(found.as_ref())),
            None => {
                let latest = self.shared.log.keys().legacy_latest();
                (latest, shown(group.expected.as_ref()), shown(reading.latest.as_ref()))
            }
        };
        LegacyTerminal::OtherWriter { key: key.escape_ascii().to_string(), expected, found }
    }

    /// `false` once the writer was stopped.
    async fn pause(&mut self) -> bool {
        let pause = self.pauses.next_pause(&*self.shared.env.entropy);
        self.unless_stopped(Duration::ZERO, tokio::time::sleep(pause)).await.is_some()
    }

    /// `None` once the writer was stopped and `grace` has passed.
    async fn unless_stopped<T>(&self, grace: Duration, work: impl Future<Output = T>) -> Option<T> {
        let stopped = async {
            self.shared.stopped().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            biased;
            done = work => Some(done),
            () = stopped => None,
        }
    }
}

fn all(group: &Group, terminal: LegacyTerminal, outcome: Outcome) -> End {
    End::Terminal(terminal, vec![outcome; group.pending.len()])
}

fn stopped(group: &Group) -> End {
    all(group, LegacyTerminal::Shutdown, undecided(group))
}

/// What is true of a group that nobody will send again.
fn undecided(group: &Group) -> Outcome {
    if group.unknown { Outcome::Unknown } else { Outcome::Never }
}
