//! Tests of the ordered writer through its public interface, over the memory store and the faulty client.
#![allow(clippy::disallowed_methods, reason = "tests read tokio's paused clock")]

mod admission;
mod audit;
mod bulk;
mod callbacks;
mod classes;
#[cfg(feature = "zstd")]
mod compressed;
mod cut;
mod fairness;
mod fence;
mod flush;
mod metrics;
mod retry;
mod seal_delay;
mod sending;
mod sqlite;
mod start;
mod states;
mod stop;
mod support;
mod txn_cas;
mod unknown;
