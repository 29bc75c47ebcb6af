//! Owns the lease of a candidate: granted once, kept alive while it waits, revoked when the campaign is given up.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{KvError, KvErrorKind, LeaseId, LeaseKv};
use ha_types::{Clock, MonoTime};

use crate::bounded::bounded;
use crate::metrics::{Counters, count};

/// A lease the store granted, and when the last request that it confirmed was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Granted {
    pub(crate) id: LeaseId,
    pub(crate) ttl: Duration,
    pub(crate) confirmed: MonoTime,
}

/// At most one lease. Dropping it revokes the lease, so a cancelled campaign leaves none behind; a lease whose grant got no
/// answer has no name to revoke, and runs out.
pub(crate) struct CandidateLease {
    store: Arc<dyn LeaseKv>,
    clock: Arc<dyn Clock>,
    counters: Arc<Counters>,
    ask_for: Duration,
    request_timeout: Duration,
    granted: Option<Granted>,
}

impl CandidateLease {
    pub(crate) fn new(
        store: Arc<dyn LeaseKv>,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
        ask_for: Duration,
        request_timeout: Duration,
    ) -> Self {
        Self { store, clock, counters, ask_for, request_timeout, granted: None }
    }

    /// A lease of which at least two thirds are left, counted from the sending of a confirmed request.
    pub(crate) async fn ensure(&mut self) -> Result<Granted, KvError> {
        let Some(granted) = self.granted else { return self.grant().await };
        if self.clock.now().saturating_since(granted.confirmed) <= granted.ttl / 3 {
            return Ok(granted);
        }
        let sent = self.clock.now();
        match bounded(self.request_timeout, self.store.keep_alive(granted.id)).await {
            Ok(()) => {
                count(&self.counters.keep_alives_ok);
                let renewed = Granted { confirmed: sent, ..granted };
                self.granted = Some(renewed);
                Ok(renewed)
            }
            Err(error) => {
                self.counters.failed(&self.counters.keep_alives_failed, &error.to_string());
                if error.kind == KvErrorKind::LeaseNotFound {
                    self.forget();
                }
                Err(error)
            }
        }
    }

    async fn grant(&mut self) -> Result<Granted, KvError> {
        let sent = self.clock.now();
        let (id, ttl) = bounded(self.request_timeout, self.store.grant(self.ask_for)).await?;
        let granted = Granted { id, ttl, confirmed: sent };
        self.granted = Some(granted);
        Ok(granted)
    }

    /// The store said that the lease is gone.
    pub(crate) fn forget(&mut self) {
        self.granted = None;
    }

    /// The lease is somebody else's to end from here on.
    pub(crate) fn hand_over(&mut self) -> Option<Granted> {
        self.granted.take()
    }
}

impl Drop for CandidateLease {
    fn drop(&mut self) {
        let Some(granted) = self.granted.take() else { return };
        // Outside a runtime there is nobody to send the request: the lease runs out.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, limit) = (Arc::clone(&self.store), self.request_timeout);
        runtime.spawn(async move {
            if let Err(error) = bounded(limit, store.revoke(granted.id)).await {
                tracing::debug!(%error, lease = ?granted.id, "a candidate's lease was not revoked and runs out");
            }
        });
    }
}
