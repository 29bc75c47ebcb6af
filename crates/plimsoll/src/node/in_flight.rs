//! Owns the count of calls being answered, so that a leader can wait for its last reply.

use tokio::sync::watch;

/// Counts calls from [`Self::enter`] to the drop of what it gives.
#[derive(Debug)]
pub(crate) struct InFlight(watch::Sender<usize>);

/// One call.
#[derive(Debug)]
pub(crate) struct Entered(watch::Sender<usize>);

impl Default for InFlight {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl InFlight {
    /// A call begins.
    pub(crate) fn enter(&self) -> Entered {
        self.0.send_modify(|n| *n += 1);
        Entered(self.0.clone())
    }

    /// How many there are.
    pub(crate) fn now(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until there is none.
    pub(crate) async fn none(&self) {
        // The sender is ours, so the channel cannot close.
        let _ = self.0.subscribe().wait_for(|n| *n == 0).await;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn none_waits_for_the_last_call() {
        let calls = InFlight::default();
        calls.none().await;
        let (first, second) = (calls.enter(), calls.enter());
        drop(first);
        assert_eq!(calls.now(), 1);
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), calls.none()).await;
        assert!(waits.is_err(), "one call is left");
        drop(second);
        calls.none().await;
    }
}
