//! Owns following the legacy log: rounds that apply whatever is there in order, report a gap, and end when the log is cut over.
//! What a gap means for health, and how long it may last, its caller decides.

use std::sync::Arc;

use bytes::Bytes;
use ha_types::{Clock, MonoTime, Seq};

use super::replica::NotApplied;
use super::{KeyDisorder, LegacyLog, LegacyReplica};
use crate::{DurablePrefix, FaultKind, LogError, LogKeys, ReplayFault, Replica, RestoreError, StateMachine};

/// Follows the legacy log of one cluster with one state machine.
#[derive(Debug)]
pub struct LegacyFollower<S> {
    log: LegacyLog,
    clock: Arc<dyn Clock>,
    page_bytes: usize,
    replica: LegacyReplica<S>,
    gap: Option<LegacyGap>,
}

/// How one round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegacyRound {
    /// All that is there has been applied.
    Following(LegacyProgress),
    /// The next entry is missing, and something says that it should be there.
    Gap(LegacyProgress, LegacyGap),
    /// As this reading has it, the sequence of a key does not rise with the next entry, which was not applied. The reading is not to be
    /// believed, and neither is what it was applied from: see [`LegacyLog::read_key`].
    OutOfOrder(LegacyProgress, KeyDisorder),
    /// There is a durable prefix: the log is or was cut over. Nothing was applied in this round.
    CutOver(DurablePrefix),
}

/// How far a reader got that met a durable prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BelowBase {
    /// The state stands at the base.
    Reached,
    /// An entry below the base is missing.
    Gap(LegacyGap),
    /// As [`LegacyRound::OutOfOrder`].
    OutOfOrder(KeyDisorder),
}

/// What one round brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegacyProgress {
    /// Entries applied in this round.
    pub entries: u64,
    /// The last entry applied.
    pub applied: Seq,
    /// What `latest` says: a hint, as the original writes it late.
    pub latest: Option<Seq>,
}

/// A hole in the log, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyGap {
    /// The first entry that is missing.
    pub missing: Seq,
    /// The last one that is missing: the next entry that is there comes after it, or `latest` or the base is it.
    pub through: Seq,
    /// When the missing entry was first missed.
    pub since: MonoTime,
    /// How often it has been looked for since, this time included.
    pub looks: u64,
    /// There is no entry before the gap either: the start of the log is gone.
    pub start_gone: bool,
}

/// Why applying ended.
enum Ended {
    /// All that was asked for and is there was applied.
    Through,
    /// A hole begins; this is the last entry that is missing.
    Hole(Seq),
    OutOfOrder(KeyDisorder),
}

impl LegacyGap {
    /// The gap as a fault that names the missing entry, once it has lasted too long.
    #[must_use]
    pub fn fault(&self, keys: &LogKeys) -> ReplayFault {
        let key = keys.legacy_entry(self.missing);
        let (missing, through) = (self.missing, self.through);
        let (kind, expected) = match self.start_gone {
            true => {
                (FaultKind::LegacyStartGone, format!("entry {missing}, or a snapshot of ours that holds what it said"))
            }
            false => (FaultKind::LegacyGap, format!("entry {missing}")),
        };
        ReplayFault::new(kind, &key, expected, format!("no such key, and none up to {through}")).at(missing)
    }
}

impl<S: StateMachine> LegacyFollower<S> {
    /// Follows `log` from where `replica` stands, in pages of at most `page_bytes`; at most two are held.
    pub fn new(log: LegacyLog, replica: LegacyReplica<S>, clock: Arc<dyn Clock>, page_bytes: usize) -> Self {
        Self { log, clock, page_bytes, replica, gap: None }
    }

    /// The log.
    pub fn log(&self) -> &LegacyLog {
        &self.log
    }

    /// The state.
    pub fn replica(&self) -> &LegacyReplica<S> {
        &self.replica
    }

    /// Gives up following for the state.
    pub fn into_replica(self) -> LegacyReplica<S> {
        self.replica
    }

    /// One round: looks for a durable prefix; if there is none, applies the entries that are there, in order and without a gap, above
    /// `latest` too, as the original writes it late. A missing entry is looked for again by every round.
    ///
    /// # Errors
    /// [`LogError::Fault`] for what can neither be read nor applied; the state is at the entry before. [`LogError::Store`]; the state
    /// keeps its place.
    ///
    /// # Cancel safety
    /// Whole entries only; the next round goes on.
    pub async fn round(&mut self) -> Result<LegacyRound, LogError> {
        if let Some(prefix) = self.log.read_prefix().await? {
            return Ok(LegacyRound::CutOver(prefix));
        }
        // Read before the entries: one that appears in between is applied, not missed.
        let latest = self.log.read_latest().await?;
        let before = self.replica.applied();
        let ended = self.apply_through(Seq::new(u64::MAX)).await?;
        let applied = self.replica.applied();
        let progress = LegacyProgress { entries: applied.distance_from(before), applied, latest };
        let hole = match ended {
            Ended::OutOfOrder(disorder) => return Ok(LegacyRound::OutOfOrder(progress, disorder)),
            Ended::Hole(last) => Some(last),
            Ended::Through => None,
        };
        let end = hole.or(latest.filter(|latest| *latest > applied));
        Ok(match self.note_gap(end).await? {
            Some(gap) => LegacyRound::Gap(progress, gap),
            None => LegacyRound::Following(progress),
        })
    }

