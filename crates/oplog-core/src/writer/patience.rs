//! Owns how long the answer to one request is waited for: a transaction that takes long is noticed, and one that outlasts the retry budget is
//! given up. What follows from either the driver decides.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ha_types::{Clock, MonoTime};

use super::WriterStatus;
use crate::sync::sleep;

/// What is left of the patience with one request.
pub(crate) struct Patience {
    notice_at: Option<MonoTime>,
    answer_by: Option<MonoTime>,
}

/// What came of waiting.
pub(crate) enum Waited<T> {
    /// The answer.
    Answer(T),
    /// A transaction has run for [`WriterStatus::NOTICED_AFTER_MS`]. This is said once.
    Noticed,
    /// The budget is used up.
    OutOfBudget,
}

impl Patience {
    /// With a request sent at `began`; only a transaction is noticed.
    pub(crate) fn new(began: MonoTime, transaction: bool, answer_by: Option<MonoTime>) -> Self {
        let notice_at = began.saturating_add(Duration::from_millis(WriterStatus::NOTICED_AFTER_MS));
        Self { notice_at: transaction.then_some(notice_at), answer_by }
    }

    /// Waits for the first of them. Dropped, it has forgotten nothing, and may be asked again.
    pub(crate) async fn wait<F: Future>(&mut self, mut request: Pin<&mut F>, clock: &dyn Clock) -> Waited<F::Output> {
        loop {
            let next = [self.notice_at, self.answer_by].into_iter().flatten().min();
            let left = next.map_or(Duration::MAX, |next| next.saturating_since(clock.now()));
            tokio::select! {
                biased;
                answer = &mut request => return Waited::Answer(answer),
                () = sleep(left), if next.is_some() => {
                    let now = clock.now();
                    if self.answer_by.is_some_and(|by| now >= by) {
                        return Waited::OutOfBudget;
                    }
                    if self.notice_at.is_some_and(|at| now >= at) {
                        self.notice_at = None;
                        return Waited::Noticed;
                    }
                }
            }
        }
    }
}
