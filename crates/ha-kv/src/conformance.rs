//! Owns the suite that every backend passes, ours and others'. It knows no backend; it chooses cases by what a store declares.
//!
//! A new backend implements [`Factory`] and calls [`run`] in one test:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use ha_kv::{MemoryKv, conformance::{self, Client, Factory}};
//! use ha_types::ManualClock;
//!
//! #[derive(Debug)]
//! struct Memory { clock: Arc<ManualClock>, store: Arc<MemoryKv> }
//!
//! #[async_trait::async_trait]
//! impl Factory for Memory {
//!     async fn clients(&self, count: usize) -> Vec<Client> {
//!         (0..count).map(|_| Client::full(self.store.clone())).collect()
//!     }
//!     async fn pass(&self, time: Duration) {
//!         self.clock.advance(time);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let clock = Arc::new(ManualClock::new());
//! let store = Arc::new(MemoryKv::with_clock(clock.clone()));
//! let report = conformance::run(&Memory { clock, store }).await;
//! println!("{report}");
//! # }
//! ```

mod case;
mod concurrent;
mod lease;
mod limits;
mod plain;
mod range;
mod report;
mod txn;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::case::{CASES, Case, Cx, Needs, Violation};
use crate::{Kv, LeaseKv, TxnKv, WatchKv};

pub use self::report::Report;

/// One client of the store under test, as the interfaces it has.
#[derive(Clone, Debug)]
pub struct Client {
    /// The store.
    pub kv: Arc<dyn Kv>,
    /// The same with transactions, if [`Capabilities::txn`](crate::Capabilities::txn) says that it has them.
    pub txn: Option<Arc<dyn TxnKv>>,
    /// The same with leases, if it has them.
    pub lease: Option<Arc<dyn LeaseKv>>,
    /// The same with watches, if it has them.
    pub watch: Option<Arc<dyn WatchKv>>,
}

impl Client {
    /// A client of a store without transactions, leases and watches.
    #[must_use]
    pub fn plain<S: Kv>(store: Arc<S>) -> Self {
        Self { kv: store, txn: None, lease: None, watch: None }
    }

    /// A client of a store with transactions, but neither leases nor watches.
    #[must_use]
    pub fn txn<S: TxnKv>(store: Arc<S>) -> Self {
        Self { kv: store.clone(), txn: Some(store), lease: None, watch: None }
    }

    /// A client of a store that has everything.
    #[must_use]
    pub fn full<S: TxnKv + LeaseKv + WatchKv>(store: Arc<S>) -> Self {
        Self { kv: store.clone(), txn: Some(store.clone()), lease: Some(store.clone()), watch: Some(store) }
    }
}

/// How the suite gets at the store under test.
#[async_trait]
pub trait Factory: Send + Sync + fmt::Debug {
    /// `count` clients of one store. The store may be the same at every call: each case keeps to keys of its own and clears them
    /// first. Clients that really are separate (connections, handles of a file) test more than clones do.
    async fn clients(&self, count: usize) -> Vec<Client>;

    /// Lets so much time pass for the store and all its clients: moves their clock, or sleeps.
    async fn pass(&self, time: Duration);

    /// A TTL that the store grants as asked; the cases about leases let a few of it pass.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// What all keys of the suite start with.
    fn root(&self) -> &[u8] {
        b"conformance/"
    }
}

/// A case that takes longer hangs.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

async fn run_case(case: &Case, factory: &dyn Factory) -> Result<(), Violation> {
    let cx = Cx::prepare(factory, case.name).await?;
    let Some(client) = cx.clients.first() else { return Err(Violation::Broken("the factory gave no clients".into())) };
    let missing = match case.needs {
        Needs::Kv => None,
        Needs::Txn => client.txn.is_none().then_some("no transactions"),
        Needs::Lease => client.lease.is_none().then_some("no leases"),
        Needs::Watch => client.watch.is_none().then_some("no watches"),
    };
    if let Some(missing) = missing {
        return Err(Violation::Skipped(format!("the store has {missing}")));
    }
    tokio::time::timeout(CASE_TIMEOUT, (case.run)(&cx))
        .await
        .unwrap_or_else(|_| Err(Violation::Broken(format!("still running after {CASE_TIMEOUT:?}"))))
}

/// Runs every case that fits the store and says what ran and what was skipped, and why.
///
/// # Panics
/// After all cases, if one of them found a broken promise; the message names each.
///
/// # Cancel safety
/// Dropping the future ends the case that runs; what it wrote stays in its store.
pub async fn run(factory: &dyn Factory) -> Report {
    let mut report = Report::default();
    for case in CASES {
        match run_case(case, factory).await {
            Ok(()) => report.passed.push(case.name),
            Err(Violation::Skipped(why)) => report.skipped.push((case.name, why)),
            Err(Violation::Broken(what)) => report.failed.push((case.name, what)),
        }
    }
    assert!(report.failed.is_empty(), "the store does not keep its promises\n{report}");
    report
}
