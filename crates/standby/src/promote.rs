//! Owns the promotion, in the order of design §4: leadership first, then caught up, then the claim, then the proof by move.

use std::fmt;

use ha_kv::KvError;
use ha_types::{LeaderGuard, Seq};
use oplog_core::{
    CaughtUp, ClaimError, ClaimFailed, DurablePrefix, FaultKind, FirstPrefix, LogError, StateMachine, claim_and_verify,
};

use crate::held::Held;
use crate::round::Ended;
use crate::stop::Stop;
use crate::{Fault, Health, Standby};

/// Why a promotion was refused.
#[derive(Debug, thiserror::Error)]
pub enum PromoteError {
    /// The standby was unhealthy, or became so. Nothing serves until an operator has acted.
    #[error("the standby is unhealthy: {0}")]
    Unhealthy(Fault),
    /// Leadership was not held, or ended.
    #[error("leadership is not held")]
    NotLeader,
    /// The log could not be read to its end. Nothing was claimed.
    #[error("not caught up with the durable prefix, nothing was claimed: {0}")]
    NotCaughtUp(#[source] KvError),
    /// The log is a legacy per-entry log that was not cut over, or this state is still below its base. Nothing was claimed.
    #[error(
        "the log is in the legacy per-entry format, applied up to entry {applied}: nobody leads before it is cut over; stop the old \
         primary, then run `plimsoll oplog cutover`"
    )]
    NotCutOver {
        /// The last entry applied.
        applied: Seq,
    },
    /// The log was caught up with, and not claimed; or claimed, and not verified.
    #[error("the log was not claimed: {0}")]
    Claim(#[source] ClaimError),
}

/// A refused promotion gives the standby back. The caller releases leadership.
pub struct Refused<S> {
    /// The standby, at the position it reached. Healthy unless the error says otherwise.
    pub standby: Standby<S>,
    /// Why.
    pub error: PromoteError,
}

impl<S> fmt::Debug for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<S> fmt::Display for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the promotion was refused: {}", self.error)
    }
}

impl<S> std::error::Error for Refused<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<S: StateMachine> Standby<S> {
    /// Makes a primary's state of this standby. Leadership must be held before and is asked all along; everything else that can
    /// fail in the caller (ports, configuration) must be done before, because the state moves.
    ///
    /// A fault of the store before the claim refuses; after the claim it is waited out while leadership lasts. On a log that
    /// was never written this creates the first prefix.
    ///
    /// # Errors
    /// [`Refused`] with the standby, which can follow on if it is healthy.
    ///
    /// # Cancel safety
    /// Dropping the future drops the state. A claim that was sent may still land, which the next claimant takes over.
    pub async fn promote(mut self, guard: &dyn LeaderGuard) -> Result<CaughtUp<S>, Box<Refused<S>>> {
        match self.prepare(guard).await {
            Ok(prefix) => tracing::info!(?prefix, "caught up; claiming the log"),
            Err(error) => return Err(self.refuse(error)),
        }
        let replica = match self.held.into_batches() {
            Ok(replica) => replica,
            Err(held) => {
                let applied = held.position().last_seq;
                self.held = held;
                return Err(self.refuse(PromoteError::NotCutOver { applied }));
            }
        };
        let follower = &self.follower;
        let claimed = claim_and_verify(
            follower.storage.clone(),
            replica,
            guard,
            &*follower.clock,
            &*follower.entropy,
            follower.config.retry_min,
        );
        match claimed.await {
            Ok(caught_up) => {
                // The last line of defence: the proof's maker has checked the same.
                assert_eq!(
                    caught_up.machine().last_applied(),
                    caught_up.prefix().last_seq,
                    "a state is served only if it equals the durable prefix"
                );
                tracing::info!(prefix = ?caught_up.prefix(), "promoted");
                Ok(caught_up)
            }
            Err(failed) => {
                let ClaimFailed { replica, error } = *failed;
                let error = after_claim(&follower.storage.keys().durable_prefix(), error);
                self.held = Held::Batches(replica);
                Err(self.refuse(error))
            }
        }
    }

