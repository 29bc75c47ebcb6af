//! The words every Plimsoll crate shares: ids, op-type numbers, and the traits through which time and randomness enter.
//!
//! No I/O, no async, no backend. What is deliberately absent: anything that can fail at run time beyond parsing an id.
#![doc = include_str!("../README.md")]

mod backoff;
mod clock;
mod cluster_id;
mod entropy;
mod epoch;
mod incarnation;
mod leader_guard;
mod object_key;
mod op_type;
mod segment_id;
mod sequence;
mod tenant_id;
mod text_id;

pub use backoff::Backoff;
pub use clock::{Clock, MonoTime};
pub use cluster_id::{ClusterId, ClusterIdError};
pub use entropy::Entropy;
pub use epoch::{Epoch, Owner};
pub use incarnation::ObjectIncarnation;
pub use leader_guard::LeaderGuard;
pub use object_key::{ObjectKey, ObjectKeyError};
pub use op_type::{OpType, UnknownOpType};
pub use segment_id::{SegmentId, SegmentIdError};
pub use sequence::{BatchId, Seq};
pub use tenant_id::{TenantId, TenantIdError};

#[cfg(feature = "system")]
pub use clock::SystemClock;
#[cfg(feature = "system")]
pub use entropy::SystemEntropy;

#[cfg(feature = "test-kit")]
pub use clock::ManualClock;
#[cfg(feature = "test-kit")]
pub use entropy::SeededEntropy;
#[cfg(feature = "test-kit")]
pub use leader_guard::AlwaysLeads;
