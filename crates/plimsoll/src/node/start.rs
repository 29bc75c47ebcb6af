//! Owns what must succeed before a node takes part: the store answers, promises enough, and takes a full batch.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use ha_kv::{ErrorClass, KvError};
use ha_types::{Backoff, Clock, Entropy};
use oplog_core::{BatchStorage, LogError, LogKeys, OpenOptions, TakeOver};

use crate::config::Config;
use crate::store::{self, IfAbsent, OpenError, Store};

/// For so long a store that does not answer yet is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens the store and the log in it. A store that is not up yet is waited for; what waiting cannot cure is reported at once.
///
/// # Errors
/// One sentence that names the store and the remedy.
pub(crate) async fn open(
    config: &Config,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
) -> anyhow::Result<(Store, BatchStorage)> {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
    let give_up = clock.now().saturating_add(PATIENCE);
    loop {
        let failed = match attempt(config, &clock, &entropy).await {
            Ok(opened) => return Ok(opened),
            Err(failed) => failed,
        };
        if !failed.may_pass || clock.now() >= give_up {
            return Err(failed.error);
        }
        tracing::warn!(error = %failed.error, "the store is not ready; trying again");
        tokio::time::sleep(backoff.next_pause(&*entropy)).await;
    }
}

struct Failed {
    error: anyhow::Error,
    may_pass: bool,
}

async fn attempt(
    config: &Config,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> Result<(Store, BatchStorage), Failed> {
    let transient = |e: &KvError| e.class() == ErrorClass::Transient;
    let fatal = |error| Failed { error, may_pass: false };
    let holder = format!("{} (pid {})", config.node, std::process::id());
    let store = store::open(&config.store, IfAbsent::Create, &holder, Arc::clone(clock), Arc::clone(entropy)).await;
    let store = store.map_err(|e| {
        let may_pass = matches!(&e, OpenError::Store { error, .. } if transient(error));
        Failed { error: e.into(), may_pass }
    })?;
    let keys = LogKeys::new(&config.oplog_root, &config.cluster).map_err(|e| fatal(e.into()))?;
    let options = OpenOptions {
        max_batch_bytes: config.writer.oplog_batch_max_bytes,
        accept_lost_writes: config.accept_lost_writes,
    };
    match store::open_log(&store.txn, keys, options).await {
        Ok(storage) => Ok((store, permitted(storage, config.take_over))),
        Err(LogError::Store(error)) => {
            Err(Failed { may_pass: transient(&error), error: anyhow!("the store {} failed: {error}", config.store) })
        }
        Err(error @ (LogError::Refused(_) | LogError::Fault(_))) => Err(fatal(error.into())),
    }
}

/// The log, with the operator's word on taking it over.
fn permitted(storage: BatchStorage, take_over: Option<TakeOver>) -> BatchStorage {
    match take_over {
        Some(take_over) => storage.permit_take_over(take_over),
        None => storage,
    }
}
