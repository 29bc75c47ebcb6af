//! Proofs about the log's protocol by looking at every order of its steps, and about the bucket store by looking at every crash.
#![doc = include_str!("../README.md")]

pub mod bucket;
pub mod model;
pub mod report;
pub mod run;
