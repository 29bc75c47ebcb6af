//! Owns the tests of deletes through the store's public calls: what is answered, and what every power loss after it leaves.

mod concurrent;
mod crashes;
mod faults;
mod kit;
mod names;
mod outcomes;
mod torture;
