//! Owns opening the store that a URL names, and the log in it. What the store promises is judged by the log, not here.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(any(feature = "etcd", feature = "redis"))]
mod files;
#[cfg(feature = "redis")]
mod redis;

use std::sync::Arc;

use ha_kv::{KvError, LeaseKv, MemoryKv, SqliteKv, SqliteOptions, TxnKv, WatchKv};
use ha_types::{Clock, Entropy};
use oplog_core::{BatchStorage, LogError, LogKeys, OpenOptions};

use crate::store_url::{SqliteUrl, StoreUrl};

/// An open store, by what it can do.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// Reads and transactions.
    pub(crate) txn: Arc<dyn TxnKv>,
    /// Leases.
    pub(crate) lease: Arc<dyn LeaseKv>,
    /// Hints.
    pub(crate) watch: Arc<dyn WatchKv>,
}

impl Store {
    fn of<S: TxnKv + LeaseKv + WatchKv>(store: S) -> Self {
        let store = Arc::new(store);
        Self { txn: Arc::clone(&store) as _, lease: Arc::clone(&store) as _, watch: store }
    }
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The store said so.
    #[error("the store {url} cannot be used: {error}")]
    Store {
        /// Which.
        url: Box<StoreUrl>,
        /// What it said.
        error: KvError,
    },
    /// A file that the URL names, or this build.
    #[error("{0}")]
    Other(String),
}

/// Whether a missing SQLite file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    /// It is made: a node starts.
    Create,
    /// It is an error: somebody looks.
    Refuse,
}

/// Opens the store. `holder` names this process to the store, for people.
///
/// # Errors
/// [`OpenError`], one sentence.
pub(crate) async fn open(
    url: &StoreUrl,
    if_absent: IfAbsent,
    holder: &str,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> Result<Store, OpenError> {
    let failed = |error| OpenError::Store { url: Box::new(url.clone()), error };
    match url {
        StoreUrl::Memory => Ok(Store::of(MemoryKv::with_clock(clock))),
        StoreUrl::Sqlite(sqlite) => {
            if if_absent == IfAbsent::Refuse && !sqlite.path.exists() {
                let path = sqlite.path.display();
                return Err(OpenError::Other(format!("there is no file {path}; name the file that `serve` uses")));
            }
            let store = SqliteKv::open(sqlite_options(sqlite, holder), clock, entropy).await;
            store.map(Store::of).map_err(failed)
        }
        #[cfg(feature = "etcd")]
        StoreUrl::Etcd(url) => etcd::open(url).await,
        #[cfg(not(feature = "etcd"))]
        StoreUrl::Etcd(_) => Err(OpenError::Other(WITHOUT_ETCD.to_owned())),
        #[cfg(feature = "redis")]
        StoreUrl::Redis(url) => redis::open(url, entropy).await,
        #[cfg(not(feature = "redis"))]
        StoreUrl::Redis(_) => Err(OpenError::Other(WITHOUT_REDIS.to_owned())),
    }
}

/// Opens the log in the store for writing.
///
/// # Errors
/// As [`BatchStorage::open`]; where the operator's word is missing, the refusal names the flag that gives it.
pub(crate) async fn open_log(
    kv: &Arc<dyn TxnKv>,
    keys: LogKeys,
    options: OpenOptions,
) -> Result<BatchStorage, LogError> {
    let word_missing = !options.accept_lost_writes && !kv.capabilities().durable_ack.is_yes();
    BatchStorage::open(Arc::clone(kv), keys, options).await.map_err(|error| match error {
        LogError::Refused(why) if word_missing => LogError::Refused(format!("{why} (--accept-lost-writes)")),
        other => other,
    })
}

/// Said wherever an etcd URL meets a build without etcd.
#[cfg(not(feature = "etcd"))]
pub(crate) const WITHOUT_ETCD: &str =
    "the store is an etcd URL, but this plimsoll was built without etcd; build it with `cargo build --features etcd`";

/// Said wherever a Redis URL meets a build without Redis.
#[cfg(not(feature = "redis"))]
pub(crate) const WITHOUT_REDIS: &str =
    "the store is a Redis URL, but this plimsoll was built without Redis; build it with `cargo build --features redis`";

fn sqlite_options(url: &SqliteUrl, holder: &str) -> SqliteOptions {
    let mut options = SqliteOptions::new(&url.path);
    holder.clone_into(&mut options.holder);
    options.busy_timeout = url.busy_timeout.unwrap_or(options.busy_timeout);
    options.max_file_bytes = url.max_file_bytes.map(|b| b as u64).or(options.max_file_bytes);
    options.allow_fuse = url.allow_fuse;
    options
}
