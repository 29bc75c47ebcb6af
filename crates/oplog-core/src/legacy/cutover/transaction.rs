//! Owns the one transaction of the cutover, and finding out what became of it.

use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Compare, ErrorClass, KvError, KvErrorKind, KvPair, Txn, TxnOutcome};
use ha_types::{Backoff, BatchId, Seq};

use super::looks::Look;
use super::plan::{check_found, other_state};
use super::{CutoverDone, CutoverError, CutoverPlan};
use crate::legacy::base_of;
use crate::{DurablePrefix, FirstPrefix, LogError, LogKeys, StateMachine};

/// How often a store that does not answer is asked.
const ATTEMPTS: u32 = 12;

const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl<S: StateMachine> CutoverPlan<S> {
    /// Creates the first prefix `{0, base}`, if there is none and `latest` and the election key are as they were looked at. From then
    /// on no legacy writer of ours can write (L14).
    ///
    /// Two at once: one creates, the other reads what it created. What was planned long ago is still safe, as the transaction compares
    /// all that the plan rests on.
    ///
    /// # Errors
    /// [`CutoverError`]: `OldPrimaryWrites` if `latest` or the election key changed; `Unknown` if the store gave no answer, after
    /// which the whole cutover is run again.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it unknown whether the log was cut over; run it again.
    pub async fn execute(self) -> Result<CutoverDone<S>, CutoverError> {
        if self.storage.max_batch_bytes() == 0 {
            let why = "the log was opened for reading only; open it for writing to cut it over".to_owned();
            return Err(LogError::Refused(why).into());
        }
        let txn = self.transaction();
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        let (mut unknown, mut attempt) = (None, 0);
        loop {
            attempt += 1;
            match self.attempt(&txn, &mut unknown).await {
                Ok(Some((prefix, base))) => return Ok(self.done(prefix, base)),
                // The same transaction again: whichever lands first makes the others fail their compare.
                Ok(None) if attempt < ATTEMPTS => {}
                Ok(None) => {
                    let silent =
                        || KvError::read(KvErrorKind::Unavailable, "the store did not create the first prefix");
                    return Err(CutoverError::Unknown(unknown.take().unwrap_or_else(silent)));
                }
                Err(CutoverError::Log(LogError::Store(e)))
                    if e.class() != ErrorClass::Permanent && attempt < ATTEMPTS => {}
                // An attempt that may still land: nobody may be told that nothing was changed.
                Err(error) => return Err(unknown.take().map_or(error, CutoverError::Unknown)),
            }
            tokio::time::sleep(pauses.next_pause(&*self.env.entropy)).await;
        }
    }

    fn transaction(&self) -> Txn {
        let (latest, master_view) = (self.look.latest.as_ref(), self.look.master_view.as_ref());
        cutover_txn(self.log.keys(), latest, master_view, &self.first)
    }

    /// One attempt, and a look at what became of it; `None` if nothing did yet.
    async fn attempt(
        &self,
        txn: &Txn,
        unknown: &mut Option<KvError>,
    ) -> Result<Option<(FirstPrefix, Seq)>, CutoverError> {
        match self.log.kv().txn(txn).await {
            Ok(TxnOutcome::Committed) => return Ok(Some((FirstPrefix::Created(self.first), self.base()))),
            Ok(TxnOutcome::CompareFailed) => {}
            Err(error) if error.is_unknown() => *unknown = Some(error),
            Err(error) => return Err(error.into()),
        }
        if let Some(found) = self.log.read_prefix().await? {
            return self.judge(found, unknown.is_some()).await.map(Some);
        }
        // Something that was compared has changed. A prefix that appears meanwhile is seen by the next attempt.
        let now = Look::take(&self.log, &*self.env.clock).await?;
        self.look.check_same(&now, &self.log)?;
        if let Some(fault) = other_state(&self.log).await?
            && self.log.read_prefix().await?.is_none()
        {
            return Err(fault.into());
        }
        Ok(None)
    }

    /// The prefix that is there, mine or the winner's, and its base. A base that cannot be read is no verdict: the prefix may be what
    /// an attempt of mine created and somebody has claimed since.
    async fn judge(&self, found: DurablePrefix, may_be_mine: bool) -> Result<(FirstPrefix, Seq), CutoverError> {
        if may_be_mine && found == self.first {
            return Ok((FirstPrefix::Created(found), self.base()));
        }
        let base = base_of(&self.storage, &found).await?;
        if base != self.base() {
            check_found(&self.log, self.options.last_seq, &found)?;
        }
        Ok((FirstPrefix::Found(found), base))
    }

    fn done(self, prefix: FirstPrefix, base: Seq) -> CutoverDone<S> {
        let replica = self.replica.into_replica(base).ok();
        CutoverDone { prefix, base, replica, holes: self.holes, above: self.above }
    }
}

/// The transaction: no durable prefix, no first batch, and the old primary's keys as they were read.
pub(crate) fn cutover_txn(
    keys: &LogKeys,
    latest: Option<&Bytes>,
    master_view: Option<&Bytes>,
    first: &DurablePrefix,
) -> Txn {
    let key = keys.durable_prefix();
    let as_read = |key: Bytes, value: Option<&Bytes>| match value {
        Some(value) => Compare::ValueEquals { key, value: value.clone() },
        None => Compare::KeyAbsent { key },
    };
    let compares = vec![
        Compare::KeyAbsent { key: key.clone() },
        Compare::KeyAbsent { key: keys.batch(BatchId::new(1)) },
        as_read(keys.legacy_latest(), latest),
        as_read(keys.old_master_view(), master_view),
    ];
    Txn { compares, puts: vec![KvPair::new(key, first.encode())], deletes: Vec::new() }
}
