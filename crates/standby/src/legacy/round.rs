//! Owns a round in legacy mode: entries while there is no prefix; then to the base, whatever the prefix's batch; then out of the way.

use oplog_core::legacy::{BelowBase, LegacyFollower, LegacyRound, base_of};
use oplog_core::{DurablePrefix, FaultKind, Position, Replica, Seq, StateMachine};

use super::crossing::Crossing;
use super::gap::Gap;
use super::out_of_order::Settled;
use crate::follower::Boundary;
use crate::held::Held;
use crate::round::Ended;
use crate::stop::Stop;
use crate::{Fault, LogFormat, Standby};

impl<S: StateMachine> Standby<S> {
    /// The part of a round that is the legacy mode's; `None` if the log is one of batch records for this standby, too.
    pub(crate) async fn legacy_round(&mut self, boundary: &Boundary) -> Result<Option<Ended>, Stop> {
        let Some(legacy) = &self.legacy else { return Ok(None) };
        match (boundary.format, boundary.prefix) {
            (LogFormat::Headless, _) => match self.held {
                Held::Batches(_) => Ok(None),
                Held::PerEntry(_) => {
                    let key = self.follower.storage.keys().durable_prefix();
                    let expected = "a durable prefix, or the legacy log alone";
                    let found = "batch records without a durable prefix";
                    Err(Fault::log(FaultKind::PrefixMissing, &key, expected, found).into())
                }
            },
            (_, Some(prefix)) => {
                self.cross(prefix).await?;
                match (&self.held, &mut self.legacy) {
                    (Held::PerEntry(state), _) => Ok(Some(Ended::PerEntry(state.replica().applied()))),
                    (Held::Batches(_), Some(legacy)) => {
                        if let Some(base) = legacy.base {
                            legacy.watch_above(base, &self.follower).await?;
                        }
                        Ok(None)
                    }
                    (Held::Batches(_), None) => Ok(None),
                }
            }
            (LogFormat::Empty, None) if self.held.applied() > Seq::ZERO => {
                let key = self.follower.storage.keys().legacy_latest();
                let expected = format!("the legacy log, which was applied up to entry {}", self.held.applied());
                Err(Fault::log(FaultKind::AppliedAbovePrefix, &key, expected, "no key of any log").into())
            }
            (_, None) => {
                if let Held::Batches(_) = self.held {
                    // An absent prefix was judged: this one has applied nothing.
                    self.held = Held::PerEntry(legacy.at_the_beginning(&self.follower));
                }
                self.follow_entries().await.map(Some)
            }
        }
    }

    /// Applies the entries that are there.
    async fn follow_entries(&mut self) -> Result<Ended, Stop> {
        let (Held::PerEntry(state), Some(legacy)) = (&mut self.held, &mut self.legacy) else {
            return Ok(Ended::PerEntry(self.held.applied()));
        };
        let key = legacy.log.keys().legacy_latest();
        loop {
            if legacy.settle_doubt(state, &self.follower).await? == Some(Settled::CutOver) {
                // The next round begins with it.
                return Ok(Ended::PerEntry(state.replica().applied()));
            }
            let before = state.replica().applied();
            let round = state.round().await;
            self.follower.publisher.update(|m| m.entries += state.replica().applied().distance_from(before));
            let (progress, gap) = match round.map_err(|error| Stop::from_log(&key, error))? {
                LegacyRound::Following(progress) => (progress, None),
                LegacyRound::Gap(progress, gap) => (progress, Some(gap)),
                LegacyRound::OutOfOrder(_, disorder) => {
                    legacy.does_not_believe(disorder, &self.follower);
                    continue;
                }
                // The next round begins with it.
                LegacyRound::CutOver(_) => return Ok(Ended::PerEntry(before)),
            };
            let passed = match gap {
                None => {
                    self.follower.publisher.update(|m| m.legacy.missing_seq = None);
                    false
                }
                Some(gap) => legacy.judge_gap(state, gap, &self.follower).await? == Gap::Passed,
            };
            if !passed {
                self.follower.publisher.per_entry(progress.applied, progress.latest, counted(state));
                return Ok(Ended::PerEntry(progress.applied));
            }
        }
    }

    /// Brings a state that stands in the legacy log, or nowhere yet, to the base of `prefix`, and over to the batches. It stays where it
    /// is if an entry below the base is still waited for.
    async fn cross(&mut self, prefix: DurablePrefix) -> Result<(), Stop> {
        let Some(legacy) = &mut self.legacy else { return Ok(()) };
        if matches!(&self.held, Held::Batches(replica) if replica.position() != Position::default()) {
            return Ok(());
        }
        let prefix_key = legacy.log.keys().durable_prefix();
        let base = base_of(&legacy.storage, &prefix).await.map_err(|error| Stop::from_log(&prefix_key, error))?;
        self.follower.seen.accept(prefix);
        legacy.base = Some(base);
        self.follower.publisher.update(|m| m.legacy.base_seq = Some(base.get()));
        if let Held::Batches(_) = self.held {
            if base == Seq::ZERO {
                return Ok(());
            }
            self.held = Held::PerEntry(legacy.at_the_beginning(&self.follower));
        }
        let Held::PerEntry(state) = &mut self.held else { return Ok(()) };
        let applied = state.replica().applied();
        let doubted_above = legacy.doubt.as_ref().is_some_and(|doubt| doubt.is_above(base));
        if Crossing::of(applied, legacy.skipped || doubted_above, base) == Crossing::Anew {
            tracing::warn!(%applied, %base, ?prefix, "this state is not what lies at the base; starting again from an empty one");
            *state = legacy.at_the_beginning(&self.follower);
            legacy.skipped = false;
            legacy.forget_doubt(&self.follower);
            self.follower.publisher.update(|m| m.legacy.restarts += 1);
        }
        loop {
            legacy.settle_doubt(state, &self.follower).await?;
            let before = state.replica().applied();
            let below = state.catch_up_to_base(base).await;
            self.follower.publisher.update(|m| m.entries += state.replica().applied().distance_from(before));
            match below.map_err(|error| Stop::from_log(&prefix_key, error))? {
                BelowBase::Reached => break,
                BelowBase::OutOfOrder(disorder) => legacy.does_not_believe(disorder, &self.follower),
                BelowBase::Gap(gap) => {
                    if legacy.judge_gap(state, gap, &self.follower).await? == Gap::Waits {
                        self.follower.publisher.per_entry(state.replica().applied(), Some(base), counted(state));
                        return Ok(());
                    }
                }
            }
        }
        let empty = Held::Batches(Replica::empty((legacy.mode.fresh)()));
        let Held::PerEntry(state) = std::mem::replace(&mut self.held, empty) else { return Ok(()) };
        let replica = state.into_batch_replica(base).map_err(|error| {
            let expected = format!("a state at the base {base}");
            Fault::log(FaultKind::Machine, &prefix_key, expected, error)
        })?;
        tracing::info!(%base, ?prefix, "the legacy log was followed to its base; going on with batch records");
        self.held = Held::Batches(replica);
        self.follower.publisher.crossed();
        Ok(())
    }
}

fn counted<S: StateMachine>(state: &LegacyFollower<S>) -> u64 {
    state.replica().key_sequences().len() as u64
}
