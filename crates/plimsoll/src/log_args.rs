//! Owns how a log is named on the command line, and opened by the commands that work on it beside the nodes.

use std::sync::Arc;

use anyhow::bail;
use clap::{Args, value_parser};
use ha_types::{Clock, ClusterId, Entropy, SystemClock, SystemEntropy};
use oplog_core::{BatchStorage, LogKeys, OpenOptions};

use crate::config::{BATCH_MAX_BYTES, BATCH_MAX_BYTES_RANGE};
use crate::store::{self, IfAbsent, Store};
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

/// What a command that writes must know besides, as `serve` does.
#[derive(Clone, Debug, Args)]
pub(crate) struct WriteArgs {
    /// The nodes' oplog_batch_max_bytes: the store must take so much at once
    #[arg(long, value_name = "BYTES", env = "PLIMSOLL_OPLOG_BATCH_MAX_BYTES", default_value = BATCH_MAX_BYTES,
          value_parser = value_parser!(u64).range(BATCH_MAX_BYTES_RANGE))]
    oplog_batch_max_bytes: u64,
    /// Take a store that may lose acknowledged writes
    #[arg(long)]
    accept_lost_writes: bool,
}

impl LogArgs {
    /// Opens the log; nothing can be written through it. `who` names this process to the store.
    ///
    /// # Errors
    /// The store cannot be opened, or is inside another process.
    pub(crate) async fn open_for_reading(&self, who: &str) -> anyhow::Result<BatchStorage> {
        let (store, keys) = self.open_store(who).await?;
        Ok(BatchStorage::open_for_reading(store.txn, keys))
    }

    /// Opens the log for writing. `who` names this process to the store.
    ///
    /// # Errors
    /// As [`Self::open_for_reading`], and if the store does not promise or take what a log needs.
    pub(crate) async fn open_for_writing(&self, who: &str, write: &WriteArgs) -> anyhow::Result<BatchStorage> {
        let (store, keys) = self.open_store(who).await?;
        let options = OpenOptions {
            max_batch_bytes: usize::try_from(write.oplog_batch_max_bytes)?,
            accept_lost_writes: write.accept_lost_writes,
        };
        Ok(store::open_log(&store.txn, keys, options).await?)
    }

    async fn open_store(&self, who: &str) -> anyhow::Result<(Store, LogKeys)> {
        if self.store == StoreUrl::Memory {
            bail!(
                "a memory: store is inside its own process; name sqlite:///PATH, etcd://HOST:PORT or redis://HOST:PORT"
            );
        }
        let keys = LogKeys::new(&self.oplog_root, &self.cluster)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        Ok((store::open(&self.store, IfAbsent::Refuse, who, clock, entropy).await?, keys))
    }
}
