//! A replicated log: batch records, a durable prefix that carries the fence, an ordered writer, and the proof of being caught up.
#![doc = include_str!("../README.md")]
//!
//! # Inside
//! `prefix` and [`record`] are the two formats, `keys` and `storage` their place in a store, `replica` and `follow` the reading side,
//! `claim` the way to [`CaughtUp`], `writer` the writing side, [`audit`] a look at everything that lies there. `sync` is the one place where the writer's
//! locks and wake-ups come from. The codecs read no store; the storage knows no retry, no sequence
//! and no callback; nothing here deletes.
//!
//! What is deliberately absent: what entries mean, elections, the wall clock and randomness of its own.

pub mod audit;
mod caught_up;
mod claim;
mod crc;
mod entry;
mod error;
mod fault;
mod follow;
#[cfg(feature = "legacy")]
mod json;
mod keys;
#[cfg(feature = "legacy")]
pub mod legacy;
#[cfg(feature = "mooncake")]
pub mod mooncake;
mod outcome;
mod position;
mod prefix;
#[cfg(any(test, feature = "proof"))]
pub mod proof;
pub mod record;
mod replica;
mod state_machine;
mod storage;
mod sync;
#[cfg(any(test, feature = "test-kit"))]
pub mod test_kit;
mod writer;

pub use caught_up::{CaughtUp, Claim, ClaimedLog};
pub use claim::{ClaimError, ClaimFailed, TakeOverRefused, claim_and_verify};
pub use entry::{EntryRef, NewEntry};
pub use error::{FollowError, LogError};
pub use fault::{FaultKind, ReplayFault};
pub use follow::catch_up;
pub use ha_types::{BatchId, Epoch, Owner, Seq};
pub use keys::{LogKey, LogKeys, RootError};
pub use outcome::Outcome;
pub use position::Position;
pub use prefix::{DurablePrefix, PrefixError};
pub use replica::{AppliedBatch, Replica, RestoreError};
pub use state_machine::{ApplyError, StateMachine};
#[cfg(feature = "mooncake")]
pub use storage::TakeOver;
pub use storage::{BatchPage, BatchStorage, FirstPrefix, LogSize, OpenOptions, Records};
pub use writer::{
    Closed, CommitError, DrainError, OrderedWriter, Phase, Refusal, Refusals, Reservation, ReserveError, StageMetrics,
    Terminal, Ticket, WriterConfig, WriterEnv, WriterMetrics, WriterStatus,
};
