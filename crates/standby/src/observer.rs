//! Owns the view on a standby from outside while it runs.

use std::sync::Arc;

#[cfg(feature = "legacy")]
use oplog_core::Seq;
use oplog_core::{DurablePrefix, Replica, StateMachine};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::health::Lag;
use crate::{Fault, Health, StandbyConfig, StandbyMetrics};

/// A view on one standby, for whoever campaigns, reports and measures. Clones share it; it does not keep the standby alive.
#[derive(Clone, Debug)]
pub struct Observer {
    health: watch::Receiver<Health>,
    may_campaign: watch::Receiver<bool>,
    metrics: Arc<Mutex<StandbyMetrics>>,
}

/// Why a standby will not come close to the prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotClose {
    /// It is unhealthy.
    #[error("the standby is unhealthy: {0}")]
    Unhealthy(Fault),
    /// It was promoted or dropped.
    #[error("the standby has ended")]
    Ended,
}

impl Observer {
    /// Its health, to watch.
    #[must_use]
    pub fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Its figures.
    #[must_use]
    pub fn metrics(&self) -> StandbyMetrics {
        self.metrics.lock().clone()
    }

    /// Whether it may campaign: it is healthy, reached the store in its last round, and is close to the durable prefix.
    #[must_use]
    pub fn may_campaign(&self) -> bool {
        *self.may_campaign.borrow()
    }

    /// Waits until it may campaign. It must be running.
    ///
    /// # Errors
    /// [`NotClose`] if that will not happen.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn close_to_prefix(&self) -> Result<(), NotClose> {
        let (mut health, mut may_campaign) = (self.health.clone(), self.may_campaign.clone());
        tokio::select! {
            biased;
            fault = unhealthy(&mut health) => Err(fault.map_or(NotClose::Ended, NotClose::Unhealthy)),
            close = may_campaign.wait_for(|may| *may) => close.map(|_| ()).map_err(|_| NotClose::Ended),
        }
    }
}

async fn unhealthy(health: &mut watch::Receiver<Health>) -> Option<Fault> {
    match &*health.wait_for(|h| matches!(h, Health::Unhealthy { .. })).await.ok()? {
        Health::Unhealthy { fault } => Some(fault.clone()),
        _ => None,
    }
}

/// The sending side, held by the standby.
#[derive(Debug)]
pub(crate) struct Publisher {
    health: watch::Sender<Health>,
    may_campaign: watch::Sender<bool>,
    metrics: Arc<Mutex<StandbyMetrics>>,
    config: StandbyConfig,
}

impl Publisher {
    pub(crate) fn new(config: &StandbyConfig) -> Self {
        Self {
            config: config.clone(),
            health: watch::Sender::new(Health::Starting),
            may_campaign: watch::Sender::new(false),
            metrics: Arc::default(),
        }
    }

    pub(crate) fn observer(&self) -> Observer {
        Observer {
            health: self.health.subscribe(),
            may_campaign: self.may_campaign.subscribe(),
            metrics: Arc::clone(&self.metrics),
        }
    }

    pub(crate) fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut StandbyMetrics)) {
        change(&mut self.metrics.lock());
    }

    /// Shows where the standby stands, and whether it may campaign from there.
    pub(crate) fn place<S: StateMachine>(&self, replica: &Replica<S>, prefix: Option<&DurablePrefix>) {
        let (at, lag) = (replica.position(), Lag::of(replica, prefix));
        self.update(|m| {
            m.applied_seq = replica.applied().get();
            m.applied_batch = at.batch_id.get();
            if let Some(prefix) = prefix {
                m.prefix_seq = prefix.last_seq.get();
                m.prefix_batch = prefix.batch_id.get();
                m.prefix_epoch = prefix.epoch.get();
            }
            m.lag_entries = lag.entries;
            m.lag_batches = lag.batches;
        });
        self.set_health(|health| match health {
            Health::Following { .. } => Some(Health::Following { lag: lag.entries }),
            Health::Starting | Health::Unhealthy { .. } => None,
        });
        let may = self.metrics.lock().store_answers
            && matches!(&*self.health.borrow(), Health::Following { .. })
            && lag.is_close(&self.config);
        self.may_campaign.send_if_modified(|before| std::mem::replace(before, may) != may);
    }

    /// The figures, for who counts requests by itself.
    #[cfg(feature = "legacy")]
    pub(crate) fn counters(&self) -> Arc<Mutex<StandbyMetrics>> {
        Arc::clone(&self.metrics)
    }

    /// The standby applied what there is of the legacy log, or waits for an entry of it. From there nobody campaigns.
    #[cfg(feature = "legacy")]
    pub(crate) fn per_entry(&self, applied: Seq, end: Option<Seq>, counted_keys: u64) {
        let lag = end.map_or(0, |end| end.distance_from(applied));
        self.set_health(|health| match health {
            Health::Starting | Health::Following { .. } => Some(Health::Following { lag }),
            Health::Unhealthy { .. } => None,
        });
        self.update(|m| {
            m.store_answers = true;
            m.applied_seq = applied.get();
            m.lag_entries = lag;
            m.legacy.following = true;
            m.legacy.latest_seq = end.map_or(m.legacy.latest_seq, Seq::get);
            m.legacy.counted_keys = counted_keys;
        });
        self.may_campaign.send_if_modified(|before| std::mem::replace(before, false));
    }

    /// The state stands among the batches from now on.
    #[cfg(feature = "legacy")]
    pub(crate) fn crossed(&self) {
        self.update(|m| {
            m.legacy.following = false;
            m.legacy.missing_seq = None;
            m.legacy.counted_keys = 0;
        });
    }

    /// The standby reached the end of what it read.
    pub(crate) fn following<S: StateMachine>(&self, replica: &Replica<S>, prefix: Option<&DurablePrefix>) {
        self.set_health(|health| match health {
            Health::Starting => Some(Health::Following { lag: Lag::of(replica, prefix).entries }),
            Health::Following { .. } | Health::Unhealthy { .. } => None,
        });
        self.update(|m| m.store_answers = true);
        self.place(replica, prefix);
    }

    /// The store failed.
    pub(crate) fn store_failed(&self, error: &str) {
        self.update(|m| {
            m.store_errors += 1;
            m.last_error = Some(error.to_owned());
            m.store_answers = false;
        });
        self.may_campaign.send_if_modified(|before| std::mem::replace(before, false));
    }

    /// The verdict. It is latched: nothing in this crate takes it back.
    pub(crate) fn unhealthy(&self, fault: Fault) {
        self.may_campaign.send_if_modified(|before| std::mem::replace(before, false));
        self.set_health(|health| match health {
            Health::Starting | Health::Following { .. } => Some(Health::Unhealthy { fault }),
            Health::Unhealthy { .. } => None,
        });
    }

    fn set_health(&self, change: impl FnOnce(&Health) -> Option<Health>) {
        let mut now = None;
        self.health.send_if_modified(|health| match change(health) {
            Some(new) if new != *health => {
                *health = new.clone();
                now = Some(new);
                true
            }
            _ => false,
        });
        if let Some(health) = now {
            self.update(|m| m.health = health);
        }
    }
}
