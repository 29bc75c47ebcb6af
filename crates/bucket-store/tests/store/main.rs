//! Owns the tests of the store through its public calls, on the simulated disk and on a real one.

mod kit;
mod list;
mod model;
mod open;
mod read;
mod write;