    /// Everything before the claim.
    async fn prepare(&mut self, guard: &dyn LeaderGuard) -> Result<DurablePrefix, PromoteError> {
        if let Health::Unhealthy { fault } = self.health() {
            return Err(PromoteError::Unhealthy(fault));
        }
        if !guard.holds() {
            return Err(PromoteError::NotLeader);
        }
        let prefix = match self.round(Some(guard)).await {
            Ok(Ended::At(prefix)) => prefix,
            Ok(Ended::Empty) => self.begin_log(guard).await?,
            #[cfg(feature = "legacy")]
            Ok(Ended::PerEntry(applied)) => return Err(PromoteError::NotCutOver { applied }),
            Err(stop) => return Err(before_claim(stop)),
        };
        if guard.holds() { Ok(prefix) } else { Err(PromoteError::NotLeader) }
    }

    /// Creates the first prefix of a log that was never written, or catches up with who was faster.
    async fn begin_log(&mut self, guard: &dyn LeaderGuard) -> Result<DurablePrefix, PromoteError> {
        if !guard.holds() {
            return Err(PromoteError::NotLeader);
        }
        let key = self.follower.storage.keys().durable_prefix();
        match self.follower.storage.create_first_prefix().await {
            Ok(FirstPrefix::Created(prefix)) => tracing::info!(?prefix, "created the first prefix"),
            Ok(FirstPrefix::Found(prefix)) => tracing::info!(?prefix, "another node created the first prefix"),
            Err(error) => return Err(before_claim(Stop::from_log(&key, error))),
        }
        match self.round(Some(guard)).await {
            Ok(Ended::At(prefix)) => Ok(prefix),
            #[cfg(feature = "legacy")]
            Ok(Ended::PerEntry(applied)) => Err(PromoteError::NotCutOver { applied }),
            Ok(Ended::Empty) => {
                let fault = Fault::log(FaultKind::PrefixMissing, &key, "the first prefix just created", "no such key");
                Err(PromoteError::Unhealthy(fault))
            }
            Err(stop) => Err(before_claim(stop)),
        }
    }

    fn refuse(self, error: PromoteError) -> Box<Refused<S>> {
        tracing::warn!(%error, "the promotion was refused");
        let follower = &self.follower;
        match &error {
            PromoteError::Unhealthy(fault) => follower.publisher.unhealthy(fault.clone()),
            PromoteError::NotCaughtUp(error) => follower.publisher.store_failed(&error.to_string()),
            PromoteError::NotLeader | PromoteError::NotCutOver { .. } | PromoteError::Claim(_) => {}
        }
        match &self.held {
            Held::Batches(replica) => follower.publisher.place(replica, follower.seen.last()),
            #[cfg(feature = "legacy")]
            Held::PerEntry(_) => {}
        }
        Box::new(Refused { standby: self, error })
    }
}

fn before_claim(stop: Stop) -> PromoteError {
    match stop {
        Stop::Store(error) => PromoteError::NotCaughtUp(error),
        Stop::Fault(fault) => PromoteError::Unhealthy(fault),
        Stop::NotLeader => PromoteError::NotLeader,
    }
}

/// A fault of the log is a verdict wherever it is met; the claim's own refusals leave the standby healthy.
fn after_claim(key: &[u8], error: ClaimError) -> PromoteError {
    let error = match error {
        ClaimError::NotLeader => return PromoteError::NotLeader,
        refused @ (ClaimError::Superseded(_) | ClaimError::TakeOver(_)) => return PromoteError::Claim(refused),
        ClaimError::Log(error) => error,
    };
    match Stop::from_log(key, error) {
        Stop::Store(error) => PromoteError::Claim(ClaimError::Log(LogError::Store(error))),
        stop => before_claim(stop),
    }
}
