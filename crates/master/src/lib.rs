//! The metadata of a KV-cache store: objects, segments and their space, as one state in two roles.
//!
//! Deliberately absent: the backend of the log, the network, threads, wall clocks. The lock order is written in `locks.rs`.
//!
#![doc = include_str!("../README.md")]

mod after_commit;
mod calls;
mod client_id;
mod config;
mod error;
mod gate;
mod grants;
mod inner;
mod locks;
mod master;
#[cfg(feature = "mooncake")]
pub mod mooncake;
mod payload;
mod policy;
mod promise;
mod reply;
mod request;
mod serve_env;
mod serving;
mod state;
mod visibility;

pub use client_id::ClientId;
pub use config::MasterConfig;
pub use error::MasterError;
pub use master::Master;
pub use policy::{Policy, PolicyChange};
pub use promise::Promise;
pub use reply::{GetReply, ListPage, ListedObject, MasterStats, PutGrant, ReplicaRange, SegmentInfo};
pub use request::{MountSegment, PutStart};
pub use serve_env::{ServeEnv, ServeFailed};
pub use serving::Serving;
pub use state::{Contents, MasterState, ObjectContents, SegmentContents};
#[cfg(feature = "mooncake")]
pub use state::{MooncakeContents, MooncakeSegment};
