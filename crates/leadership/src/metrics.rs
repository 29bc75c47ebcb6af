//! Owns the figures of an election: counters since the start of the elector, gauges now.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Figures of one [`Elector`](crate::Elector), over all its campaigns and terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElectionMetrics {
    /// Whether this node may act now.
    pub leading: bool,
    /// How long this node may act without another confirmed keep-alive, in milliseconds.
    pub remaining_ms: u64,
    /// Terms won.
    pub terms_won: u64,
    /// Times the lease was asked for.
    pub attempts: u64,
    /// Times it could not be asked for.
    pub attempts_failed: u64,
    /// Keep-alives confirmed, as leader and as candidate.
    pub keep_alives_ok: u64,
    /// Keep-alives without confirmation.
    pub keep_alives_failed: u64,
    /// The last failure of any kind.
    pub last_error: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) terms_won: AtomicU64,
    pub(crate) attempts: AtomicU64,
    pub(crate) attempts_failed: AtomicU64,
    pub(crate) keep_alives_ok: AtomicU64,
    pub(crate) keep_alives_failed: AtomicU64,
    pub(crate) last_error: Mutex<Option<String>>,
}

impl Counters {
    pub(crate) fn failed(&self, counter: &AtomicU64, error: &str) {
        count(counter);
        *self.last_error.lock() = Some(error.to_owned());
    }

    pub(crate) fn snapshot(&self) -> ElectionMetrics {
        ElectionMetrics {
            leading: false,
            remaining_ms: 0,
            terms_won: self.terms_won.load(Ordering::Relaxed),
            attempts: self.attempts.load(Ordering::Relaxed),
            attempts_failed: self.attempts_failed.load(Ordering::Relaxed),
            keep_alives_ok: self.keep_alives_ok.load(Ordering::Relaxed),
            keep_alives_failed: self.keep_alives_failed.load(Ordering::Relaxed),
            last_error: self.last_error.lock().clone(),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
