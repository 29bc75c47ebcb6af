//! A replicated log: batch records, a durable prefix that carries the fence, an ordered writer, and the proof of being caught up.
#![doc = include_str!("../README.md")]
//!
//! # Inside
//! `prefix` and [`record`] are the two formats, `keys` and `storage` their place in a store, `replica` and `follow` the reading side,
//! `claim` the way to [`CaughtUp`], `writer` the writing side. The codecs read no store; the storage knows no retry, no sequence
//! and no callback; nothing here deletes.
//!
//! What is deliberately absent: what entries mean, elections, the wall clock and randomness of its own.

mod caught_up;
mod claim;
mod crc;
mod entry;
mod error;
mod fault;
mod follow;
mod keys;
mod outcome;
mod position;
mod prefix;
pub mod record;
mod replica;
mod state_machine;
mod storage;
mod writer;

pub use caught_up::{CaughtUp, Claim, ClaimedLog};
pub use claim::{ClaimError, ClaimFailed, claim_and_verify};
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
pub use storage::{BatchPage, BatchStorage, FirstPrefix, LogSize, OpenOptions, Records};
pub use writer::{
    CommitError, DrainError, OrderedWriter, Reservation, ReserveError, StageMetrics, Terminal, Ticket, WriterConfig,
    WriterEnv, WriterMetrics, WriterStatus,
};
