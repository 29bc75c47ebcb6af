//! Owns the wake-up: tokio's own, each call of it one step.

use super::switch;

/// Tokio's `Notify`, each call one step.
#[derive(Debug)]
pub struct Notify(tokio::sync::Notify);

impl Notify {
    /// Nobody waits, and no wake-up is kept.
    #[expect(clippy::new_without_default, reason = "the names that production uses, and no more")]
    pub fn new() -> Self {
        Self(tokio::sync::Notify::new())
    }

    /// Wakes one who waits, or the next who will.
    pub fn notify_one(&self) {
        switch();
        self.0.notify_one();
    }

    /// Wakes all who wait now.
    pub fn notify_waiters(&self) {
        switch();
        self.0.notify_waiters();
    }

    /// Waits for a wake-up.
    ///
    /// # Cancel safety
    /// As tokio's: a wake-up that a dropped wait had received goes to another.
    pub fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        switch();
        self.0.notified()
    }
}
