//! Owns the writer of the legacy log: its handle, and what it takes to start one. What is written and judged is its modules'.

mod config;
mod driver;
mod error;
pub(crate) mod group;
pub(crate) mod judge;
mod look;
mod queue;
mod shared;
mod status;
mod waiter;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ha_types::Seq;
use tokio::sync::oneshot;

use self::driver::Driver;
use self::group::Limits;
use self::shared::{Held, Shared};
use self::waiter::Waiter;
use super::latest::parse_latest;
use super::{LegacyEntry, LegacyLog, LegacyReplica, TailMiss};
use crate::sync::{Runtime, timeout, watch};
use crate::writer::notifier::Callback;
use crate::{BatchStorage, FaultKind, LogError, NewEntry, Outcome, ReplayFault, StateMachine, WriterEnv};

pub use config::LegacyWriterConfig;
pub use error::{LegacyCommitError, LegacyStartError, LegacyStartFailed, LegacyTerminal};
pub use status::LegacyWriterStatus;

/// Writes the legacy log, for the time in which readers were upgraded and the primary not yet (design §3.4).
///
/// What is committed while one transaction is on its way forms the next: many entries, and `latest`, which is therefore exact. Each
/// transaction compares that there is *no durable prefix*, so the cutover fences it; that `latest` is what this writer left, so
/// another writer of ours fences it; and that its entries are absent, so no entry is ever overwritten. It never writes a batch.
///
/// The original's writer compares nothing and cannot be fenced: it must have been stopped.
///
/// Clones are handles of one writer. Once the last one is dropped, what was committed is still written, and the writer ends.
#[derive(Clone)]
pub struct LegacyWriter {
    handle: Arc<Held>,
}

impl LegacyWriter {
    /// Starts a writer behind a state that equals the log, and gives the state's machine. Needs a running runtime.
    ///
    /// # Errors
    /// [`LegacyStartFailed`] with the replica: settings that do not fit the store; a log that was cut over; entries or a `latest` that the
    /// state has not applied; a `latest` that is no number, or is missing beside entries; the store did not answer.
    ///
    /// # Cancel safety
    /// Safe up to the return: it only reads. The replica is dropped with the future.
    pub async fn start<S: StateMachine>(
        storage: &BatchStorage,
        replica: LegacyReplica<S>,
        config: LegacyWriterConfig,
        env: WriterEnv,
    ) -> Result<(S, Self), Box<LegacyStartFailed<S>>> {
        let log = LegacyLog::beside(storage);
        let checked = async {
            let limits = Limits::new(storage, &config)?;
            Ok((limits, check_caught_up(&log, replica.applied()).await?))
        };
        let (limits, latest) = match checked.await {
            Ok(checked) => checked,
            Err(error) => return Err(Box::new(LegacyStartFailed { replica, error })),
        };
        let (machine, key_sequences) = replica.into_parts();
        let last = machine.last_applied();
        let shared = Shared::new(last, key_sequences, config, limits, env, log);
        Runtime::current().spawn(Driver::new(Arc::clone(&shared), latest).run());
        Ok((machine, Self { handle: Arc::new(Held(shared)) }))
    }

    /// Gives the entry the next sequence and puts it in line; a ticket says what becomes of it. It waits for nothing but a short
    /// lock, and runs no callback.
    ///
    /// # Errors
    /// [`LegacyCommitError`]; no sequence was used.
    pub fn commit(&self, entry: NewEntry<'_>) -> Result<LegacyTicket, LegacyCommitError> {
        let (told, outcome) = oneshot::channel();
        let seq = self.handle.0.commit(&entry, Waiter::Ticket(told))?;
        Ok(LegacyTicket { seq, outcome })
    }

    /// As [`Self::commit`], but calls `callback` exactly once, in the order of sequences, outside all locks.
    ///
    /// # Errors
    /// As [`Self::commit`]; the callback is dropped and not called.
    pub fn commit_with(
        &self,
        entry: NewEntry<'_>,
        callback: impl FnOnce(Seq, Outcome) + Send + 'static,
    ) -> Result<Seq, LegacyCommitError> {
        self.handle.0.commit(&entry, Waiter::Callback(Callback::new(callback)))
    }

