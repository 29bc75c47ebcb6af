//! Owns the proof that a state equals the durable prefix under a claimed epoch. Only `claim_and_verify` makes one.

use ha_types::{Epoch, MonoTime, Owner};

use crate::{BatchStorage, DurablePrefix, Position, StateMachine};

/// One successful claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The epoch.
    pub epoch: Epoch,
    /// The owner.
    pub owner: Owner,
    /// When it was confirmed, by the claimant's monotonic clock.
    pub claimed_at: MonoTime,
    /// Whether this claim took the log over from Mooncake, whose grants and leases nobody of ours knows: the first quarantine is
    /// longer then (design §3.4).
    pub from_mooncake: bool,
}

/// A state that equals the log, and the log that is claimed.
#[derive(Debug)]
pub struct CaughtUp<S> {
    machine: S,
    log: ClaimedLog,
}

/// The right to write: needed to start a writer, made only with a claim.
#[derive(Debug)]
pub struct ClaimedLog {
    pub(crate) storage: BatchStorage,
    pub(crate) prefix: DurablePrefix,
    pub(crate) position: Position,
    pub(crate) claim: Claim,
}

impl<S: StateMachine> CaughtUp<S> {
    pub(crate) fn new(machine: S, log: ClaimedLog) -> Self {
        Self { machine, log }
    }
    /// The machine.
    pub fn machine(&self) -> &S {
        &self.machine
    }
    /// The prefix it equals.
    pub fn prefix(&self) -> &DurablePrefix {
        &self.log.prefix
    }
    /// The claim.
    pub fn claim(&self) -> Claim {
        self.log.claim
    }
    /// Gives up the proof for its parts.
    pub fn into_parts(self) -> (S, ClaimedLog) {
        (self.machine, self.log)
    }
}

impl ClaimedLog {
    /// The claim.
    #[must_use]
    pub fn claim(&self) -> Claim {
        self.claim
    }
    /// The prefix at the claim.
    #[must_use]
    pub fn prefix(&self) -> &DurablePrefix {
        &self.prefix
    }
    /// The log's layout over its store.
    #[must_use]
    pub fn storage(&self) -> &BatchStorage {
        &self.storage
    }
    /// The end of the last batch, with the CRC that the next one names.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }
}
