//! Owns the tests of a log that Mooncake began: followed, taken over, and written on by us.

#[path = "../support/mod.rs"]
mod support;

mod following;
mod kit;
mod take_over;
