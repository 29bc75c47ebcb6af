//! Owns the fuzz targets: one a decoder, each a function from bytes to a verdict that checks more than "does not panic". It must
//! not know which engine feeds it.
#![doc = include_str!("../README.md")]

mod bound;
mod corpus;
mod target;
mod targets;
mod verdict;

pub use corpus::{committed_in, drift, write};
pub use target::{Seed, TARGETS, Target, run};
pub use verdict::Verdict;
