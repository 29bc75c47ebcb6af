//! Leader election by a lease: campaign, keep-alive, a deadline on one's own clock, resignation.
#![doc = include_str!("../README.md")]
//!
//! # Inside
//! `elector` asks for the lease, `candidate_lease` owns it until it is won, `term` is the gate (an atomic deadline), `keep_alive`
//! moves the deadline, `leadership` is what the winner holds, `stop_rule` is the pure rule for a silent store.
//!
//! What is deliberately absent: the log and its fence. A deadline needs two clocks to run at about the same speed, so nothing
//! that must never happen twice may rest on it; the log's epoch sees to that. Nothing here reads a clock of its own.

mod bounded;
mod candidate_lease;
mod config;
mod elector;
mod error;
mod keep_alive;
mod leader_address;
mod leadership;
mod loss;
mod metrics;
mod stop_rule;
mod term;

pub use config::{ElectionConfig, ElectionConfigError};
pub use elector::Elector;
pub use error::CampaignError;
pub use leader_address::{LeaderAddress, LeaderAddressError};
pub use leadership::{Leadership, Resignation};
pub use loss::LossReason;
pub use metrics::ElectionMetrics;
pub use stop_rule::{StopRule, StopVerdict};
