//! One module a backend, each with the same set of files, and what backends share.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(any(feature = "etcd", feature = "redis"))]
mod failure;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(any(feature = "etcd", feature = "redis"))]
pub(crate) mod secret;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(any(feature = "etcd", feature = "redis"))]
pub(crate) mod tls;
