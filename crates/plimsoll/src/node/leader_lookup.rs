//! Owns the answer to "who leads?": read from the store at most every so often, however many clients ask.

use std::sync::Arc;
use std::time::Duration;

use leadership::{Elector, LeaderAddress};
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
            Ok(value) => value.and_then(|value| named(&value)),
            Err(error) => {
                tracing::debug!(%error, "the store did not say who leads");
                None
            }
        };
        *last = Some((Instant::now(), address.clone()));
        address
    }
}

/// The address under the election key. A client is sent nowhere but to an address: anybody may have written the key.
fn named(value: &[u8]) -> Option<String> {
    match LeaderAddress::decode(value) {
        Ok(address) => Some(address.to_string()),
        Err(error) => {
            tracing::warn!(%error, "the election key holds no leader's address; clients are told of none");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ha_kv::{Kv as _, MemoryKv};
    use ha_types::{ManualClock, SeededEntropy};
    use leadership::ElectionConfig;

    use super::*;

    /// Whatever lies under the election key, a client is sent to an address or nowhere.
    #[tokio::test(start_paused = true)]
    async fn what_is_no_address_is_told_to_nobody() {
        let (kv, clock) = (Arc::new(MemoryKv::new()), Arc::new(ManualClock::new()));
        let (key, us) = (Bytes::from("leader"), Bytes::from("us:1"));
        let entropy = Arc::new(SeededEntropy::new(1));
        let elector = Elector::new(kv.clone(), key.clone(), us, ElectionConfig::default(), clock, entropy).unwrap();
        let lookup = LeaderLookup::new(Arc::new(elector));
        assert_eq!(lookup.address().await, None, "nobody leads");
        let long = format!("{}:1", "h".repeat(1 << 20));
        for (value, told) in [
            ("10.0.0.1:7400", Some("10.0.0.1:7400")),
            (&*long, None),
            ("10.0.0.2:7400", Some("10.0.0.2:7400")),
            ("h\r\nx: y:1", None),
            ("nobody", None),
        ] {
            kv.put(&key, Bytes::copy_from_slice(value.as_bytes())).await.unwrap();
            tokio::time::sleep(FRESH_FOR).await;
            assert_eq!(lookup.address().await.as_deref(), told);
        }
    }
}
