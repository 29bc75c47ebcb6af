//! Owns the one-way road open → draining → closed, and the count of writes on their way. Knows nothing of leadership.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

use crate::{MasterError, Serving};

/// The gate in front of all calls.
#[derive(Debug)]
pub(crate) struct Gate {
    serving: watch::Sender<Serving>,
    writes: AtomicUsize,
    idle: Notify,
}

/// One write on its way. Dropped when it is answered, or given up by its caller.
#[derive(Debug)]
pub(crate) struct WritePass<'a> {
    gate: &'a Gate,
}

impl Gate {
    pub(crate) fn open() -> Self {
        Self { serving: watch::Sender::new(Serving::Open), writes: AtomicUsize::new(0), idle: Notify::new() }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Serving> {
        self.serving.subscribe()
    }

    /// Whether reads are answered.
    pub(crate) fn check(&self) -> Result<(), MasterError> {
        match &*self.serving.borrow() {
            Serving::Open | Serving::Draining => Ok(()),
            Serving::Closed { reason } => Err(MasterError::NotLeader { reason: reason.clone() }),
        }
    }

    /// Lets one write in.
    pub(crate) fn enter(&self) -> Result<WritePass<'_>, MasterError> {
        // Counted before the look: a drain that has closed the gate either sees this write or is seen by it.
        self.writes.fetch_add(1, Ordering::SeqCst);
        let pass = WritePass { gate: self };
        match &*self.serving.borrow() {
            Serving::Open => Ok(pass),
            Serving::Draining => {
                Err(MasterError::RetryAfter { ms: 50, reason: "leadership is being handed over".into() })
            }
            Serving::Closed { reason } => Err(MasterError::NotLeader { reason: reason.clone() }),
        }
    }

    /// Keeps new writes out.
    pub(crate) fn drain(&self) {
        self.serving.send_if_modified(|serving| {
            let open = *serving == Serving::Open;
            if open {
                *serving = Serving::Draining;
            }
            open
        });
    }

    /// Keeps everything out, for good. The first reason stays.
    pub(crate) fn close(&self, reason: &str) {
        self.serving.send_if_modified(|serving| {
            let was_open = !matches!(serving, Serving::Closed { .. });
            if was_open {
                *serving = Serving::Closed { reason: reason.into() };
            }
            was_open
        });
    }

    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// Waits until no write is on its way.
    pub(crate) async fn idle(&self) {
        loop {
            let left = self.idle.notified();
            if self.writes() == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Drop for WritePass<'_> {
    fn drop(&mut self) {
        if self.gate.writes.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.gate.idle.notify_waiters();
        }
    }
}
