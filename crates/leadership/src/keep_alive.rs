//! Owns the task that keeps a term's lease alive. It decides nothing but when to ask; the term decides what an answer means.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{KvError, KvErrorKind, LeaseId, LeaseKv};
use ha_types::{Backoff, Entropy, LeaderGuard};

use crate::LossReason;
use crate::bounded::bounded;
use crate::metrics::{Counters, count};
use crate::term::Term;

/// Everything the task needs.
pub(crate) struct KeepAlive {
    pub(crate) store: Arc<dyn LeaseKv>,
    pub(crate) lease: LeaseId,
    pub(crate) term: Arc<Term>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) entropy: Arc<dyn Entropy>,
    /// The pause after a confirmed keep-alive.
    pub(crate) every: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) backoff: Backoff,
}

impl KeepAlive {
    /// Runs until the term is over.
    pub(crate) async fn run(mut self) {
        let mut loss = self.term.subscribe();
        let mut pause = self.every;
        loop {
            // Awake at the deadline too, so that the loss is announced even if nobody asks the gate.
            let wake = pause.min(self.term.remaining());
            tokio::select! {
                biased;
                _ = loss.wait_for(Option::is_some) => return,
                () = tokio::time::sleep(wake) => {}
            }
            if !self.term.holds() {
                return;
            }
            let ended = async { drop(loss.wait_for(Option::is_some).await) };
            pause = tokio::select! {
                biased;
                () = ended => return,
                next = self.ask() => match next {
                    Some(pause) => pause,
                    None => return,
                },
            };
        }
    }

    /// Sends one keep-alive; gives the pause before the next, or `None` when the term is over.
    async fn ask(&mut self) -> Option<Duration> {
        // Read before the request is sent: a reply that was long on its way must not count from its arrival.
        let sent = self.term.clock().now();
        let limit = self.request_timeout.min(self.term.remaining());
        match bounded(limit, self.store.keep_alive(self.lease)).await {
            Ok(()) => {
                count(&self.counters.keep_alives_ok);
                self.backoff.reset();
                self.term.extend(sent).then_some(self.every)
            }
            Err(error) => {
                let message = error.to_string();
                self.counters.failed(&self.counters.keep_alives_failed, &message);
                if ends_the_lease(&error) {
                    self.term.lose(LossReason::LeaseLost { message });
                    return None;
                }
                tracing::warn!(%error, remaining = ?self.term.remaining(), "a keep-alive was not confirmed; trying again");
                self.term.note_failure(message);
                Some(self.backoff.next_pause(&*self.entropy))
            }
        }
    }
}

/// Whether no further keep-alive of this lease can be confirmed: it is gone, its stream ended with the client, or the store is
/// another one. Everything else says nothing about the lease and is tried again until the deadline.
fn ends_the_lease(error: &KvError) -> bool {
    matches!(error.kind, KvErrorKind::LeaseNotFound | KvErrorKind::Closed | KvErrorKind::WrongStore)
}
