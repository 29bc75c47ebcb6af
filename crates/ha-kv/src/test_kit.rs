//! Owns the kit for tests of what is built on a store, in one place: a store in memory, a client that fails on purpose, a
//! detour to a store that a test stands in, a clock that is moved by hand, a generator with a seed, and leadership that nobody takes.
//! Nothing in it belongs into a program.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use ha_kv::test_kit::{Fault, FaultyKv, ManualClock, MemoryKv, OpKind, Situation};
//! use ha_kv::{Compare, Effect, Kv, KvErrorKind, KvPair, LeaseKv, Txn, TxnKv, TxnOutcome};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ha_kv::KvError> {
//! let clock = Arc::new(ManualClock::new());
//! let store = Arc::new(MemoryKv::with_clock(clock.clone()));
//! let client = FaultyKv::new(store.clone(), 1); // one client; a second one over `store` is another node
//!
//! // The transaction applies, and its reply is lost.
//! client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
//! let create = Txn {
//!     compares: vec![Compare::KeyAbsent { key: "name".into() }],
//!     puts: vec![KvPair::new("name", "ours")],
//!     deletes: vec![],
//! };
//! let error = client.txn(&create).await.expect_err("the reply is lost");
//! assert_eq!((error.kind, error.effect), (KvErrorKind::Timeout, Effect::Unknown));
//! assert_eq!(client.count(Situation::ReplyLost), 1);
//!
//! // It compares what it changes, so sending it again does no harm; who it was that wrote shows in the value only.
//! assert_eq!(client.txn(&create).await?, TxnOutcome::CompareFailed);
//! assert_eq!(client.get(b"name").await?.as_deref(), Some(&b"ours"[..]));
//!
//! // A lease lives by the clock that the test moves.
//! let (lease, ttl) = client.grant(Duration::from_secs(3)).await?;
//! client.keep_alive(lease).await?;
//! clock.advance(2 * ttl);
//! assert_eq!(client.keep_alive(lease).await.expect_err("it ran out").kind, KvErrorKind::LeaseNotFound);
//! # Ok(())
//! # }
//! ```

pub use ha_types::{AlwaysLeads, ManualClock, SeededEntropy};

pub use crate::MemoryKv;
pub use crate::detour::Detour;
pub use crate::faulty::{Fault, FaultPlan, FaultyKv, Link, Op, OpKind, RuntimeClock, ServerLimits, Situation, Stage};
