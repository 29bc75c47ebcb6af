//! Owns waiting for a slot, first come first served.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::class::Class;
use super::shared::Handle;
use super::{Reservation, ReserveError};

/// One who wants a slot. Dropped, it leaves the line; a slot granted meanwhile goes to the next.
pub(super) struct Ready<'a> {
    handle: &'a Arc<Handle>,
    class: Class,
    /// Its number in the line.
    number: Option<u64>,
}

impl<'a> Ready<'a> {
    pub(super) fn new(handle: &'a Arc<Handle>, class: Class) -> Self {
        Self { handle, class, number: None }
    }
}

impl Future for Ready<'_> {
    type Output = Result<Reservation, ReserveError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (shared, class) = (&self.handle.0, self.class);
        let ours = match self.number {
            None => match shared.with_core(|core| core.reserve_or_join(class, cx.waker())) {
                Ok(Some(number)) => {
                    self.number = Some(number);
                    return Poll::Pending;
                }
                Ok(None) => Ok(true),
                Err(e) => Err(e),
            },
            Some(number) => shared.with_core(|core| core.turn(class, number, cx.waker())),
        };
        match ours {
            Ok(false) => Poll::Pending,
            Ok(true) => {
                self.number = None;
                Poll::Ready(Ok(Reservation::of_slot(Arc::clone(self.handle), class)))
            }
            Err(e) => {
                self.number = None;
                Poll::Ready(Err(e))
            }
        }
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.handle.0.with_core(|core| core.leave(self.class, number));
            // It may have been the last slot that a drain waits for.
            self.handle.0.progress.notify_waiters();
        }
    }
}
