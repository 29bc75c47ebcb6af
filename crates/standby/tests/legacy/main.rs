//! A standby in legacy mode: it follows the per-entry log, crosses at the base, and is promoted only after the cutover.

#[path = "../support/mod.rs"]
mod support;

mod above_base;
mod crossing;
mod faults;
mod follow;
mod gaps;
mod kit;
mod out_of_order;
mod promotion;
mod storm;
