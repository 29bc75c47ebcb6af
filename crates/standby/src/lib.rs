//! A hot standby: follows the log into a state machine, and is promoted only with proof.
#![doc = include_str!("../README.md")]
//!
//! # Inside
//! `round` is one round (prefix first, then what it covers), `follower` reads it, `held` is what it changes, `seen` judges a prefix against what was seen, `format`
//! is the one table of log formats, `legacy` the way through the per-entry log (feature `legacy`), `stop` tells a failing store from a wrong log, `observer` shows it all, `promote` is the way
//! to a primary. The log's bytes are `oplog-core`'s, the state's meaning is the state machine's.
//!
//! What is deliberately absent: the election (the caller holds leadership and gives its guard), serving, and any way from a
//! state that has served back to a standby.

mod config;
mod fault;
mod follower;
mod format;
mod health;
mod held;
#[cfg(feature = "legacy")]
mod legacy;
mod metrics;
mod observer;
mod promote;
mod round;
mod seen;
mod standby;
mod stop;

pub use config::{StandbyConfig, StandbyConfigError};
pub use fault::Fault;
pub use format::{Leftovers, LogFormat};
pub use health::Health;
#[cfg(feature = "legacy")]
pub use legacy::{LegacyConfig, LegacyMode};
pub use metrics::{LegacyFigures, StandbyMetrics};
pub use observer::{NotClose, Observer};
pub use oplog_core::FaultKind;
pub use promote::{PromoteError, Refused};
pub use standby::{Standby, StandbyEnv, StandbyError, Step, StepError};
