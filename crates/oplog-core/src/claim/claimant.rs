//! Owns one attempt at the log from the first read to the proof: I/O around [`judge`], and the retries.

use std::time::Duration;

use ha_kv::{ErrorClass, KvError, TxnOutcome};
use ha_types::{Backoff, BatchId, Clock, Entropy, LeaderGuard, Owner};

use super::ClaimError;
use super::silence::Silence;
use super::verdict::{Verdict, judge};
use crate::caught_up::{Claim, ClaimedLog};
use crate::record::BatchRecord;
use crate::{BatchStorage, DurablePrefix, FaultKind, LogError, Position, ReplayFault, Replica, StateMachine, catch_up};

/// How much a page of the catch-up holds.
const PAGE_BYTES: usize = 4 << 20;

/// The longest pause, as a multiple of the first.
const MAX_PAUSE_FACTOR: u32 = 16;

/// What a claim came to.
pub(super) enum Swap {
    /// The log is ours under this prefix.
    Claimed(DurablePrefix),
    /// The log is ours under this prefix, and was Mooncake's before.
    #[cfg(feature = "mooncake")]
    TakenOver(DurablePrefix),
    /// An older writer moved the prefix to here first.
    Moved(DurablePrefix),
}

pub(super) struct Claimant<'a, S> {
    pub(super) storage: BatchStorage,
    pub(super) replica: Replica<S>,
    guard: &'a dyn LeaderGuard,
    pub(super) clock: &'a dyn Clock,
    entropy: &'a dyn Entropy,
    backoff: Backoff,
    pub(super) silence: Silence,
    /// Where the replica stood when a read showed what only a second one may confirm. After progress it is another doubt.
    doubted_at: Option<Position>,
}

impl<'a, S: StateMachine> Claimant<'a, S> {
    pub(super) fn new(
        storage: BatchStorage,
        replica: Replica<S>,
        guard: &'a dyn LeaderGuard,
        clock: &'a dyn Clock,
        entropy: &'a dyn Entropy,
        retry_pause: Duration,
    ) -> Self {
        let backoff = Backoff::new(retry_pause, retry_pause.saturating_mul(MAX_PAUSE_FACTOR));
        let silence = Silence::new();
        Self { storage, replica, guard, clock, entropy, backoff, silence, doubted_at: None }
    }

    pub(super) async fn run(&mut self) -> Result<ClaimedLog, ClaimError> {
        let mut expected = self.caught_up_prefix().await?;
        let (prefix, from_mooncake) = loop {
            match self.claim(&expected).await? {
                Swap::Claimed(mine) => break (mine, false),
                #[cfg(feature = "mooncake")]
                Swap::TakenOver(mine) => break (mine, true),
                Swap::Moved(to) => expected = self.follow_to(to).await?,
            }
        };
        let claimed_at = self.clock.now();
        loop {
            match self.verify_and_catch_up(&prefix).await {
                Ok(()) => break,
                Err(error) => self.recover(error).await?,
            }
        }
        self.check_leadership()?;
        let position = self.replica.position();
        assert!(
            position.batch_id == prefix.batch_id && position.last_seq == prefix.last_seq,
            "catch-up ended at {position:?} and said it reached {prefix}"
        );
        let claim = Claim { epoch: prefix.epoch, owner: prefix.owner, claimed_at, from_mooncake };
        Ok(ClaimedLog { storage: self.storage.clone(), prefix, position, claim })
    }

