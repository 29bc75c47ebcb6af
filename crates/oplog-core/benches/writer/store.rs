//! Owns the stores that are measured, and a fresh log in them for every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::{MemoryKv, SqliteKv, SqliteOptions, TxnKv, prefix_end};
use ha_types::{AlwaysLeads, ClusterId, Seq, SystemClock, SystemEntropy};
use oplog_core::{
    ApplyError, BatchStorage, ClaimedLog, EntryRef, LogKeys, OpenOptions, Replica, StateMachine, claim_and_verify,
};

use crate::slow::SlowKv;

/// A store to be measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Store {
    Memory { delay_ms: u64 },
    Sqlite,
    Etcd,
    Redis,
}

/// An open store.
pub(crate) struct Opened {
    pub(crate) store: Store,
    /// `None`: a fresh memory store for every run.
    shared: Option<Arc<dyn TxnKv>>,
    runs: AtomicU64,
    _directory: Option<tempfile::TempDir>,
}

/// A log in a store.
pub(crate) struct Log {
    pub(crate) claimed: ClaimedLog,
    pub(crate) storage: BatchStorage,
}

impl Store {
    pub(crate) fn all() -> [Self; 6] {
        let memory = |delay_ms| Self::Memory { delay_ms };
        [memory(0), memory(1), memory(5), Self::Sqlite, Self::Etcd, Self::Redis]
    }

    pub(crate) fn backend(self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::Sqlite => "sqlite",
            Self::Etcd => "etcd",
            Self::Redis => "redis",
        }
    }

    pub(crate) fn delay_ms(self) -> u64 {
        match self {
            Self::Memory { delay_ms } => delay_ms,
            Self::Sqlite | Self::Etcd | Self::Redis => 0,
        }
    }

    /// How long one run lasts.
    pub(crate) fn slice(self) -> Duration {
        Duration::from_millis(match self {
            Self::Memory { delay_ms: 0 } => 200,
            Self::Memory { delay_ms: 1 } => 250,
            Self::Memory { .. } => 400,
            Self::Sqlite | Self::Etcd | Self::Redis => 500,
        })
    }

    pub(crate) async fn open(self) -> Result<Opened, String> {
        let mut directory = None;
        let shared: Option<Arc<dyn TxnKv>> = match self {
            Self::Memory { .. } => None,
            Self::Sqlite => {
                let place = tempfile::tempdir().map_err(|e| e.to_string())?;
                let options = SqliteOptions::new(place.path().join("bench.db"));
                let clock = Arc::new(SystemClock::new());
                let kv = SqliteKv::open(options, clock, Arc::new(SystemEntropy)).await.map_err(|e| e.to_string())?;
                directory = Some(place);
                Some(Arc::new(kv))
            }
            Self::Etcd => Some(etcd().await?),
            Self::Redis => Some(redis().await?),
        };
        Ok(Opened { store: self, shared, runs: AtomicU64::new(0), _directory: directory })
    }
}

#[cfg(feature = "bench-etcd")]
async fn etcd() -> Result<Arc<dyn TxnKv>, String> {
    let endpoint =
        std::env::var("PLIMSOLL_ETCD_ENDPOINT").map_err(|_| "PLIMSOLL_ETCD_ENDPOINT names none".to_owned())?;
    let endpoint = if endpoint.contains("://") { endpoint } else { format!("http://{endpoint}") };
    let connected = ha_kv::EtcdKv::connect(ha_kv::EtcdOptions::new([endpoint])).await;
    Ok(Arc::new(connected.map_err(|e| e.to_string())?))
}

#[cfg(not(feature = "bench-etcd"))]
async fn etcd() -> Result<Arc<dyn TxnKv>, String> {
    Err("the bench was built without the feature `bench-etcd`".into())
}

#[cfg(feature = "bench-redis")]
async fn redis() -> Result<Arc<dyn TxnKv>, String> {
    let endpoint =
        std::env::var("PLIMSOLL_REDIS_ENDPOINT").map_err(|_| "PLIMSOLL_REDIS_ENDPOINT names none".to_owned())?;
    let connected = ha_kv::RedisKv::connect(ha_kv::RedisOptions::single(endpoint), Arc::new(SystemEntropy)).await;
    Ok(Arc::new(connected.map_err(|e| e.to_string())?))
}

#[cfg(not(feature = "bench-redis"))]
async fn redis() -> Result<Arc<dyn TxnKv>, String> {
    Err("the bench was built without the feature `bench-redis`".into())
}

impl Opened {
    /// The place of a log that nobody has begun.
    pub(crate) async fn place(&self) -> BatchStorage {
        let kv: Arc<dyn TxnKv> = match (&self.shared, self.store.delay_ms()) {
            (Some(kv), _) => Arc::clone(kv),
            (None, 0) => Arc::new(MemoryKv::new()),
            (None, ms) => SlowKv::new(Duration::from_millis(ms)),
        };
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        place_in(kv, &format!("bench-{}-{run}", std::process::id())).await
    }

    /// A fresh log, claimed.
    pub(crate) async fn log(&self) -> Log {
        Log::begin(self.place().await).await
    }
}

/// The place of a log in `kv` that nobody has begun.
pub(crate) async fn place_in(kv: Arc<dyn TxnKv>, cluster: &str) -> BatchStorage {
    let keys = LogKeys::of(&ClusterId::new(cluster).expect("an id"));
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    BatchStorage::open(kv, keys, options).await.expect("the log opens")
}

impl Log {
    /// Begins the log and claims it.
    pub(crate) async fn begin(storage: BatchStorage) -> Self {
        storage.create_first_prefix().await.expect("the first prefix");
        let (clock, pause) = (SystemClock::new(), Duration::from_millis(1));
        let claim =
            claim_and_verify(storage.clone(), Replica::empty(Nothing), &AlwaysLeads, &clock, &SystemEntropy, pause);
        let (_, claimed) = claim.await.expect("the claim").into_parts();
        Self { claimed, storage }
    }

    /// Removes a log that was measured, so that a file or a quota does not fill.
    pub(crate) async fn remove(storage: &BatchStorage) {
        let prefix = storage.keys().durable_prefix();
        let base = &prefix[..prefix.len() - "durable_prefix".len()];
        let end = prefix_end(base).expect("a prefix of text");
        storage.kv().delete_range(base, &end).await.expect("the log is removed");
    }
}

/// The log is new: there is nothing to apply.
#[derive(Debug)]
pub(crate) struct Nothing;

impl StateMachine for Nothing {
    fn last_applied(&self) -> Seq {
        Seq::ZERO
    }

    fn apply(&mut self, _: EntryRef<'_>) -> Result<(), ApplyError> {
        Err(ApplyError { reason: "the log of a benchmark is new".into() })
    }
}
