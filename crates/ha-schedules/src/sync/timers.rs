//! Owns timers. How long one takes is the schedule's to say.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use super::yield_now;

/// A timer that may fire at any time after its first look.
pub async fn sleep(_: Duration) {
    yield_now().await;
}

/// The time of [`timeout`] was up.
#[derive(Debug)]
pub struct Elapsed;

/// Awaits `future` until a timer fires.
///
/// # Errors
/// [`Elapsed`] if the timer was first.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    OrElapsed { future: pin!(future), timer: pin!(sleep(limit)) }.await
}

struct OrElapsed<'a, F, T> {
    future: Pin<&'a mut F>,
    timer: Pin<&'a mut T>,
}

impl<F: Future, T: Future<Output = ()>> Future for OrElapsed<'_, F, T> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        self.timer.as_mut().poll(cx).map(|()| Err(Elapsed))
    }
}
