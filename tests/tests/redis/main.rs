//! The Redis backend, and everything that stands on it, against real servers. Each test has servers of its own.

mod cluster;
mod commands;
mod conformance;
mod crooked;
mod errors;
mod failover;
mod lease;
mod model;
mod outcome;
mod promise;
mod scripts;
mod support;
mod trust;
