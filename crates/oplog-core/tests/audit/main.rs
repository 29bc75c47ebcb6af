//! The audit of sound logs of every format, of each kind of damage, beside writers that live, and on stores that fail.

#[path = "../support/mod.rs"]
mod support;

mod bytes;
mod damage;
mod kit;
mod live;
mod reads;
mod sound;
