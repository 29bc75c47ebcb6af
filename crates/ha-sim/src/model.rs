//! Owns the model of the log's protocol: writers, claims, promotions, truncation and cutover over one store, in every order.

mod action;
mod fold;
mod invariant;
mod log_model;
mod rules;
mod scenario;
mod situation;
mod store;
mod truth;
mod turn;
mod world;

pub use action::{Action, Fate, Step};
pub use invariant::Invariant;
pub(crate) use log_model::HOLDS;
pub use log_model::LogModel;
pub use rules::{Rule, Rules};
pub use scenario::{Bounds, Scenario, Start};
pub use situation::Situation;
pub use world::World;
