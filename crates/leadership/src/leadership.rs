//! Owns one term from its winning to its end: the gate to ask, the loss to watch, the resignation.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::{Effect, KvError, LeaseId, LeaseKv};
use ha_types::{Backoff, Entropy, LeaderGuard, MonoTime};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::bounded::bounded;
use crate::term::Term;
use crate::{LossReason, StopRule, StopVerdict};

/// How a resignation ended. This node does not act any more in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resignation {
    /// The store confirmed that the lease is gone: another node can win at once.
    HandedOver,
    /// The store did not confirm it: another node can win when the lease has run out.
    LeftToExpire,
}

/// Leadership, won and kept alive in the background until it is lost, resigned or dropped.
///
/// Dropping it shuts the gate and stops the keep-alive; the lease then runs out at the store.
pub struct Leadership {
    store: Arc<dyn LeaseKv>,
    lease: LeaseId,
    ttl: Duration,
    term: Arc<Term>,
    request_timeout: Duration,
    backoff: Backoff,
    entropy: Arc<dyn Entropy>,
    resigned: tokio::sync::Mutex<Option<Resignation>>,
    keep_alive: AbortHandle,
}

/// What an [`Elector`](crate::Elector) hands to a new term.
pub(crate) struct Won {
    pub(crate) store: Arc<dyn LeaseKv>,
    pub(crate) lease: LeaseId,
    pub(crate) ttl: Duration,
    pub(crate) term: Arc<Term>,
    pub(crate) request_timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keep_alive: AbortHandle,
}

impl Leadership {
    pub(crate) fn new(won: Won) -> Self {
        let Won { store, lease, ttl, term, request_timeout, backoff, entropy, keep_alive } = won;
        let resigned = tokio::sync::Mutex::new(None);
        Self { store, lease, ttl, term, request_timeout, backoff, entropy, resigned, keep_alive }
    }

    /// The gate, to be asked after the state was read and before every reply. Asking costs an atomic read and a clock reading.
    /// It outlives this value, shut.
    #[must_use]
    pub fn guard(&self) -> Arc<dyn LeaderGuard> {
        Arc::clone(&self.term) as Arc<dyn LeaderGuard>
    }

    /// Becomes `Some` once, when the term ends. The gate is shut before.
    #[must_use]
    pub fn loss(&self) -> watch::Receiver<Option<LossReason>> {
        self.term.subscribe()
    }

    /// Waits for the end of the term.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) -> LossReason {
        ended(self.term.subscribe()).await
    }

    /// The TTL that the store granted, which may be longer than the one asked for.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Gives leadership up: shuts the gate, stops the keep-alive, then ends the lease so that another node can win at once.
    /// The caller drains and sends its last reply before it calls this (design §4). Called again it answers the same.
    ///
    /// A refusal that certainly did nothing is tried again for one request timeout; an unknown outcome is left alone.
    ///
    /// # Cancel safety
    /// Once polled, the gate is shut; dropping the future leaves the lease to run out.
    pub async fn resign(&self) -> Resignation {
        self.term.lose(LossReason::Resigned);
        self.keep_alive.abort();
        let mut resigned = self.resigned.lock().await;
        if let Some(before) = *resigned {
            return before;
        }
        let how = match bounded(self.request_timeout, self.revoke()).await {
            Ok(()) => Resignation::HandedOver,
            Err(error) => {
                tracing::warn!(%error, ttl = ?self.ttl, "the lease was not revoked and runs out");
                Resignation::LeftToExpire
            }
        };
        *resigned = Some(how);
        how
    }

    async fn revoke(&self) -> Result<(), KvError> {
        let mut backoff = self.backoff;
        loop {
            match self.store.revoke(self.lease).await {
                Err(error) if error.effect == Effect::NotApplied && error.class() == ha_kv::ErrorClass::Transient => {
                    tokio::time::sleep(backoff.next_pause(&*self.entropy)).await;
                }
                answer => return answer,
            }
        }
    }

    /// Applies the [`StopRule`] until the term ends, and says why it ended. `unanswered_since` gives what the writer knows: when
    /// the oldest request was sent that the store has not answered at all (see [`StopRule::verdict`]). When the rule says stop,
    /// the gate shuts, the keep-alive ends and the lease runs out. The future may be spawned; it does not keep the term alive.
    ///
    /// # Cancel safety
    /// Dropping the future ends the supervision, nothing else.
    pub fn enforce<F>(&self, unanswered_since: F) -> impl Future<Output = LossReason> + Send + use<F>
    where
        F: Fn() -> Option<MonoTime> + Send + Sync + 'static,
    {
        let (term, rule) = (Arc::clone(&self.term), StopRule::new(self.ttl));
        let glance = self.ttl / 8;
        async move {
            let mut over = std::pin::pin!(ended(term.subscribe()));
            loop {
                let wait = match rule.verdict(term.clock().now(), unanswered_since()) {
                    StopVerdict::KeepOn => glance,
                    StopVerdict::SilentFor { stops_in } => glance.min(stops_in),
                    StopVerdict::Stop { silent_for } => {
                        term.lose(LossReason::StoreSilent { silent_for });
                        return over.await;
                    }
                };
                tokio::select! {
                    reason = &mut over => return reason,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
}

/// Waits for the reason. The sender lives in the term, which the caller holds, so the channel cannot end without one.
async fn ended(mut loss: watch::Receiver<Option<LossReason>>) -> LossReason {
    match loss.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or(LossReason::Dropped),
        Err(_) => LossReason::Dropped,
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.term.lose(LossReason::Dropped);
        self.keep_alive.abort();
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("lease", &self.lease)
            .field("ttl", &self.ttl)
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}