    /// Applies the entries up to `base` and none above it, whatever is there: what a reader does that met a durable prefix.
    ///
    /// # Errors
    /// As [`Self::round`], and a fault of kind `AppliedAbovePrefix` if the state holds entries above `base`: it is to be discarded,
    /// for they are not in the log.
    ///
    /// # Cancel safety
    /// As [`Self::round`].
    pub async fn catch_up_to_base(&mut self, base: Seq) -> Result<BelowBase, LogError> {
        let applied = self.replica.applied();
        if applied > base {
            let key = self.log.keys().durable_prefix();
            let expected = format!("a state at or below the base {base}; start again from nothing");
            let found = format!("one that has applied legacy entry {applied}");
            return Err(ReplayFault::new(FaultKind::AppliedAbovePrefix, &key, expected, found).into());
        }
        let hole = match self.apply_through(base).await? {
            Ended::OutOfOrder(disorder) => return Ok(BelowBase::OutOfOrder(disorder)),
            Ended::Hole(last) => Some(last),
            Ended::Through => None,
        };
        let end = hole.or((self.replica.applied() < base).then_some(base));
        Ok(self.note_gap(end).await?.map_or(BelowBase::Reached, BelowBase::Gap))
    }

    /// The state at the base, from where the batches go on.
    ///
    /// # Errors
    /// [`RestoreError`] unless [`Self::catch_up_to_base`] brought it there.
    pub fn into_batch_replica(self, base: Seq) -> Result<Replica<S>, RestoreError> {
        self.replica.into_replica(base)
    }

    /// Goes on behind `gap`, whose loss was accepted in words.
    ///
    /// # Errors
    /// [`ReplayFault`] if the state stands elsewhere by now, or refuses.
    pub fn pass_gap(&mut self, gap: &LegacyGap) -> Result<(), ReplayFault> {
        let applied = self.replica.applied();
        if applied.next() != Some(gap.missing) {
            let expected = format!("a state before the missing entry {}", gap.missing);
            let key = self.log.keys().legacy_entry(gap.missing);
            return Err(ReplayFault::new(FaultKind::LegacyGap, &key, expected, format!("one at {applied}")));
        }
        self.gap = None;
        self.replica.pass_hole(self.log.keys(), gap.through)
    }

    /// Applies what is there up to `through`, and stops before a hole.
    async fn apply_through(&mut self, through: Seq) -> Result<Ended, LogError> {
        let mut scan = self.log.scan(self.replica.applied(), through, self.page_bytes);
        let mut page = scan.next_page().await?;
        while !page.is_empty() {
            // The request is on its way before the page is applied: the first branch is polled first.
            let (next, ended) = tokio::join!(scan.next_page(), async { self.apply(&page) });
            // What was wrong with this page comes before what happened to the next.
            match ended? {
                Ended::Through => page = next?,
                ended => return Ok(ended),
            }
            tokio::task::yield_now().await;
        }
        Ok(Ended::Through)
    }

    fn apply(&mut self, page: &[(Seq, Bytes)]) -> Result<Ended, ReplayFault> {
        let now = self.clock.now();
        for (seq, value) in page {
            if self.replica.applied().next().is_none_or(|next| next < *seq) {
                return Ok(Ended::Hole(Seq::new(seq.get() - 1)));
            }
            match self.replica.apply_next(self.log.keys(), *seq, value, now) {
                Ok(_) => {}
                Err(NotApplied::Disorder(disorder)) => return Ok(Ended::OutOfOrder(disorder)),
                Err(NotApplied::Fault(fault)) => return Err(fault),
            }
        }
        Ok(Ended::Through)
    }

    /// Remembers the hole that ends at `end`, and since when its first entry has been missing.
    async fn note_gap(&mut self, end: Option<Seq>) -> Result<Option<LegacyGap>, LogError> {
        let missing = self.replica.applied().next();
        let (Some(through), Some(missing)) = (end, missing) else {
            self.gap = None;
            return Ok(None);
        };
        let known = self.gap.filter(|gap| gap.missing == missing);
        let start_gone = match known {
            Some(gap) => gap.start_gone,
            // Only the very start is known to be gone: a hole behind nothing.
            None => self.log.first_entry(Seq::ZERO).await?.is_none_or(|first| first > missing),
        };
        let (since, looks) = known.map_or_else(|| (self.clock.now(), 1), |gap| (gap.since, gap.looks + 1));
        self.gap = Some(LegacyGap { missing, through, since, looks, start_gone });
        Ok(self.gap)
    }
}
