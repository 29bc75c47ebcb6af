//! Owns the bound on one request: no store can hold a campaign or a resignation up.

use std::future::Future;
use std::time::Duration;

use ha_kv::{Effect, KvError, KvErrorKind};

/// Waits at most `limit` for `request`, which then has an unknown outcome.
pub(crate) async fn bounded<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, KvError>>,
) -> Result<T, KvError> {
    tokio::time::timeout(limit, request).await.unwrap_or_else(|_| {
        Err(KvError::new(KvErrorKind::Timeout, Effect::Unknown, format!("the store gave no answer within {limit:?}")))
    })
}
