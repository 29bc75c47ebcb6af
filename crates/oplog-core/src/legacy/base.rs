//! Owns the base: the last entry of the legacy log that counts once the log was cut over, and the alarm about entries above it.

use ha_types::{BatchId, Seq};

use super::{LegacyEntry, LegacyLog};
use crate::record::BatchRecord;
use crate::{BatchStorage, DurablePrefix, FaultKind, LogError, ReplayFault};

/// Where the legacy log ends and the batches begin: `last_seq` of `prefix` while there is no batch, then the sequence before the
/// first of batch 1 (design §3.4). Zero for a log that never had legacy entries.
///
/// # Errors
/// [`LogError::Fault`] of kind `BaseNotHeld` if batch 1 is gone, so that only a snapshot could tell, or of the kind that says why
/// batch 1 cannot be read; [`LogError::Store`].
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn base_of(storage: &BatchStorage, prefix: &DurablePrefix) -> Result<Seq, LogError> {
    if prefix.batch_id == BatchId::ZERO {
        return Ok(prefix.last_seq);
    }
    let first = BatchId::new(1);
    let key = storage.keys().batch(first);
    let Some(record) = storage.read_batch(first).await? else {
        let expected = "batch 1, which says where the log was cut over";
        return Err(ReplayFault::new(FaultKind::BaseNotHeld, &key, expected, "no such key").into());
    };
    let batch = BatchRecord::decode(record).map_err(|e| ReplayFault::batch_undecodable(&key, &e))?;
    let header = batch.header();
    if header.batch_id != first {
        let found = format!("the record of batch {}", header.batch_id);
        return Err(ReplayFault::new(FaultKind::WrongBatchId, &key, "the record of batch 1", found).into());
    }
    Ok(Seq::new(header.first_seq.get().saturating_sub(1)))
}

/// The first legacy entry above `base`, as an alarm that names it: an old primary wrote on after the cutover, or `latest` lagged
/// behind it. It is not in the log, and no state may hold it.
///
/// # Errors
/// [`LogError::Store`].
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn entry_above_base(log: &LegacyLog, base: Seq) -> Result<Option<ReplayFault>, LogError> {
    let mut scan = log.scan(base, Seq::new(u64::MAX), 1).one_at_a_time();
    let page = scan.next_page().await?;
    Ok(page.first().map(|(seq, value)| above_base_fault(&log.keys().legacy_entry(*seq), *seq, value, base)))
}

/// The alarm about the entry under `key`, that of `seq`, which lies above `base`.
pub(crate) fn above_base_fault(key: &[u8], seq: Seq, value: &[u8], base: Seq) -> ReplayFault {
    let found = match LegacyEntry::decode_at(key, seq, value) {
        Ok(entry) => {
            let (op, tenant, object) = (entry.op_type, &entry.tenant, entry.key.escape_debug());
            format!("entry {seq}: op type {op} of tenant {tenant:?}, key \"{object}\"")
        }
        Err(error) => format!("entry {seq}, which cannot be read: {error}"),
    };
    let expected = format!("no legacy entry above the base {base}");
    ReplayFault::new(FaultKind::LegacyAboveBase, key, expected, found).at(seq)
}
