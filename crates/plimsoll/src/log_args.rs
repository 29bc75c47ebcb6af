//! Owns how a log that is only looked at is named on the command line, and opened.

use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use ha_types::{Clock, ClusterId, Entropy, SystemClock, SystemEntropy};
use oplog_core::{BatchStorage, LogKeys};

use crate::store::{self, IfAbsent};
use crate::store_url::StoreUrl;

/// Which log.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogArgs {
    /// The store: sqlite:///PATH, etcd://HOST:PORT[,...] or redis://HOST:PORT
    #[arg(long, value_name = "URL", env = "PLIMSOLL_STORE")]
    store: StoreUrl,
    /// Cluster id
    #[arg(long, env = "PLIMSOLL_CLUSTER", default_value = "default")]
    cluster: ClusterId,
    /// Root of the log's keys
    #[arg(long, env = "PLIMSOLL_OPLOG_ROOT", default_value = LogKeys::DEFAULT_ROOT)]
    oplog_root: String,
}

impl LogArgs {
    /// Opens the log; nothing can be written through it. `who` names this process to the store.
    ///
    /// # Errors
    /// The store cannot be opened, or is inside another process.
    pub(crate) async fn open_for_reading(&self, who: &str) -> anyhow::Result<BatchStorage> {
        if self.store == StoreUrl::Memory {
            bail!(
                "a memory: store is inside its own process; name sqlite:///PATH, etcd://HOST:PORT or redis://HOST:PORT"
            );
        }
        let keys = LogKeys::new(&self.oplog_root, &self.cluster)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let store = store::open(&self.store, IfAbsent::Refuse, who, clock, entropy).await?;
        Ok(BatchStorage::open_for_reading(store.txn, keys))
    }
}
