//! Tests of the ordered writer through its public interface, over the memory store and the faulty client.
#![allow(clippy::disallowed_methods, reason = "tests read tokio's paused clock")]

mod admission;
mod audit;
mod callbacks;
mod cut;
mod fence;
mod flush;
mod retry;
mod start;
mod stop;
mod support;
mod unknown;
