//! Owns the answer to "who leads?": read from the store at most every so often, however many clients ask.

use std::sync::Arc;
use std::time::Duration;

use leadership::Elector;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How old an answer may be: a client that is sent to a dead leader comes back.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// Asks the store who leads.
#[derive(Debug)]
pub(crate) struct LeaderLookup {
    elector: Arc<Elector>,
    last: Mutex<Option<(Instant, Option<String>)>>,
}

impl LeaderLookup {
    /// Asks through `elector`.
    pub(crate) fn new(elector: Arc<Elector>) -> Self {
        Self { elector, last: Mutex::default() }
    }

    /// What it asks through.
    pub(crate) fn elector(&self) -> &Elector {
        &self.elector
    }

    /// The leader's address, or `None` if there is none or the store does not answer.
    pub(crate) async fn address(&self) -> Option<String> {
        let mut last = self.last.lock().await;
        if let Some((at, known)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return known.clone();
        }
        let address = match self.elector.leader().await {
            Ok(value) => value.and_then(|v| String::from_utf8(v.to_vec()).ok()),
            Err(error) => {
                tracing::debug!(%error, "the store did not say who leads");
                None
            }
        };
        *last = Some((Instant::now(), address.clone()));
        address
    }
}
