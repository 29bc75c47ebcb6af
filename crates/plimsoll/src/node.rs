//! Owns one node: what it is at this moment, and the loop that takes it from standby to leader and back.
//!
//! Safety does not rest on this module: the log's fence does that (design §3.1). It owns order: everything that can fail comes
//! before the state moves, serving ends before leadership is given up, and a state that has served is never followed with again.

mod cycle;
mod figures;
mod in_flight;
mod leader_lookup;
mod name;
mod role;
mod serve;
mod shared;
mod shutdown;
mod start;
mod term;

pub(crate) use figures::Figures;
pub(crate) use role::Role;
pub(crate) use serve::serve;
pub(crate) use shared::{NodeInfo, Shared};
