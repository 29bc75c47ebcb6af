//! The etcd backend, and everything that stands on it, against real servers. Each test has servers of its own.

mod auth;
mod conformance;
mod elections;
mod identity;
mod lease;
mod limits;
mod log_kit;
mod log_rows;
mod members;
mod no_space;
mod outcome;
mod range;
mod support;
mod tls;
mod watch;
