//! Owns the ticket: where a committed entry stands, and the wait for what becomes of it.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::shared::Handle;
use crate::sync::{Thread, current_thread, park};
use crate::{Outcome, Seq};

/// The place of a committed entry, and a future of its [`Outcome`]. Nobody has to wait for it: a ticket that is dropped unread
/// cost nothing, and the entry is in the log's hands all the same.
///
/// # Cancel safety
/// It may be polled, dropped and polled elsewhere; the outcome stays.
#[must_use = "a ticket says whether the entry became durable; drop it in so many words if nobody wants to know"]
pub struct Ticket {
    handle: Arc<Handle>,
    seq: Seq,
    /// A waker of ours is kept.
    polled: bool,
}

impl Ticket {
    pub(super) fn new(handle: Arc<Handle>, seq: Seq) -> Self {
        Self { handle, seq, polled: false }
    }

    /// The entry's sequence.
    #[must_use]
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The outcome, if it is known by now.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.handle.0.tickets.outcome(self.seq)
    }

    /// Blocks this thread; not for async code.
    pub fn wait(self) -> Outcome {
        let waker = Waker::from(Arc::new(Unpark(current_thread())));
        let mut cx = Context::from_waker(&waker);
        let mut ticket = pin!(self);
        loop {
            if let Poll::Ready(outcome) = ticket.as_mut().poll(&mut cx) {
                return outcome;
            }
            park();
        }
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = self.handle.0.tickets.poll(self.seq, cx.waker());
        self.polled = outcome.is_none();
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.polled {
            self.handle.0.tickets.forget(self.seq);
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("seq", &self.seq).field("outcome", &self.outcome()).finish()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
