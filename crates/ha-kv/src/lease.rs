//! Owns leases: a key that dies when its holder stops asking for it to live.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Effect, Kv, KvError, KvErrorKind};

/// The name of one lease, unique in its store.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseId(u64);

impl LeaseId {
    /// The lease `value`.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({:016x})", self.0)
    }
}

/// How a put-if-absent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum PutIfAbsent {
    /// The key was absent, or its holder's lease had run out, and is now this lease's.
    Put,
    /// Another lease holds the key, with this value.
    Held(Bytes),
}

/// A store with leases.
///
/// # Contract
/// A key put under a lease is not taken by another lease within the TTL after the store received the last successful
/// keep-alive; after that it may be taken at any time. No implementation trusts the wall clock of another machine.
#[async_trait]
pub trait LeaseKv: Kv {
    /// Grants a lease, of at least a millisecond. The store may raise `ttl`, and says what it granted.
    ///
    /// # Errors
    /// [`KvError`].
    async fn grant(&self, ttl: Duration) -> Result<(LeaseId, Duration), KvError>;

    /// Makes `lease` live for its whole TTL again.
    ///
    /// # Errors
    /// [`KvErrorKind::LeaseNotFound`](crate::KvErrorKind) if the lease ran out, was revoked, or its key was taken: final.
    /// Anything else says nothing about the lease.
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), KvError>;

    /// Ends `lease` and removes its keys. A lease that is gone already is no error.
    ///
    /// # Errors
    /// [`KvError`].
    async fn revoke(&self, lease: LeaseId) -> Result<(), KvError>;

    /// Puts `key` under `lease` if it is absent or its holder's lease ran out. Asked again by the lease that holds the key
    /// already with this value, the answer is [`PutIfAbsent::Put`].
    ///
    /// # Errors
    /// [`KvError`]; `LeaseNotFound` if `lease` is gone.
    async fn put_if_absent(&self, key: &[u8], value: Bytes, lease: LeaseId) -> Result<PutIfAbsent, KvError>;
}

/// The error of a lease that is no more.
pub(crate) fn lease_gone(lease: LeaseId) -> KvError {
    KvError::new(
        KvErrorKind::LeaseNotFound,
        Effect::NotApplied,
        format!("{lease:?} ran out, was revoked or was taken over; ask for a new one"),
    )
}

/// Refuses a lease that would be dead when it is granted.
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), KvError> {
    if ttl < Duration::from_millis(1) {
        let message = "the TTL is below a millisecond; ask for at least that";
        return Err(KvError::new(KvErrorKind::InvalidArgument, Effect::NotApplied, message));
    }
    Ok(())
}
