//! Owns running real code under many schedules: the primitives at which the checker switches tasks, and the runs. It knows nothing of
//! what runs on it, and no build of the product has it.
#![doc = include_str!("../README.md")]

mod explore;
mod reached;
pub mod sync;

pub use explore::Schedules;
pub use reached::Reached;
