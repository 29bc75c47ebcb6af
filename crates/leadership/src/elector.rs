//! Owns the campaign: asking for the lease until it is won. It never looks at what the candidate value means.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{ErrorClass, Hints, KvError, KvErrorKind, LeaseKv, PutIfAbsent, WatchKv};
use ha_types::{Backoff, Clock, Entropy, LeaderGuard};
use parking_lot::Mutex;

use crate::bounded::bounded;
use crate::candidate_lease::{CandidateLease, Granted};
use crate::keep_alive::KeepAlive;
use crate::leadership::{Leadership, Won};
use crate::metrics::{Counters, ElectionMetrics, count};
use crate::term::Term;
use crate::{CampaignError, ElectionConfig, ElectionConfigError};

/// A node that may stand for election: one key of one store, and the value others read while this node leads.
pub struct Elector {
    store: Arc<dyn LeaseKv>,
    watch: Option<Arc<dyn WatchKv>>,
    key: Bytes,
    candidate: Bytes,
    config: ElectionConfig,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    counters: Arc<Counters>,
    term: Mutex<Weak<Term>>,
}

/// One answer to the request for the lease.
enum Attempt {
    Won(Granted),
    Held,
}

impl Elector {
    /// A candidate for `key`. `candidate` is what [`Self::leader`] gives on every node while this one leads, usually its address.
    ///
    /// # Errors
    /// [`ElectionConfigError`] names a setting that cannot work.
    pub fn new(
        store: Arc<dyn LeaseKv>,
        key: Bytes,
        candidate: Bytes,
        config: ElectionConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, ElectionConfigError> {
        config.validate()?;
        Ok(Self {
            store,
            watch: None,
            key,
            candidate,
            config,
            clock,
            entropy,
            counters: Arc::default(),
            term: Mutex::default(),
        })
    }

    /// The same with hints, so that a free lease is noticed before the next poll.
    #[must_use]
    pub fn with_watch(mut self, watch: Arc<dyn WatchKv>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Who leads, as the store says: the candidate value, or `None`. The answer may be old when it arrives, and a leader that
    /// died is named until its lease is taken.
    ///
    /// # Errors
    /// [`KvError`] if the store did not answer within the request timeout.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn leader(&self) -> Result<Option<Bytes>, KvError> {
        bounded(self.config.request_timeout, self.store.get(&self.key)).await
    }

    /// Waits until this node leads. Whatever time or an operator can cure is waited for: another leader, an unreachable store, a
    /// full one. Needs a tokio runtime with time, on which the keep-alive then runs.
    ///
    /// # Errors
    /// [`CampaignError`] if waiting cannot help.
    ///
    /// # Cancel safety
    /// Dropping the future gives the candidacy up and revokes its lease in the background.
    pub async fn campaign(&self) -> Result<Leadership, CampaignError> {
        let config = &self.config;
        let mut lease = CandidateLease::new(
            Arc::clone(&self.store),
            Arc::clone(&self.clock),
            Arc::clone(&self.counters),
            config.ttl,
            config.request_timeout,
        );
        let mut hints = Hints::on_key(self.watch.clone(), self.key.clone(), config.request_timeout);
        let mut backoff = Backoff::new(config.retry_min, config.retry_max);
        loop {
            match self.attempt(&mut lease).await {
                Ok(Attempt::Won(granted)) => {
                    if let Some(leadership) = self.begin(&mut lease, granted)? {
                        return Ok(leadership);
                    }
                }
                Ok(Attempt::Held) => {
                    backoff.reset();
                    self.wait(&mut hints).await;
                }
                Err(error) => {
                    self.counters.failed(&self.counters.attempts_failed, &error.to_string());
                    if error.class() == ErrorClass::Permanent && error.kind != KvErrorKind::LeaseNotFound {
                        return Err(CampaignError::Store(error));
                    }
                    let pause = backoff.next_pause(&*self.entropy);
                    tracing::debug!(%error, ?pause, "the lease could not be asked for; trying again");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Figures since the elector was made.
    #[must_use]
    pub fn metrics(&self) -> ElectionMetrics {
        let mut metrics = self.counters.snapshot();
        if let Some(term) = self.term.lock().upgrade() {
            let remaining = term.remaining();
            metrics.leading = !remaining.is_zero();
            metrics.remaining_ms = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
        }
        metrics
    }

    /// Asks once. Asking again with the same lease after an unknown outcome gives the outcome.
    async fn attempt(&self, lease: &mut CandidateLease) -> Result<Attempt, KvError> {
        count(&self.counters.attempts);
        let granted = lease.ensure().await?;
        let put = self.store.put_if_absent(&self.key, self.candidate.clone(), granted.id);
        match bounded(self.config.request_timeout, put).await {
            // Two thirds of the lease are left when a term begins, however long the put took.
            Ok(PutIfAbsent::Put) => lease.ensure().await.map(Attempt::Won),
            Ok(PutIfAbsent::Held(_)) => Ok(Attempt::Held),
            Err(error) => {
                if error.kind == KvErrorKind::LeaseNotFound {
                    lease.forget();
                }
                Err(error)
            }
        }
    }

    /// Starts the term, unless its time has passed while it was being won.
    fn begin(&self, lease: &mut CandidateLease, granted: Granted) -> Result<Option<Leadership>, CampaignError> {
        let margin = self.config.margin;
        let span = granted.ttl.saturating_sub(margin);
        if span.is_zero() {
            return Err(CampaignError::TtlTooShort { granted: granted.ttl, margin });
        }
        let term = Arc::new(Term::new(Arc::clone(&self.clock), granted.confirmed, span));
        if !term.holds() {
            return Ok(None);
        }
        lease.hand_over();
        count(&self.counters.terms_won);
        *self.term.lock() = Arc::downgrade(&term);
        tracing::info!(lease = ?granted.id, ttl = ?granted.ttl, "leadership won");
        let backoff = Backoff::new(self.config.retry_min, self.config.retry_max.min(span / 3));
        let keep_alive = KeepAlive {
            store: Arc::clone(&self.store),
            lease: granted.id,
            term: Arc::clone(&term),
            counters: Arc::clone(&self.counters),
            entropy: Arc::clone(&self.entropy),
            every: span / 3,
            request_timeout: self.config.request_timeout.min(span / 3),
            backoff,
        };
        let task = tokio::spawn(keep_alive.run());
        Ok(Some(Leadership::new(Won {
            store: Arc::clone(&self.store),
            lease: granted.id,
            ttl: granted.ttl,
            term,
            request_timeout: self.config.request_timeout,
            backoff,
            entropy: Arc::clone(&self.entropy),
            keep_alive: task.abort_handle(),
        })))
    }

    /// Waits for the next poll, or for a hint after which the key is gone.
    async fn wait(&self, hints: &mut Hints) {
        let poll = tokio::time::sleep(self.jittered_poll());
        tokio::pin!(poll);
        loop {
            tokio::select! {
                () = &mut poll => return,
                () = hints.next() => {}
            }
            // A hint may be about anything; only a key that is gone is worth a request for the lease.
            if matches!(self.leader().await, Ok(None)) {
                return;
            }
        }
    }

    /// Between half a poll and a whole one, so that candidates do not ask in step.
    fn jittered_poll(&self) -> Duration {
        Backoff::new(self.config.poll, self.config.poll).next_pause(&*self.entropy)
    }
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector")
            .field("key", &self.key)
            .field("candidate", &self.candidate)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
