//! Owns the schedules of the ordered writer: the real code on the schedule checker's primitives (`--cfg oplog_schedules`, see
//! `src/sync.rs`), run by `cargo xtask proof schedules`. Without that setting there is nothing here to run.
#![cfg(oplog_schedules)]

mod admission;
mod callbacks;
mod ending;
#[cfg(feature = "legacy")]
mod legacy;
mod producers;
mod store;
mod tickets;
mod unknown;
mod world;

/// Enough that each situation occurs.
const SCHEDULES: ha_schedules::Schedules = ha_schedules::Schedules::of_each_kind(6_000);
