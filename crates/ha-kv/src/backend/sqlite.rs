//! Owns the store in one SQLite file that the processes of one host share.

mod connect;
mod error;
mod kv;
mod lane;
mod lease;
mod lease_book;
mod options;
mod place;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod txn;
mod watch;

use std::fmt;
use std::sync::Arc;

use ha_types::{Clock, Entropy};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use self::lease_book::LeaseBook;
use self::place::{Pinned, Place};
use self::watch::Watchers;
use crate::{Capabilities, Effect, KvError, KvErrorKind};

pub use self::options::SqliteOptions;

/// A store in one SQLite file, shared by the processes of one host. Clones of one `Arc` share the connections.
///
/// # What it promises
/// * Every write is one transaction under the file's only write lock, so all calls of all processes are in one total order and
///   every read sees all that was answered before it.
/// * An answered write survives the loss of power (write-ahead log, synced at every commit), unless the file system lives in
///   memory, which [`Capabilities::durable_ack`] then says.
/// * `Busy` before the transaction began is `NotApplied`; any error of the commit is `Unknown`. A connection that met an error is
///   closed. A dropped future never leaves half a write: it applies wholly or not.
/// * A file that is no database, another program's, newer, read-only, on a network file system, or moved away under us is
///   refused with a typed error and left as it is.
///
/// # Leases
/// No time is stored. A lease is a random number, its TTL and a counter that each keep-alive raises. Whoever wants a held key
/// looks at that value through [`put_if_absent`](crate::LeaseKv::put_if_absent), again and again; once it has stayed the same for a
/// whole TTL by the observer's own clock, the lease is taken over in a transaction that compares it exactly. Thus a dead
/// holder's key is still there for `get` until somebody takes it, and a holder that is stopped *inside* a transaction keeps the file's
/// lock: take-over waits until it runs or dies. A lease is kept alive through the handle that granted it.
///
/// # Hints
/// SQLite tells nobody of changes; while somebody watches, the file's change counter is read every
/// [`watch_interval`](SqliteOptions::watch_interval). A hint comes at every change of the file, of whatever key.
///
#[doc = include_str!("sqlite/errors.md")]
pub struct SqliteKv {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    place: Place,
    pinned: Pinned,
    options: SqliteOptions,
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    write_lane: Arc<Semaphore>,
    writer: Mutex<Option<Connection>>,
    read_lanes: Arc<Semaphore>,
    readers: Mutex<Vec<Connection>>,
    leases: Mutex<LeaseBook>,
    watchers: Mutex<Watchers>,
    /// Never used: while it is open, SQLite does not delete the write-ahead log when the other connections close.
    _anchor: Mutex<Connection>,
}

impl SqliteKv {
    /// Opens the file, creating it if it is not there. Leases run by `clock`; `entropy` names them.
    ///
    /// # Errors
    /// `InvalidArgument` for an option or a directory that is not there; `WrongStore` for a file that is no database or another
    /// program's; `Unsupported` for a newer file or a network file system; `ReadOnly`; `Busy`; `Corrupt`; always `NotApplied`, and a file
    /// that is not ours is unchanged.
    ///
    /// # Cancel safety
    /// Dropping the future may leave an empty store behind, nothing else.
    pub async fn open(
        options: SqliteOptions,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, KvError> {
        let opening = tokio::task::spawn_blocking(move || Inner::open(options, clock, entropy));
        let inner = opening.await.unwrap_or_else(|_| {
            Err(KvError::new(
                KvErrorKind::Closed,
                Effect::NotApplied,
                "the runtime shut down while the file was opened; start again",
            ))
        })?;
        Ok(Self { inner: Arc::new(inner) })
    }
}

impl Inner {
    fn open(options: SqliteOptions, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Result<Self, KvError> {
        options.validate()?;
        let place = Place::examine(&options)?;
        let (anchor, pinned) = connect::first(&place, &options)?;
        let capabilities = Capabilities {
            backend: "sqlite",
            txn: true,
            durable_ack: place.durable_ack.clone(),
            linearizable_read: true,
            max_value_bytes: options.max_txn_bytes,
            max_txn_bytes: options.max_txn_bytes,
            max_txn_ops: options.max_txn_ops,
            max_reply_bytes: options.max_reply_bytes,
        };
        Ok(Self {
            place,
            pinned,
            capabilities,
            clock,
            entropy,
            write_lane: Arc::new(Semaphore::new(1)),
            writer: Mutex::default(),
            read_lanes: Arc::new(Semaphore::new(options.read_connections)),
            readers: Mutex::default(),
            leases: Mutex::default(),
            watchers: Mutex::default(),
            _anchor: Mutex::new(anchor),
            options,
        })
    }
}

impl fmt::Debug for SqliteKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteKv")
            .field("path", &self.inner.place.file)
            .field("holder", &self.inner.options.holder)
            .finish_non_exhaustive()
    }
}
