//! A small key-value interface with what a replicated log and a leader election need from a store, and nothing more.
//!
//! What is deliberately absent: any word for log, prefix, leader, snapshot or metadata, and any retry of a write; only the
//! caller knows what an unknown outcome means.
#![doc = include_str!("../README.md")]

mod backend;
mod capabilities;
mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "test-kit")]
mod detour;
mod error;
#[cfg(feature = "faulty")]
pub mod faulty;
mod hints;
mod kv;
mod lease;
mod pair;
mod range;
#[cfg(feature = "test-kit")]
pub mod test_kit;
mod txn;
mod watch;

#[cfg(feature = "etcd")]
pub use backend::etcd::{EtcdCredentials, EtcdKv, EtcdOptions};
pub use backend::memory::MemoryKv;
#[cfg(feature = "redis")]
pub use backend::redis::{RedisCredentials, RedisKv, RedisOptions, RedisServers};
#[cfg(any(feature = "etcd", feature = "redis"))]
pub use backend::secret::Secret;
#[cfg(feature = "sqlite")]
pub use backend::sqlite::{SqliteKv, SqliteOptions};
#[cfg(any(feature = "etcd", feature = "redis"))]
pub use backend::tls::{Tls, TlsIdentity};
pub use capabilities::{Capabilities, DurableAck};
pub use error::{Effect, ErrorClass, KvError, KvErrorKind};
pub use hints::Hints;
pub use kv::Kv;
pub use lease::{LeaseId, LeaseKv, PutIfAbsent};
pub use pair::KvPair;
pub use range::{RangeLimit, RangePage, prefix_end};
pub use txn::{Compare, Delete, Txn, TxnKv, TxnOutcome};
pub use watch::{HintSender, HintStream, WatchKv, hint_channel};
