//! Owns reading what a group whose fate is open has left in the store. What it means is `judge`'s.

use std::sync::Arc;

use bytes::Bytes;
use ha_types::Seq;

use super::judge::Reading;
use super::shared::Shared;
use crate::legacy::{LegacyLog, base_of};
use crate::{BatchStorage, DurablePrefix, LogError};

/// Prefix, then `latest`, then the `count` entries from `first` to `last`: the order is what `judge` rests on.
pub(super) async fn look(shared: &Shared, first: Seq, last: Seq, count: usize) -> Result<Reading, LogError> {
    let log = &shared.log;
    let prefix = match log.read_prefix().await? {
        None => None,
        Some(prefix) => Some((prefix, base(log, &prefix).await?)),
    };
    let latest = log.kv().get(&log.keys().legacy_latest()).await?;
    let mut stored: Vec<Option<Bytes>> = vec![None; count];
    let before = Seq::new(first.get().saturating_sub(1));
    let mut scan = log.scan(before, last, shared.limits().bytes);
    loop {
        let page = scan.next_page().await?;
        if page.is_empty() {
            return Ok(Reading { prefix, latest, stored });
        }
        for (seq, value) in page {
            let at = usize::try_from(seq.distance_from(first)).ok();
            if let Some(slot) = at.and_then(|at| stored.get_mut(at)) {
                *slot = Some(value);
            }
        }
    }
}

/// The base, or `None` if only a snapshot could tell.
async fn base(log: &LegacyLog, prefix: &DurablePrefix) -> Result<Option<Seq>, LogError> {
    let storage = BatchStorage::open_for_reading(Arc::clone(log.kv()), log.keys().clone());
    match base_of(&storage, prefix).await {
        Ok(base) => Ok(Some(base)),
        Err(LogError::Fault(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
