//! Owns the schedules of the bucket store: the real code on the schedule checker's primitives (`--cfg oplog_schedules`, see
//! `src/sync.rs`), run by `cargo xtask proof schedules`. Without that setting there is nothing here to run.
#![cfg(oplog_schedules)]

mod deletes;
mod dir;
mod explore;
mod moves;
mod world;
