//! Owns the transactions that move the durable prefix: what each compares and puts. Pure; sends nothing.

use bytes::Bytes;
use ha_kv::{Compare, Effect, KvError, KvErrorKind, KvPair, Txn};

use crate::{DurablePrefix, LogKeys};

/// The append of RFC batch record §10: if the prefix is `expected`, `record` and the prefix `new`.
///
/// # Errors
/// `InvalidArgument` if `new` does not follow `expected` by one batch under the same claim.
pub(crate) fn append_txn(
    keys: &LogKeys,
    expected: &DurablePrefix,
    new: &DurablePrefix,
    record: Bytes,
) -> Result<Txn, KvError> {
    let key = keys.batch(new.batch_id);
    let same_claim = expected.epoch == new.epoch && expected.owner == new.owner;
    let next = expected.batch_id.next() == Some(new.batch_id) && expected.last_seq < new.last_seq;
    if !(same_claim && next && expected.check().is_ok() && new.check().is_ok()) {
        let message = format!("a batch cannot move the durable prefix from ({expected}) to ({new})");
        return Err(KvError::new(KvErrorKind::InvalidArgument, Effect::NotApplied, message).with_key(&key));
    }
    Ok(move_prefix(keys, expected, new, vec![KvPair { key, value: record }]))
}

/// The claim: if the prefix is `expected`, the same boundary under the next epoch and another owner.
///
/// # Errors
/// `InvalidArgument` if `new` is no claim of `expected`.
pub(crate) fn claim_txn(keys: &LogKeys, expected: &DurablePrefix, new: &DurablePrefix) -> Result<Txn, KvError> {
    let next = expected.epoch.next() == Some(new.epoch) && expected.same_boundary(new);
    if !(next && expected.owner != new.owner && expected.check().is_ok() && new.check().is_ok()) {
        let message = format!("({new}) is no claim of the durable prefix ({expected})");
        let error = KvError::new(KvErrorKind::InvalidArgument, Effect::NotApplied, message);
        return Err(error.with_key(&keys.durable_prefix()));
    }
    Ok(move_prefix(keys, expected, new, Vec::new()))
}

fn move_prefix(keys: &LogKeys, expected: &DurablePrefix, new: &DurablePrefix, mut puts: Vec<KvPair>) -> Txn {
    let key = keys.durable_prefix();
    puts.push(KvPair::new(key.clone(), new.encode()));
    Txn { compares: vec![Compare::ValueEquals { key, value: expected.encode().into() }], puts, deletes: Vec::new() }
}
