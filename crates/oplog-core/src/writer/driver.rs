//! Owns the task that carries the core's actions out: one transaction at a time, pauses, reads, and what follows a durable batch.
//! It decides nothing about the protocol.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ha_types::{Entropy, MonoTime};

use super::core::Sealed;
use super::flight::{Action, Moment, Then};
use super::patience::{Patience, Waited};
use super::seal_delay::SealDelay;
use super::shared::Shared;
use super::to_wake::ToWake;
use crate::record::{BatchCompressor, BatchRef, Inflated};
use crate::sync::{sleep, timeout, yield_now};
use crate::{BatchStorage, Epoch, LogError, Outcome, Terminal};

/// How long a stop waits for the answer of a transaction that is on its way: a truth worth a moment.
const STOP_GRACE: Duration = Duration::from_millis(50);

/// The writer's task.
pub(super) struct Driver {
    shared: Arc<Shared>,
    /// Ends the writer however the task goes, even before it first runs.
    guard: EndGuard,
    storage: BatchStorage,
    entropy: Arc<dyn Entropy>,
    seal_delay: SealDelay,
    compressor: BatchCompressor,
    /// The stop signal was seen.
    stopping: bool,
}

/// Why there is no answer to a request.
enum Broken {
    Stopped,
    OutOfBudget,
}

