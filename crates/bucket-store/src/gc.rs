//! Owns how space comes back: which buckets go, the copy that saves what is alive in them, and the intents that make it survive
//! a crash. RFC *bucket deletion* §§5–7, 11.

mod again;
mod aside;
pub mod budget;
mod cleanup;
mod commit;
mod copy;
mod engine;
mod evict;
pub mod facts;
mod intents;
pub mod plan;
mod remove;
mod round;
mod snapshot;

pub(crate) use engine::Gc;
pub(crate) use snapshot::facts as facts_of;

pub use engine::GcStep;
pub use evict::{EvictedObject, Evictor};

#[cfg(test)]
mod tests;
