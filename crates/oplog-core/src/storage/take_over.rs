//! Owns the take-over of a log that Mooncake writes, as the store sees it: what is read before, and the one transaction.

use bytes::Bytes;
use ha_kv::{Compare, Effect, KvError, KvErrorKind, KvPair, Txn, TxnOutcome};
use ha_types::Epoch;

use super::BatchStorage;
use crate::mooncake::{PREFIX_START, ProducerView};
use crate::{DurablePrefix, FaultKind, LogError, LogKeys, ReplayFault};

/// The operator's word that a log of Mooncake's may be taken over. There is no way back: Mooncake cannot read what we write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    /// The operator's word that the primary of the old kind has stopped, though its election key may still exist and its prefix
    /// may have moved a moment ago.
    pub old_primary_stopped: bool,
}

/// What a take-over compares, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OldLog {
    /// The durable prefix, byte for byte.
    pub(crate) prefix: Bytes,
    /// The producer view, byte for byte.
    pub(crate) view: Option<Bytes>,
    /// The election of the old kind.
    pub(crate) election: Option<Bytes>,
}

impl BatchStorage {
    /// The same log, which may be taken over from Mooncake.
    #[must_use]
    pub fn permit_take_over(mut self, take_over: TakeOver) -> Self {
        self.take_over = Some(take_over);
        self
    }

    /// Whether the log may be taken over, and how.
    #[must_use]
    pub fn take_over_permitted(&self) -> Option<TakeOver> {
        self.take_over
    }

    /// What a take-over compares; `None` unless the prefix is Mooncake's.
    pub(crate) async fn read_old_log(&self) -> Result<Option<OldLog>, LogError> {
        let Some(prefix) = self.kv.get(&self.keys.durable_prefix()).await? else { return Ok(None) };
        if prefix.first() != Some(&PREFIX_START) {
            return Ok(None);
        }
        let view = self.kv.get(&self.keys.producer_view()).await?;
        let election = self.kv.get(&self.keys.old_master_view()).await?;
        Ok(Some(OldLog { prefix, view, election }))
    }

    /// The next producer view: one above the one that is there.
    pub(crate) fn next_view(&self, old: &OldLog) -> Result<ProducerView, LogError> {
        next_view(&self.keys, old)
    }

    /// The take-over (design §3.4): if prefix and producer view are byte for byte what they were, and nobody of the old kind is
    /// elected that was not when `old` was read, makes the prefix `new`, the same boundary under epoch 1, and the view `view`.
    ///
    /// # Errors
    /// [`KvError`]; `InvalidArgument` with nothing sent if `new` is no take-over of `old`.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome unknown.
    pub(crate) async fn take_over(
        &self,
        old: &OldLog,
        new: &DurablePrefix,
        view: ProducerView,
    ) -> Result<TxnOutcome, KvError> {
        self.kv.txn(&take_over_txn(&self.keys, old, new, view)?).await
    }
}

pub(crate) fn next_view(keys: &LogKeys, old: &OldLog) -> Result<ProducerView, LogError> {
    let Some(view) = &old.view else { return Ok(ProducerView::FIRST) };
    let key = keys.producer_view();
    let expected = "a decimal from 1 to 2^63 - 2, without sign or leading zeros";
    let next = ProducerView::decode(view).ok().and_then(ProducerView::next);
    let found = format_args!("\"{}\"", view.get(..32).unwrap_or(view).escape_ascii());
    next.ok_or_else(|| ReplayFault::new(FaultKind::ForeignState, &key, expected, found).into())
}

/// The transaction of the take-over of `old`, or `InvalidArgument` if `new` is no take-over of it.
pub(crate) fn take_over_txn(
    keys: &LogKeys,
    old: &OldLog,
    new: &DurablePrefix,
    view: ProducerView,
) -> Result<Txn, KvError> {
    let key = keys.durable_prefix();
    let boundary = DurablePrefix::decode(&old.prefix).ok().filter(|old| old.epoch == Epoch::ZERO);
    let follows = boundary.is_some_and(|old| old.same_boundary(new) && old.epoch.next() == Some(new.epoch));
    if !(follows && new.check().is_ok()) {
        let message = format!("({new}) is no take-over of \"{}\"", old.prefix.escape_ascii());
        return Err(KvError::new(KvErrorKind::InvalidArgument, Effect::NotApplied, message).with_key(&key));
    }
    let as_read = |key: Bytes, value: &Option<Bytes>| match value {
        Some(value) => Compare::ValueEquals { key, value: value.clone() },
        None => Compare::KeyAbsent { key },
    };
    let compares = vec![
        Compare::ValueEquals { key: key.clone(), value: old.prefix.clone() },
        as_read(keys.producer_view(), &old.view),
        as_read(keys.old_master_view(), &old.election),
    ];
    let puts = vec![KvPair::new(key, new.encode()), KvPair::new(keys.producer_view(), view.encode())];
    Ok(Txn { compares, puts, deletes: Vec::new() })
}
