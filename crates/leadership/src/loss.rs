//! Owns the reasons why a term ends.

use std::time::Duration;

/// Why leadership ended. It never comes back; only another campaign can win it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossReason {
    /// No keep-alive was confirmed in time: the store hangs, is away, or this process was stopped.
    #[error("no keep-alive was confirmed in time{}", after(.last_error))]
    Expired {
        /// The last failure of a keep-alive, if one failed.
        last_error: Option<String>,
    },
    /// The store says that the lease is gone, or that it cannot keep it any longer.
    #[error("the store ended the lease: {message}")]
    LeaseLost {
        /// What the store said.
        message: String,
    },
    /// Given up on purpose.
    #[error("leadership was resigned")]
    Resigned,
    /// The store gave the log's writer no answer for a whole TTL (the stop rule), so another node shall try.
    #[error("the store gave the writer no answer for {silent_for:?}, a whole TTL")]
    StoreSilent {
        /// How long there was no answer.
        silent_for: Duration,
    },
    /// The [`Leadership`](crate::Leadership) was dropped.
    #[error("the holder of leadership was dropped")]
    Dropped,
}

fn after(last_error: &Option<String>) -> String {
    last_error.as_ref().map_or_else(String::new, |e| format!("; the last attempt failed: {e}"))
}
