//! Owns those who are to be woken at the right moment: at the latest when it is dropped, for a driver may be dropped at any wait
//! and whoever is in here is in no other list any more.

use std::task::Waker;

/// Wakers, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct ToWake(pub(super) Vec<Waker>);

impl ToWake {
    /// Wakes all of them now.
    pub(super) fn wake(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

impl Drop for ToWake {
    fn drop(&mut self) {
        self.wake();
    }
}
