//! Owns the Redis backend: options in, one server at a time, one script a call, no write ever sent twice.
//!
//! # What Redis can and cannot promise
//! One server that syncs its append-only file before it answers, with no replica and no failover, keeps what it acknowledged. Nothing else
//! does: replication is asynchronous (`WAIT` does not change that), so every failover may lose acknowledged writes, and a cluster or
//! a Sentinel exists to fail over. [`Capabilities::durable_ack`](crate::Capabilities) says yes only if the server itself says all of:
//! `appendonly yes`, `appendfsync always`, `no-appendfsync-on-rewrite no`, `maxmemory-policy noeviction` or `maxmemory 0`, role
//! master, no replica, no cluster, no Sentinel. What cannot be read (`CONFIG` forbidden or renamed) counts as no. All of that is asked
//! again on every new connection; a worse answer than the first one ends the client for good: every call is `WrongStore` from then on.
//! What changes without a new connection is not seen before the next one. *The whole story for operators is in `docs/redis.md`.*
//!
//! # Layout
//! All keys carry the namespace as hash tag, so they lie in one slot: `{ns}:values` (hash), `{ns}:index` (sorted set, all scores 0,
//! for byte order), `{ns}:holders` (hash: key to lease), `{ns}:meta` (hash: id of the store, format, counts, change counter), and
//! `{ns}:lease:<id>`, which expires. The counts are compared in every script: a part that was evicted or removed by hand is `Corrupt`,
//! never an absent key. The id is drawn with the first write; a store that lost it, or has another, is `WrongStore`.
//!
//! # One script a call, and no automatic retry
//! Every call is one Lua script that checks everything before its first write; numbers of the store travel as text. The request
//! carries a nonce that comes back with the reply, so no reply is ever taken for another's. A script that the server does not know
//! (`NOSCRIPT`, which proves that nothing ran) is sent once more in full; nothing else is repeated. The library's connection does not
//! reconnect: after a failure to answer it is dropped, and the *next* call makes a new one.
//!
//! # Leases
//! A lease is a key that expires by the *server's* wall clock; a step of that clock ends leases early or late. Leases say who should
//! act; the safety of what is written must rest on the compares of a transaction. The key of a dead holder stays readable until it
//! is taken over.
//!
//! The table *native error → (kind, effect)* is shown with [`RedisKv`].

mod admit;
mod answer;
mod call;
mod connect;
mod durability;
mod error;
mod kv;
mod lease;
mod link;
mod locate;
mod options;
mod range;
mod script;
mod txn;
mod watch;

use std::fmt;
use std::sync::Arc;

use ha_types::Entropy;

use self::call::Inner;
pub use self::options::{RedisCredentials, RedisOptions, RedisServers};
use crate::KvError;

/// A store in a Redis server, version 6 or later.
///
#[doc = include_str!("redis/errors.md")]
pub struct RedisKv {
    inner: Arc<Inner>,
}

impl RedisKv {
    /// Connects, authenticates, and asks the server how durable its answers are. Changes nothing in the store. `entropy` names leases and
    /// requests. Takes up to the request timeout for each address given, while they are silent.
    ///
    /// # Errors
    /// * `InvalidArgument`: a setting is wrong, a certificate does not parse, or the form of the address does not fit the server
    ///   (a node of a cluster named as a single server, a database index in a cluster).
    /// * `Auth`: user or password is wrong, a right is missing, or a TLS handshake was refused.
    /// * `ReadOnly`: the server is a replica.
    /// * `TooLarge`: the server takes smaller values than `max_txn_bytes`.
    /// * `Unsupported`: the server is older than 6, or its script commands were renamed.
    /// * `WrongStore`, `Corrupt`: what lies under the namespace is not a store of ours, or not all of one; the key is named.
    /// * `Busy`, `Unavailable`, `Timeout`: no server answered in time, or it is still loading; worth trying again.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing in the store.
    pub async fn connect(options: RedisOptions, entropy: Arc<dyn Entropy>) -> Result<Self, KvError> {
        options.validate()?;
        let inner = Inner::open(options, entropy).await?;
        let store = Self { inner: Arc::new(inner) };
        store.look().await?;
        Ok(store)
    }

    /// The address of the server that was connected to last, `host:port`.
    #[must_use]
    pub fn server(&self) -> String {
        self.inner.server()
    }
}

impl fmt::Debug for RedisKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisKv")
            .field("servers", &self.inner.options().servers)
            .field("namespace", &self.inner.options().namespace)
            .field("server", &self.server())
            .finish_non_exhaustive()
    }
}
