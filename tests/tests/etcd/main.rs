//! The etcd backend, and everything that stands on it, against real servers. Each test has servers of its own.

mod auth;
mod commands;
mod conformance;
mod elections;
mod identity;
mod lease;
mod legacy;
mod limits;
mod log_rows;
mod members;
mod mooncake;
mod no_space;
mod outcome;
mod range;
mod strain;
mod support;
mod tls;
mod upgrade;
mod watch;

use plimsoll_tests::log_kit;
