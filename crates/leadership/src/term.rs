//! Owns the gate of one term: the deadline up to which this node may act. It talks to no store and starts no task.
//!
//! ```text
//! keep-alive sent          confirmed      next sent                 serve_until      lease may be taken
//! ──────┼──────────────────────┼──────────────┼──────────────────────────┼──────────────────┼──────▶ own clock
//!       └────────────────── granted TTL − margin ────────────────────────┘◀──── margin ─────┘
//! ```
//!
//! The deadline counts from the *sending*: the store cannot have received the keep-alive earlier, so its own count ends later.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ha_types::{Clock, LeaderGuard, MonoTime};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::LossReason;

/// The deadline of a term that is over. No live deadline is zero: it lies a positive time after some reading.
const LOST: u64 = 0;

/// One term's gate. Once shut it stays shut.
pub(crate) struct Term {
    clock: Arc<dyn Clock>,
    /// TTL less margin: how long one confirmed keep-alive lets this node act.
    span: Duration,
    deadline_ns: AtomicU64,
    last_failure: Mutex<Option<String>>,
    loss: watch::Sender<Option<LossReason>>,
}

impl Term {
    /// A term whose lease was last confirmed by a request sent at `sent`. It may be over already.
    pub(crate) fn new(clock: Arc<dyn Clock>, sent: MonoTime, span: Duration) -> Self {
        debug_assert!(!span.is_zero(), "a term without time to act is refused before it begins");
        Self {
            clock,
            span,
            deadline_ns: AtomicU64::new(nanos(sent.saturating_add(span))),
            last_failure: Mutex::new(None),
            loss: watch::Sender::new(None),
        }
    }

    /// Moves the deadline on after a keep-alive sent at `sent` was confirmed. `false` if the term was over before the
    /// confirmation came: what was shut, even for an instant, does not open again.
    pub(crate) fn extend(&self, sent: MonoTime) -> bool {
        let new = nanos(sent.saturating_add(self.span));
        loop {
            let Some(seen) = self.live() else { return false };
            if new <= seen {
                return true;
            }
            if self.deadline_ns.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                *self.last_failure.lock() = None;
                return true;
            }
        }
    }

    /// Shuts the gate. `false` if it was shut already; the first reason stays.
    pub(crate) fn lose(&self, reason: LossReason) -> bool {
        let was_open = self.deadline_ns.swap(LOST, Ordering::AcqRel) != LOST;
        if was_open {
            self.announce(reason);
        }
        was_open
    }

    /// Remembers why a keep-alive failed, for the reason should the deadline pass.
    pub(crate) fn note_failure(&self, error: String) {
        *self.last_failure.lock() = Some(error);
    }

    /// The time left, zero once over.
    pub(crate) fn remaining(&self) -> Duration {
        self.live().map_or(Duration::ZERO, |d| Duration::from_nanos(d.saturating_sub(nanos(self.clock.now()))))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<LossReason>> {
        self.loss.subscribe()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The deadline, if it has not passed. Judged by whoever asks first after it passed, so nobody has to be awake for it.
    fn live(&self) -> Option<u64> {
        let mut seen = self.deadline_ns.load(Ordering::Acquire);
        loop {
            if seen == LOST {
                return None;
            }
            if nanos(self.clock.now()) < seen {
                return Some(seen);
            }
            match self.deadline_ns.compare_exchange(seen, LOST, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.announce(LossReason::Expired { last_error: self.last_failure.lock().clone() });
                    return None;
                }
                Err(moved) => seen = moved,
            }
        }
    }

    fn announce(&self, reason: LossReason) {
        match reason {
            LossReason::Resigned | LossReason::Dropped => tracing::info!(%reason, "leadership ended"),
            _ => tracing::warn!(%reason, "leadership lost"),
        }
        self.loss.send_replace(Some(reason));
    }
}

impl LeaderGuard for Term {
    fn serve_until(&self) -> Option<MonoTime> {
        self.live().map(|ns| MonoTime::from_origin(Duration::from_nanos(ns)))
    }

    fn holds(&self) -> bool {
        self.live().is_some()
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("serve_until", &self.serve_until()).field("loss", &*self.loss.borrow()).finish()
    }
}

/// Nanoseconds since the origin; enough for 584 years.
fn nanos(at: MonoTime) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use ha_types::ManualClock;

    use super::*;

    const SPAN: Duration = Duration::from_secs(2);

    fn term() -> (Arc<ManualClock>, Term) {
        let clock = Arc::new(ManualClock::new());
        clock.advance(Duration::from_secs(1));
        let term = Term::new(clock.clone(), clock.now(), SPAN);
        (clock, term)
    }

    #[test]
    fn s9_the_gate_is_open_before_the_deadline_and_shut_at_it() {
        let (clock, term) = term();
        clock.advance(SPAN - Duration::from_nanos(1));
        assert!(term.holds());
        clock.advance(Duration::from_nanos(1));
        assert!(!term.holds(), "serving ends at the deadline, not after it");
        assert_eq!(term.serve_until(), None);
        assert_eq!(*term.subscribe().borrow(), Some(LossReason::Expired { last_error: None }));
    }

    #[test]
    fn a_late_confirmation_does_not_open_a_gate_that_was_shut() {
        let (clock, term) = term();
        let sent = clock.now();
        clock.advance(SPAN);
        assert!(
            !term.extend(sent.saturating_add(Duration::from_secs(1))),
            "nobody had asked, yet the deadline had passed"
        );
        assert!(!term.holds());
    }

    #[test]
    fn an_older_confirmation_does_not_move_the_deadline_back() {
        let (clock, term) = term();
        let first = clock.now();
        clock.advance(Duration::from_secs(1));
        assert!(term.extend(clock.now()));
        let until = term.serve_until();
        assert!(term.extend(first));
        assert_eq!(term.serve_until(), until);
    }

    #[test]
    fn the_first_reason_stays() {
        let (_clock, term) = term();
        assert!(term.lose(LossReason::Resigned));
        assert!(!term.lose(LossReason::Dropped));
        assert_eq!(*term.subscribe().borrow(), Some(LossReason::Resigned));
        assert!(!term.extend(MonoTime::from_origin(Duration::from_secs(100))));
    }
}
