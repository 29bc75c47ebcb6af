//! Owns the shapes of the calls that have more than a few arguments.

use std::sync::Arc;

use ha_types::{ObjectKey, SegmentId, TenantId};

use crate::ClientId;

/// A segment joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSegment {
    /// Its id, unique for all time.
    pub segment: SegmentId,
    /// Where clients reach it, 1 to 255 bytes; opaque to the master.
    pub endpoint: Arc<str>,
    /// The first address, in the endpoint's address space.
    pub base: u64,
    /// Its bytes.
    pub size: u64,
}

/// A put starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutStart {
    /// The tenant.
    pub tenant: TenantId,
    /// The key.
    pub key: ObjectKey,
    /// Bytes of the object.
    pub size: u64,
    /// How many replicas, each in a segment of its own.
    pub replicas: usize,
    /// Who writes.
    pub client: ClientId,
}

impl MountSegment {
    /// The longest endpoint, in bytes.
    pub const MAX_ENDPOINT_BYTES: usize = 255;
}
