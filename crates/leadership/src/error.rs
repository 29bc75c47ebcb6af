//! Owns why a campaign cannot go on.

use std::time::Duration;

use ha_kv::KvError;

/// Why a campaign ended without a term. Everything that time or an operator can cure is waited for instead.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The store will never answer what a campaign asks.
    #[error("the election cannot be held in this store: {0}")]
    Store(#[source] KvError),
    /// The granted lease leaves no time to act.
    #[error(
        "the store granted a lease of {granted:?}, which is not longer than the margin of {margin:?}; lower the margin"
    )]
    TtlTooShort {
        /// The granted TTL.
        granted: Duration,
        /// The margin.
        margin: Duration,
    },
}
