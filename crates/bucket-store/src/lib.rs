//! An SSD object store in bucket files, with deletes that survive anything and space that comes back.
#![doc = include_str!("../README.md")]
//!
//! # Inside
//! `vfs` is what is asked of a disk, `crashsafe` every step that replaces or removes a file, `format` the bytes of every file. `recovery`
//! ends what a crash left, before anything else. `store` is the running store: `store::state` is the index, pure, the one place where a
//! record changes its state; around it one file for each call. `gc` is the planner, pure, and the engine that the caller drives.
//!
//! What is deliberately absent: the log, the master, who may delete what; threads, clocks and randomness of its own; retries behind the
//! caller's back, but for the one that each protocol step names.

#[cfg(feature = "tokio")]
mod async_store;
mod config;
pub mod crashsafe;
mod crc;
mod error;
pub mod format;
pub mod gc;
mod health;
pub mod inspect;
mod key;
mod observer;
pub mod recovery;
mod reserve;
mod store;
mod sync;
pub mod vfs;

#[cfg(feature = "tokio")]
pub use async_store::{AsyncStore, OwnedObject, OwnedRead};
pub use config::{Config, ConfigError, Durability};
pub use error::{DiskOp, StoreError, StoreErrorKind};
pub use health::ReadOnlyReason;
pub use key::{StorageKey, StorageKeyError};
pub use observer::{Event, Figures, NoObserver, Observer};
pub use store::{
    Adoption, ByteRange, DeleteOutcome, DeleteRequest, ListCursor, ListPage, ObjectInfo, ReadRequest, Store,
    StoreBuilder, Usage, WriteObject, WriteOutcome,
};