impl Broken {
    fn terminal(&self) -> Terminal {
        match self {
            Self::Stopped => Terminal::Shutdown,
            Self::OutOfBudget => Terminal::RetryBudget,
        }
    }
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        storage: BatchStorage,
        entropy: Arc<dyn Entropy>,
        seal_delay: SealDelay,
        compressor: BatchCompressor,
    ) -> Self {
        let guard = EndGuard(Arc::clone(&shared));
        Self { guard, shared, storage, entropy, seal_delay, compressor, stopping: false }
    }

    /// Runs until the writer has ended.
    pub(super) async fn run(mut self) {
        let mut to_wake = ToWake::default();
        let fate = loop {
            let now = self.shared.now();
            let unix_ms = self.shared.clock.unix_ms();
            let (departure, admitted) = self.shared.with_core_waking_later(|core| core.depart(unix_ms, now));
            to_wake.0.extend(admitted);
            let Some(departure) = departure else {
                to_wake.wake();
                if self.shared.with_core(|core| core.terminal().is_some()) {
                    break Outcome::Never;
                }
                self.idle().await;
                continue;
            };
            let mut sealed = match departure.seal(&mut self.compressor) {
                Ok(sealed) => sealed,
                Err(e) => {
                    tracing::error!(error = %e, "the log's next batch cannot be sealed; the writer ends");
                    self.shared.with_core(|core| core.cannot_seal(&e));
                    break Outcome::Never;
                }
            };
            match self.fly(&mut sealed, &mut to_wake).await {
                Some(fate) => break fate,
                None => continue,
            }
        };
        to_wake.wake();
        self.guard.end(fate);
    }

    /// Waits for a commit, the stop, or the last handle to go. Whether that has gone is asked before the wait: it is told once,
    /// and that may have been together with the last commit.
    async fn idle(&mut self) {
        let over = self.shared.with_core(|core| {
            let over = core.is_orphaned() && core.not_durable() == 0;
            if over {
                core.stop();
            }
            over
        });
        if !over {
            self.shared.work.notified().await;
        }
    }

    /// Carries one batch to its end: `None` if the writer goes on, else what became of it.
    async fn fly(&mut self, sealed: &mut Sealed, to_wake: &mut ToWake) -> Option<Outcome> {
        let mut action = self.shared.with_core(|core| core.take_off(sealed));
        loop {
            action = match action {
                Action::Append => self.append(sealed, to_wake).await,
                Action::ReadPrefix => self.read_prefix(to_wake).await,
                Action::ReadBatch => self.read_batch(sealed, to_wake).await,
                Action::Pause(pause, then) => self.pause(pause, then).await,
                Action::Committed => {
                    self.durable(to_wake).await;
                    return None;
                }
                Action::Cut => {
                    self.shared.with_core(|core| core.cut(&sealed.record));
                    return None;
                }
                Action::End(terminal, outcome) => {
                    report(&terminal, outcome);
                    return Some(outcome);
                }
            };
            if !matches!(action, Action::Committed) {
                self.shared.publish();
            }
        }
    }

    async fn append(&mut self, sealed: &Sealed, to_wake: &mut ToWake) -> Action {
        let storage = self.storage.clone();
        let request = storage.append(&sealed.expected, &sealed.new, sealed.record.clone());
        let began = self.shared.now();
        match self.ask(request, began, true, to_wake).await {
            Ok(answer) => {
                if let Err(e) = &answer {
                    tracing::warn!(batch_id = %sealed.new.batch_id, error = %e, "the log's batch is not durable yet");
                }
                let at = Moment { began, now: self.shared.now(), entropy: &*self.entropy };
                self.shared.with_core(|core| core.on_append(&answer, at))
            }
            Err(broken) => self.shared.with_core(|core| core.interrupt(broken.terminal(), true)),
        }
    }

    async fn read_prefix(&mut self, to_wake: &mut ToWake) -> Action {
        let storage = self.storage.clone();
        let began = self.shared.now();
        match self.ask(storage.read_prefix(), began, false, to_wake).await {
            Ok(read) => {
                let at = Moment { began, now: self.shared.now(), entropy: &*self.entropy };
                self.shared.with_core(|core| core.on_prefix(&read, at))
            }
            Err(broken) => self.shared.with_core(|core| core.interrupt(broken.terminal(), false)),
        }
    }

    async fn read_batch(&mut self, sealed: &Sealed, to_wake: &mut ToWake) -> Action {
        let storage = self.storage.clone();
        let began = self.shared.now();
        let request = storage.read_batch(sealed.new.batch_id);
        match self.ask(request, began, false, to_wake).await {
            Ok(read) => {
                let stored = match read {
                    Ok(record) => Ok(record.and_then(|r| epoch_of(&r))),
                    Err(LogError::Store(e)) => Err(e),
                    Err(LogError::Fault(_) | LogError::Refused(_)) => Ok(None),
                };
                let at = Moment { began, now: self.shared.now(), entropy: &*self.entropy };
                self.shared.with_core(|core| core.on_stored(&stored, at))
            }
            Err(broken) => self.shared.with_core(|core| core.interrupt(broken.terminal(), false)),
        }
    }

    async fn pause(&mut self, pause: Duration, then: Then) -> Action {
        // A stop that was noticed while a request was in flight is not told a second time.
        self.stopping = self.stopping
            || tokio::select! {
                biased;
                () = self.shared.stop.notified() => true,
                () = sleep(pause) => false,
            };
        if self.stopping {
            return self.shared.with_core(|core| core.interrupt(Terminal::Shutdown, false));
        }
        let now = self.shared.now();
        self.shared.with_core(|core| core.on_pause_over(then, now))
    }

    /// Awaits the answer of a request sent now; `sent` says whether it is a transaction. Whoever is to be woken is woken once the
    /// request is on its way: other tasks had a turn to take it to the store.
    async fn ask<T>(
        &mut self,
        request: impl Future<Output = T>,
        began: MonoTime,
        sent: bool,
        to_wake: &mut ToWake,
    ) -> Result<T, Broken> {
        let mut request = pin!(request);
        let first = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        if first.is_pending() && !to_wake.0.is_empty() {
            // Polled once, a request is in the hands of its connection's task. Producers woken now would fill the queue before that
            // task runs, while the store has nothing to do.
            yield_now().await;
        }
        to_wake.wake();
        if let Poll::Ready(answer) = first {
            return Ok(answer);
        }
        let answer_by = self.shared.with_core(|core| core.answer_by(began));
        let mut patience = Patience::new(began, sent, answer_by);
        while !self.stopping {
            tokio::select! {
                biased;
                waited = patience.wait(request.as_mut(), &*self.shared.clock) => match waited {
                    Waited::Answer(answer) => return Ok(answer),
                    Waited::OutOfBudget => return Err(Broken::OutOfBudget),
                    Waited::Noticed => {
                        self.shared.with_core(|core| core.not_answered_yet(began));
                        self.shared.publish();
                    }
                },
                () = self.shared.stop.notified() => self.stopping = true,
            }
        }
        timeout(STOP_GRACE, request).await.map_err(|_| Broken::Stopped)
    }

    /// The batch in flight is durable.
    async fn durable(&mut self, to_wake: &mut ToWake) {
        let now = self.shared.now();
        let finished = self.shared.with_core(|core| core.finish(now));
        let before = to_wake.0.len();
        self.shared.tickets.advance(finished.through, &mut to_wake.0);
        let waited = to_wake.0.len() - before;
        self.shared.notify(finished.callbacks, Outcome::Durable);
        self.shared.publish();
        self.shared.progress.notify_waiters();
        // Counted before anybody is woken. If the next batch is full already, it is sent first and they are woken after.
        let committed = self.shared.with_core(|core| core.committed_if_more_may_join());
        let rule = self.seal_delay;
        if let Some(gathering) = committed.and_then(|count| rule.after(finished.took, waited, count, now)) {
            to_wake.wake();
            gathering.wait(&self.shared).await;
        }
    }
}

/// Says that the writer ends with a batch in flight: what its owner asked for is no alarm.
fn report(terminal: &Terminal, batch: Outcome) {
    match terminal {
        Terminal::Shutdown => tracing::info!(?batch, "the log's writer was stopped with a batch in flight"),
        _ => tracing::warn!(%terminal, ?batch, "the log's writer ends with a batch in flight"),
    }
}

/// The epoch inside a record, if it is readable and has one.
fn epoch_of(record: &[u8]) -> Option<Epoch> {
    BatchRef::decode_in(record, &mut Inflated::new()).ok().map(|batch| batch.header().epoch)
}

/// Ends the writer even if the driver panics or its runtime goes away: nobody waits for ever.
struct EndGuard(Arc<Shared>);

impl EndGuard {
    fn end(self, fate: Outcome) {
        self.0.end(|_| fate);
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        // After a regular end there is nothing left to resolve.
        self.0.end(super::core::Core::fate_without_driver);
    }
}

#[cfg(test)]
mod tests;
