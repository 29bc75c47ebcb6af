//! Owns the claim: the compare-and-swap that fences every older writer, and the only maker of [`CaughtUp`].

mod claimant;
#[cfg(test)]
mod model;
mod silence;
#[cfg(feature = "mooncake")]
mod take_over;
mod take_over_refused;
pub(crate) mod verdict;

use std::time::Duration;

use ha_types::{Clock, Entropy, LeaderGuard};

pub use self::take_over_refused::TakeOverRefused;

use self::claimant::Claimant;
use crate::{BatchStorage, CaughtUp, DurablePrefix, LogError, Replica, StateMachine};

/// Why the log was not claimed, or not caught up with after the claim.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Leadership ended before the claim was sent or verified. A claim already sent may still land; then nobody owns the log
    /// and the next claim takes it.
    #[error("leadership was lost before the claim was verified")]
    NotLeader,
    /// A higher epoch claimed the log: give up leadership.
    #[error("the log was claimed by epoch {} owner {}", .0.epoch, .0.owner)]
    Superseded(DurablePrefix),
    /// The log is Mooncake's and was not taken over; the replica can follow on.
    #[error("the log was not taken over: {0}")]
    TakeOver(#[from] TakeOverRefused),
    /// The log could not be read for good, or is wrong. A fault makes the replica unhealthy.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A failed claim gives the replica back.
#[derive(Debug)]
pub struct ClaimFailed<S> {
    /// The replica, at the position it reached.
    pub replica: Replica<S>,
    /// Why.
    pub error: ClaimError,
}

/// Claims the log and catches up to the frozen prefix (design §3.1, §4): the only maker of [`CaughtUp`]. Creates no first
/// prefix.
///
/// In this order: catch up to the prefix as it is read and check the batch it names, so that nothing is claimed on a log that
/// cannot be served; ask `guard`; swap the prefix for the same boundary under the next epoch and a fresh owner; check the batch
/// again, catch up to the now frozen prefix, and see that both are equal. A batch that an older writer commits before the swap
/// makes the swap fail, is caught up with, and the log is claimed again: it is never lost.
///
/// A log that Mooncake writes is claimed by another transaction, and only if the storage permits it (feature `mooncake`,
/// `docs/formats/mooncake.md`): that takes at least five seconds, in which the old primary is watched, unless it is said to have
/// stopped. [`Claim::from_mooncake`](crate::Claim::from_mooncake) says so afterwards.
///
/// Faults of the store that a retry or an operator can cure are retried while `guard` holds, with pauses that start at
/// `retry_pause`, double up to 16 times that, and are shortened by up to half by `entropy`. A store that gives no answer at all
/// for a whole lease ends the attempt (the stop rule), so that another node can try; a definite refusal never does.
///
/// # Errors
/// [`ClaimFailed`] with the replica.
///
/// # Cancel safety
/// Dropping the future drops the replica; a claim already sent may still land.
pub async fn claim_and_verify<S: StateMachine>(
    storage: BatchStorage,
    replica: Replica<S>,
    guard: &dyn LeaderGuard,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
    retry_pause: Duration,
) -> Result<CaughtUp<S>, Box<ClaimFailed<S>>> {
    let mut claimant = Claimant::new(storage, replica, guard, clock, entropy, retry_pause);
    match claimant.run().await {
        Ok(log) => Ok(CaughtUp::new(claimant.replica.into_machine(), log)),
        Err(error) => Err(Box::new(ClaimFailed { replica: claimant.replica, error })),
    }
}
