//! The master over a real log in memory: its calls, its failovers, and its replay.

mod figures;
mod kit;
mod model;
#[cfg(all(feature = "mooncake", feature = "test-kit"))]
mod mooncake;
mod policy;
mod promotion;
mod puts;
mod removals;
mod replay;
mod segments;
mod stress;
