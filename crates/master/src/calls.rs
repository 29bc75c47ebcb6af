//! Owns the calls of a serving master, one file each. Every call reads or changes the state in one critical section without a
//! wait in it, and checks leadership before it answers.

mod batch_remove;
mod get;
mod list;
mod policy;
mod put_end;
mod put_revoke;
mod put_start;
mod remove;
mod segment;
mod segment_unmount;
mod stats;
