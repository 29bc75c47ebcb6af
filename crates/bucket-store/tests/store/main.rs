//! Owns the tests of the store through its public calls, on the simulated disk and on a real one.

mod adopt;
mod broken_disk;
mod graves;
mod kit;
mod large;
mod list;
mod lost_names;
mod model;
mod numbers;
mod open;
mod open_files;
mod read;
mod rewrite;
mod room;
mod slow;
mod usage;
mod write;
