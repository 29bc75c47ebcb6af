//! Owns what a call of the master can answer instead of success: a stable code each, and one sentence.

use ha_types::{ObjectIncarnation, ObjectKey, SegmentId};

/// Why a call did not succeed. But for [`Unknown`](Self::Unknown) and a cut-short [`NotApplied`](Self::NotApplied), the call
/// has changed nothing (M5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterError {
    /// There is no readable object of that key, nor a put that runs.
    #[error("object {key} does not exist; check key and tenant, or put it")]
    ObjectNotFound {
        /// The key.
        key: ObjectKey,
    },
    /// The object is still being written.
    #[error("object {key} is still being written; try again when its put has ended")]
    ReplicaIsNotReady {
        /// The key.
        key: ObjectKey,
    },
    /// The key has an object, or a put that runs.
    #[error("object {key} exists or is being written; remove it first")]
    ObjectAlreadyExists {
        /// The key.
        key: ObjectKey,
    },
    /// Not enough segments have room for the object.
    #[error("no space for {replicas} replicas of {size} bytes: {reason}")]
    NoAvailableSpace {
        /// Bytes asked for.
        size: u64,
        /// Replicas asked for.
        replicas: usize,
        /// What there is.
        reason: String,
    },
    /// No segment of that id is mounted.
    #[error("segment {segment} is not mounted; check its id, or mount it")]
    SegmentNotFound {
        /// The segment.
        segment: SegmentId,
    },
    /// A segment of that id is mounted at another place or with another size.
    #[error("segment {segment} is mounted already, as {mounted}; unmount it first")]
    SegmentAlreadyMounted {
        /// The segment.
        segment: SegmentId,
        /// Where it is mounted.
        mounted: String,
    },
    /// The addresses belong to another segment of the same endpoint.
    #[error(
        "segment {segment} would overlap segment {other}, which is mounted at {place}; unmount that one first, or give other addresses"
    )]
    SegmentOverlaps {
        /// The segment asked for.
        segment: SegmentId,
        /// The one that is mounted.
        other: SegmentId,
        /// Where that one is mounted.
        place: String,
    },
    /// Puts into the segment run.
    #[error(
        "segment {segment} has {running_puts} puts running; the last grant ends in {retry_after_ms} ms; unmount it then"
    )]
    SegmentBusy {
        /// The segment.
        segment: SegmentId,
        /// How many.
        running_puts: u64,
        /// When the last of them has ended, in milliseconds from now.
        retry_after_ms: u64,
    },
    /// The time in which the put had to end is over.
    #[error("the grant of put {incarnation} of object {key} has ended; start the put again")]
    GrantExpired {
        /// The key.
        key: ObjectKey,
        /// The put.
        incarnation: ObjectIncarnation,
    },
    /// The put is another client's.
    #[error("put {incarnation} of object {key} belongs to another client; end and revoke only what you started")]
    WrongOwner {
        /// The key.
        key: ObjectKey,
        /// The put.
        incarnation: ObjectIncarnation,
    },
    /// The effect is not in the log and never will be.
    #[error("not applied: {reason}")]
    NotApplied {
        /// Why.
        reason: String,
    },
    /// Nobody can say whether the effect is in the log; ask the next primary.
    #[error("it is unknown whether the call was applied: {reason}")]
    Unknown {
        /// Why.
        reason: String,
    },
    /// This node may not answer; another one may.
    #[error("this node is not the leader: {reason}")]
    NotLeader {
        /// Why.
        reason: String,
    },
    /// It can be answered later.
    #[error("try again in {ms} ms: {reason}")]
    RetryAfter {
        /// Milliseconds from now.
        ms: u64,
        /// Why.
        reason: String,
    },
    /// An argument is out of its range.
    #[error("{0}")]
    Invalid(String),
}

impl MasterError {
    /// The stable name of the kind, for wire, logs and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ObjectNotFound { .. } => "OBJECT_NOT_FOUND",
            Self::ReplicaIsNotReady { .. } => "REPLICA_IS_NOT_READY",
            Self::ObjectAlreadyExists { .. } => "OBJECT_ALREADY_EXISTS",
            Self::NoAvailableSpace { .. } => "NO_AVAILABLE_SPACE",
            Self::SegmentNotFound { .. } => "SEGMENT_NOT_FOUND",
            Self::SegmentAlreadyMounted { .. } => "SEGMENT_ALREADY_MOUNTED",
            Self::SegmentOverlaps { .. } => "SEGMENT_OVERLAPS",
            Self::SegmentBusy { .. } => "SEGMENT_BUSY",
            Self::GrantExpired { .. } => "GRANT_EXPIRED",
            Self::WrongOwner { .. } => "WRONG_OWNER",
            Self::NotApplied { .. } => "NOT_APPLIED",
            Self::Unknown { .. } => "UNKNOWN",
            Self::NotLeader { .. } => "NOT_LEADER",
            Self::RetryAfter { .. } => "RETRY_AFTER",
            Self::Invalid(_) => "INVALID",
        }
    }
}