    /// The prefix, once the replica has caught up with it and the batch it names is what the replica applied.
    async fn caught_up_prefix(&mut self) -> Result<DurablePrefix, ClaimError> {
        loop {
            let error = match self.storage.require_prefix().await {
                Ok(prefix) => match self.verify_and_catch_up(&prefix).await {
                    Ok(()) => return Ok(prefix),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            self.recover(error).await?;
        }
    }

    /// Catches up with what an older writer committed before our claim, in as few reads as can be: each gives it the time to
    /// commit once more.
    async fn follow_to(&mut self, moved: DurablePrefix) -> Result<DurablePrefix, ClaimError> {
        match catch_up(&self.storage, &mut self.replica, &moved, PAGE_BYTES).await {
            Ok(_) => Ok(moved),
            Err(error) => {
                self.recover(error).await?;
                self.caught_up_prefix().await
            }
        }
    }

    async fn verify_and_catch_up(&mut self, prefix: &DurablePrefix) -> Result<(), LogError> {
        catch_up(&self.storage, &mut self.replica, prefix, PAGE_BYTES).await?;
        if prefix.batch_id != BatchId::ZERO {
            self.verify_last_batch(prefix).await?;
        }
        self.doubted_at = None;
        self.silence.broken();
        self.backoff.reset();
        Ok(())
    }

    /// The batch that the prefix names must be readable, the right one, and the very record that the replica applied.
    async fn verify_last_batch(&self, prefix: &DurablePrefix) -> Result<(), LogError> {
        let id = prefix.batch_id;
        let key = self.storage.keys().batch(id);
        let record = self.storage.read_batch(id).await?.ok_or_else(|| ReplayFault::batch_missing(&key, id, prefix))?;
        let batch = BatchRecord::decode(record).map_err(|e| ReplayFault::batch_undecodable(&key, &e))?;
        let at = self.replica.position();
        if batch.header().batch_id != id {
            let found = format!("the record of batch {}", batch.header().batch_id);
            let expected = format!("the record of batch {id}");
            return Err(ReplayFault::new(FaultKind::WrongBatchId, &key, expected, found).into());
        }
        if batch.crc() != at.crc || batch.last_seq() != at.last_seq {
            let expected = format!("the record that was applied: crc {:08x}, last sequence {}", at.crc, at.last_seq);
            let found = format!("crc {:08x}, last sequence {}", batch.crc(), batch.last_seq());
            return Err(ReplayFault::new(FaultKind::BrokenChain, &key, expected, found).into());
        }
        Ok(())
    }

    /// Swaps `expected` for a claim of ours.
    async fn claim(&mut self, expected: &DurablePrefix) -> Result<Swap, ClaimError> {
        #[cfg(feature = "mooncake")]
        if expected.epoch == ha_types::Epoch::ZERO
            && let Some(swap) = self.take_over(expected).await?
        {
            return Ok(swap);
        }
        let mine = self.next_claim(expected)?;
        loop {
            self.check_leadership()?;
            match self.storage.claim(expected, &mine).await {
                Ok(TxnOutcome::Committed) => return Ok(Swap::Claimed(mine)),
                Ok(TxnOutcome::CompareFailed) => self.silence.broken(),
                Err(error) if error.is_unknown() => {
                    tracing::warn!(%error, epoch = mine.epoch.get(), "whether the claim was applied is unknown; reading the prefix");
                    if self.is_silent_too_long(&error)? {
                        return Err(LogError::from(error).into());
                    }
                }
                Err(error) => {
                    self.recover(error.into()).await?;
                    continue;
                }
            }
            match self.judged(expected, &mine).await? {
                Verdict::Claimed => return Ok(Swap::Claimed(mine)),
                Verdict::CatchUp(found) => return Ok(Swap::Moved(found)),
                Verdict::Superseded(found) => return Err(ClaimError::Superseded(found)),
                Verdict::Corrupt(found) => return Err(self.corrupt(expected, found).into()),
                Verdict::Resend => self.pause().await?,
            }
        }
    }

    /// Reads the prefix until it is answered; a verdict of *corrupt* stands only if a second read gives it too.
    pub(super) async fn judged(
        &mut self,
        expected: &DurablePrefix,
        mine: &DurablePrefix,
    ) -> Result<Verdict, ClaimError> {
        let mut confirmed = false;
        loop {
            match self.storage.read_prefix().await {
                Ok(found) => match judge(expected, mine, found) {
                    Verdict::Corrupt(_) if !confirmed => confirmed = true,
                    verdict => return Ok(verdict),
                },
                Err(error) => self.recover(error).await?,
            }
        }
    }

    pub(super) fn next_claim(&self, expected: &DurablePrefix) -> Result<DurablePrefix, ClaimError> {
        let mut owner = Owner::new(self.entropy.next_u64());
        while owner == Owner::NOBODY || owner == expected.owner {
            owner = Owner::new(self.entropy.next_u64());
        }
        let epoch = expected.epoch.next();
        let mine = epoch.map(|epoch| DurablePrefix { epoch, owner, ..*expected });
        mine.filter(|mine| mine.check().is_ok()).ok_or_else(|| {
            let message = format!("epoch {} leaves no room for another claim; start a new cluster", expected.epoch);
            LogError::Refused(message).into()
        })
    }

    pub(super) fn corrupt(&self, expected: &DurablePrefix, found: Option<DurablePrefix>) -> LogError {
        let key = self.storage.keys().durable_prefix();
        match found {
            None => ReplayFault::prefix_missing(&key).into(),
            Some(found) => {
                let expected = format!("what claims and appends can make of ({expected})");
                ReplayFault::new(FaultKind::PrefixRegressed, &key, expected, found).into()
            }
        }
    }

    pub(super) fn check_leadership(&self) -> Result<(), ClaimError> {
        if self.guard.holds() { Ok(()) } else { Err(ClaimError::NotLeader) }
    }

    pub(super) fn is_silent_too_long(&mut self, error: &KvError) -> Result<bool, ClaimError> {
        let (now, until) = (self.clock.now(), self.guard.serve_until().ok_or(ClaimError::NotLeader)?);
        Ok(self.silence.lasts_too_long(error, now, until.saturating_since(now)))
    }

    pub(super) async fn pause(&mut self) -> Result<(), ClaimError> {
        tokio::time::sleep(self.backoff.next_pause(self.entropy)).await;
        self.check_leadership()
    }

    /// Returns if the step that failed with `error` is worth repeating, after a pause; else gives the error back.
    pub(super) async fn recover(&mut self, error: LogError) -> Result<(), ClaimError> {
        match &error {
            LogError::Store(store) if store.class() != ErrorClass::Permanent => {
                if self.is_silent_too_long(store)? {
                    return Err(error.into());
                }
                tracing::warn!(error = %store, "the store failed during a claim; trying again while leadership lasts");
                self.pause().await
            }
            LogError::Fault(fault)
                if fault.kind.needs_second_read() && self.doubted_at != Some(self.replica.position()) =>
            {
                tracing::warn!(%fault, "a doubtful reading during a claim; reading again");
                self.doubted_at = Some(self.replica.position());
                self.check_leadership()
            }
            _ => Err(error.into()),
        }
    }
}
