//! Owns waiting for real processes: by asking again, with a generous bound.

use std::time::{Duration, Instant};

/// What a loaded two-core machine may take.
const GENEROUS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// Asks until the answer is `Some`.
///
/// # Panics
/// If it is not within 30 s; the message says `what` was waited for.
pub async fn eventually<T>(what: &str, ask: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_within(GENEROUS, what, ask).await
}

/// Asks until the answer is `Some`.
///
/// # Panics
/// If it is not within `bound`; the message says `what` was waited for.
pub async fn eventually_within<T>(bound: Duration, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + bound;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within {bound:?}");
        tokio::time::sleep(PAUSE).await;
    }
}
