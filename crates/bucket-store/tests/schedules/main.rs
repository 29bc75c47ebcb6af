//! Owns the schedules of the bucket store: the real code on the schedule checker's primitives (`--cfg oplog_schedules`, see
//! `src/sync.rs`), run by `cargo xtask proof schedules`. Without that setting there is nothing here to run.
#![cfg(oplog_schedules)]

mod deletes;
mod dir;
mod moves;
mod world;

/// Enough that each situation occurs.
const SCHEDULES: ha_schedules::Schedules = ha_schedules::Schedules::of_each_kind(3_000);
