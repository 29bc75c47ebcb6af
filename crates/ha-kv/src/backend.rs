//! One module a backend, each with the same set of files.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod memory;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
