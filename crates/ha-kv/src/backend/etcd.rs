//! Owns the etcd backend: options in, one member at a time, linearizable reads, no write ever sent twice.
//!
//! # No automatic retry of writes
//! No layer below repeats a request. `etcd-client` repeats a call only with its automatic token refresh, which is never switched
//! on here; its channel and the transport under it connect anew but do not send a request twice. This backend repeats *reads*
//! in one place: a range page that came out above the reply limit is read again in smaller pieces.
//!
//! # Members
//! The library's balanced channel goes on sending calls to a member that accepts connections and never answers. So there is
//! one channel a member, and all calls go to one of them until it fails to answer; the *next* call then goes to the next member.
//! A member that was silent is connected to anew. Before a member is used for the first time, and after each of its failures, a
//! request that changes nothing checks that it belongs to the cluster met first. Every later reply is checked too. A connection that a proxy silently moves to another
//! cluster between two good replies is seen only with the first reply from there.
//!
//! # Leases
//! A leader of etcd that was cut off may still confirm a keep-alive for about an election timeout. Leases say who should act; the
//! safety of what is written must rest on the compares of a transaction.
//!
//! # A full server
//! Deletes are taken; everything that puts, and every grant of a lease, is `NoSpace`. The request that crosses the quota is refused
//! so *and applied*, which is why that effect is `Unknown`. Some versions (3.5.1 is one, 3.4.23 is not)
//! also refuse a *transaction* of deletes only, so make room with `delete` and `delete_range`.
//!
//! # Watches
//! etcd sends the changed values along with a change. Watch a small key, not a range of large values.
//!
//! The table *native error → (kind, effect)* is shown with [`EtcdKv`].

mod error;
mod kv;
mod lease;
mod member;
mod options;
mod pool;
mod probe;
mod range;
mod txn;
mod watch;

use std::fmt;
use std::sync::Arc;

pub use options::{EtcdCredentials, EtcdOptions};

use self::pool::Pool;
use self::range::PairSize;
use crate::{Capabilities, KvError};

/// A store in an etcd cluster, version 3.4 or later.
///
#[doc = include_str!("etcd/errors.md")]
pub struct EtcdKv {
    pool: Arc<Pool>,
    capabilities: Capabilities,
    pair_size: PairSize,
}

impl EtcdKv {
    /// Connects, authenticates, checks that all reachable endpoints are of one cluster, and verifies `max_request_bytes` with one
    /// padded request that changes nothing. At least one endpoint must be reachable and the cluster must have a leader.
    ///
    /// # Errors
    /// * `InvalidArgument`: a setting is wrong, or a certificate does not parse.
    /// * `Auth`: user or password is wrong, or a TLS handshake was refused.
    /// * `WrongStore`: endpoints of different clusters, or not of the cluster asked for.
    /// * `TooLarge`: the server takes smaller requests than `max_request_bytes` says.
    /// * `Unsupported`: the server is older than 3.4.
    /// * `Unavailable`, `Timeout`: no endpoint answered in time; worth trying again.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing in the store.
    pub async fn connect(options: EtcdOptions) -> Result<Self, KvError> {
        options.validate()?;
        let capabilities = options.capabilities();
        let pool = Pool::open(options).await?;
        probe::verify_request_limit(&pool).await?;
        Ok(Self { pool: Arc::new(pool), capabilities, pair_size: PairSize::default() })
    }

    /// The id of the cluster, as in the header of every reply.
    #[must_use]
    pub fn cluster_id(&self) -> u64 {
        self.pool.cluster_id()
    }
}

impl fmt::Debug for EtcdKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdKv")
            .field("endpoints", &self.pool.options().endpoints)
            .field("cluster_id", &format_args!("{:016x}", self.cluster_id()))
            .finish_non_exhaustive()
    }
}
