//! Owns why a log of Mooncake's was not taken over. Nothing was sent, or what was sent was refused.

use std::time::Duration;

/// Why a log of Mooncake's was not taken over. Nothing was changed; the replica can follow on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverRefused {
    /// Nobody said that it may be.
    #[error("Mooncake writes this log; it is followed, and taken over only if the operator says so")]
    NotPermitted,
    /// A primary of the old kind is elected.
    #[error("{key} exists, so a primary of Mooncake's may be alive; stop it, or say that it has stopped")]
    OldPrimaryElected {
        /// The key of the old election.
        key: String,
    },
    /// The old primary wrote while it was watched.
    #[error(
        "{key} changed within {watched:?}, so a primary of Mooncake's is alive; stop it, or say that it has stopped"
    )]
    OldPrimaryWrites {
        /// The key that changed.
        key: String,
        /// For how long it was to stay as it was.
        watched: Duration,
    },
}
