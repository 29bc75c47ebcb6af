//! The legacy per-entry log: read, followed, written and cut over from, on a store that fails on purpose.

mod cutover;
mod cutover_races;
mod follow;
mod read;
mod stores;
mod support;
mod writer;
mod writer_races;
mod writer_trouble;
