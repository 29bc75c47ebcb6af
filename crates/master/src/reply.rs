//! Owns the shapes of the answers.

use std::sync::Arc;

use ha_types::{ObjectIncarnation, ObjectKey, SegmentId, Seq};

use crate::Policy;

/// Where one replica lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRange {
    /// The segment.
    pub segment: SegmentId,
    /// Where clients reach it now.
    pub endpoint: Arc<str>,
    /// The first address.
    pub address: u64,
    /// Its bytes.
    pub length: u64,
}

/// The right to write one object's bytes for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutGrant {
    /// The name of the object to be; put end and put revoke must name it.
    pub incarnation: ObjectIncarnation,
    /// Where to write.
    pub replicas: Vec<ReplicaRange>,
    /// How long the client may write, in milliseconds of its own clock from the moment it sent the request.
    pub grant_ms: u64,
}

/// A readable object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetReply {
    /// Which object it is.
    pub incarnation: ObjectIncarnation,
    /// Its bytes.
    pub size: u64,
    /// Where it can be read.
    pub replicas: Vec<ReplicaRange>,
    /// How long the client may read, in milliseconds of its own clock from the moment it sent the request.
    pub lease_ms: u64,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// The key.
    pub key: ObjectKey,
    /// Which object it is.
    pub incarnation: ObjectIncarnation,
    /// Its bytes.
    pub size: u64,
    /// How many replicas can be read.
    pub replicas: usize,
}

/// One page of a list, in byte order of the keys.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListPage {
    /// The objects.
    pub objects: Vec<ListedObject>,
    /// Whether keys after the last one may exist.
    pub more: bool,
}

/// One segment and what lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Its id.
    pub segment: SegmentId,
    /// Where clients reach it.
    pub endpoint: Arc<str>,
    /// The first address.
    pub base: u64,
    /// Its bytes.
    pub size: u64,
    /// Bytes free, whether or not they may be handed out yet.
    pub free_bytes: u64,
    /// Bytes of objects and running puts.
    pub used_bytes: u64,
    /// Bytes of objects that are gone, kept while a reader or writer may still use them.
    pub held_bytes: u64,
    /// Puts that run.
    pub running_puts: u64,
    /// For how long nothing is handed out of it, in milliseconds; 0 if it is open. `None` until its mount is durable.
    pub quarantined_ms: Option<u64>,
}

/// Figures of one master, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterStats {
    /// Objects in the map, those with a removal on its way included.
    pub objects: u64,
    /// Puts that run.
    pub running_puts: u64,
    /// Removals that are committed and not yet finalized.
    pub pending_removals: u64,
    /// Tenants ever seen.
    pub tenants: u64,
    /// Leases granted since the promotion.
    pub leases_granted: u64,
    /// Bytes of all segments.
    pub total_bytes: u64,
    /// Bytes free, quarantined ones included.
    pub free_bytes: u64,
    /// Bytes free in segments out of which nothing is handed out yet.
    pub quarantined_bytes: u64,
    /// Bytes kept while a reader or writer may still use them.
    pub held_bytes: u64,
    /// How much longer the quarantine after the promotion lasts, in milliseconds.
    pub quarantine_ms: u64,
    /// The segments, in order of their ids.
    pub segments: Vec<SegmentInfo>,
    /// The times in force.
    pub policy: Policy,
    /// The last entry known durable.
    pub durable_seq: Seq,
}