    /// The durable entries after `since` that are still in memory, at most `limit` (RFC hot standby §3.1).
    ///
    /// # Errors
    /// [`TailMiss`] if they are not all in memory: read the store.
    pub fn entries_since(&self, since: Seq, limit: usize) -> Result<Vec<Arc<LegacyEntry>>, TailMiss> {
        self.handle.0.entries_since(since, limit)
    }

    /// What anyone may watch: whether entries are taken and why not, what is durable, and how it ended.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<LegacyWriterStatus> {
        self.handle.0.status()
    }

    /// Takes no further entry, and waits until those that were taken are decided, at most for `within`. Gives how many are not. The
    /// writer stays fenced off from new entries either way.
    ///
    /// # Cancel safety
    /// Safe: admission stays closed.
    pub async fn drain(&self, within: Duration) -> usize {
        self.handle.0.refuse_more();
        let mut status = self.status();
        // The sender lives as long as this handle, so the wait fails by time only.
        let _ = timeout(within, status.wait_for(|s| s.undecided == 0)).await;
        self.status().borrow().undecided
    }

    /// Ends the writer: a transaction on its way is given 50 ms for its answer, what was not sent never will be. Returns once every
    /// entry is decided; callbacks may still run.
    ///
    /// # Cancel safety
    /// Safe: the writer ends all the same.
    pub async fn stop(&self) -> LegacyTerminal {
        self.handle.0.stop();
        let mut status = self.status();
        let ended = status.wait_for(|s| s.terminal.is_some() && s.undecided == 0).await;
        ended.ok().and_then(|s| s.terminal.clone()).unwrap_or(LegacyTerminal::Shutdown)
    }
}

impl fmt::Debug for LegacyWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacyWriter").field("status", &*self.status().borrow()).finish_non_exhaustive()
    }
}

/// The place of a committed entry, and a future of its [`Outcome`].
///
/// # Cancel safety
/// Dropping it drops nothing but the knowledge.
#[must_use = "a ticket says whether the entry became durable; drop it in so many words if nobody wants to know"]
#[derive(Debug)]
pub struct LegacyTicket {
    seq: Seq,
    outcome: oneshot::Receiver<Outcome>,
}

impl LegacyTicket {
    /// The entry's sequence.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Blocks this thread; not for async code.
    pub fn wait(self) -> Outcome {
        self.outcome.blocking_recv().unwrap_or(Outcome::Unknown)
    }
}

impl Future for LegacyTicket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(cx).map(|told| told.unwrap_or(Outcome::Unknown))
    }
}

/// The bytes of `latest`, if a state that has applied `applied` may go on from there.
async fn check_caught_up(log: &LegacyLog, applied: Seq) -> Result<Option<bytes::Bytes>, LegacyStartError> {
    if let Some(prefix) = log.read_prefix().await? {
        return Err(LegacyStartError::CutOver(prefix));
    }
    let key = log.keys().legacy_latest();
    let value = log.kv().get(&key).await.map_err(LogError::from)?;
    let latest = value.as_ref().map(|value| parse_latest(&key, value)).transpose()?;
    let behind = |key: &[u8], found: Seq| {
        let key = key.escape_ascii().to_string();
        Err(LegacyStartError::NotCaughtUp { key, applied, found })
    };
    if let Some(latest) = latest.filter(|latest| *latest > applied) {
        return behind(&key, latest);
    }
    if let Some(entry) = log.first_entry(applied).await? {
        return behind(&log.keys().legacy_entry(entry), entry);
    }
    if latest.is_none() && applied > Seq::ZERO {
        let found = format!("no such key, beside entry {applied}");
        return Err(ReplayFault::new(FaultKind::LegacyLatest, &key, "the latest sequence in decimal", found).into());
    }
    Ok(value)
}
