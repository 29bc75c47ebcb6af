//! Proofs about the log's protocol by looking at every order of its steps.
#![doc = include_str!("../README.md")]

pub mod model;
pub mod report;
pub mod run;
