//! Owns what the store tells whoever runs it: events and figures, through one trait. Nothing here feeds back into a decision.

use std::fmt;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::error::StoreError;
use crate::format::names::BucketId;
use crate::health::ReadOnlyReason;

/// What the store tells. Both methods do nothing by default.
///
/// An implementer returns quickly, never calls the store back (a lock may be held), and does not panic.
pub trait Observer: Send + Sync + fmt::Debug + 'static {
    /// Something happened. Handle by logging or counting; the store has dealt with it already.
    fn event(&self, event: &Event) {
        let _ = event;
    }

    /// How things stand now. Called after each round of GC and by every `gc_step` that finds nothing to do;
    /// [`Store::figures`](crate::Store::figures) tells it at any other time.
    fn figures(&self, figures: &Figures) {
        let _ = figures;
    }
}

/// Hears everything and does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn event(&self, event: &Event) {
        (**self).event(event);
    }

    fn figures(&self, figures: &Figures) {
        (**self).figures(figures);
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// The directory is open and recovery is done.
    Opened {
        /// Buckets that are served.
        buckets: usize,
        /// Live objects.
        objects: usize,
    },
    /// Data files without a table, which a crash left, were removed.
    OrphansRemoved {
        /// How many.
        files: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// A bucket is not served and not touched: its table or data file is missing or unreadable.
    BucketQuarantined {
        /// The bucket.
        bucket: BucketId,
        /// Why.
        reason: String,
    },
    /// A bucket is no source of GC until a publish of its table succeeds: a publish failed, or a record of it did not verify.
    BucketSuspect {
        /// The bucket.
        bucket: BucketId,
        /// Why.
        reason: String,
    },
    /// A bucket is no longer suspect.
    BucketTrusted {
        /// The bucket.
        bucket: BucketId,
    },
    /// An object did not verify and is no longer served.
    ObjectDamaged {
        /// Its storage key.
        key: Arc<[u8]>,
        /// Its incarnation.
        incarnation: ObjectIncarnation,
        /// The bucket that holds it.
        bucket: BucketId,
        /// What was wrong.
        error: StoreError,
    },
    /// Two live records of one key and incarnation were found; the newer one is served.
    ObjectTwice {
        /// Its storage key.
        key: Arc<[u8]>,
        /// Its incarnation.
        incarnation: ObjectIncarnation,
        /// The bucket of the one that is served.
        kept: BucketId,
        /// The bucket of the other.
        other: BucketId,
    },
    /// Tombstones of one bucket became durable with one write of its table.
    TombstonesPublished {
        /// The bucket.
        bucket: BucketId,
        /// How many records it tombstoned.
        tombstones: usize,
        /// Bytes of the table.
        table_bytes: u64,
    },
    /// An operation of the disk failed; what the store does about it depends on the call.
    DiskFailed {
        /// What failed.
        error: StoreError,
    },
    /// The store stopped changing its directory.
    ReadOnly {
        /// Why.
        reason: ReadOnlyReason,
    },
    /// The reserve was given up for a tombstone or an intent; writes and copies are refused until it is back.
    ReserveSpent {
        /// Its bytes.
        bytes: u64,
    },
    /// The reserve is back.
    ReserveBack {
        /// Its bytes.
        bytes: u64,
    },
    /// A round of GC or eviction was begun.
    GcBegun {
        /// The buckets that go.
        sources: Vec<BucketId>,
        /// The bucket that replaces them, if any.
        target: Option<BucketId>,
    },
    /// A round was committed: the target is authoritative.
    GcCommitted {
        /// The buckets that go.
        sources: Vec<BucketId>,
        /// The bucket that replaces them, if any.
        target: Option<BucketId>,
        /// Bytes that were copied.
        copied_bytes: u64,
    },
    /// A round was undone: the sources stay as they are.
    GcRolledBack {
        /// The buckets that stay.
        sources: Vec<BucketId>,
        /// Why.
        error: StoreError,
    },
    /// It is unknown whether a commit is on disk; it is repeated until it is.
    GcUncertain {
        /// The buckets of the round.
        sources: Vec<BucketId>,
        /// Why.
        error: StoreError,
    },
    /// The files of a round's sources are gone from the directory.
    GcCleaned {
        /// The buckets that are gone.
        sources: Vec<BucketId>,
        /// Bytes of their data files; those that a reader still holds fall when it lets go.
        freed_bytes: u64,
    },
    /// A bucket fails as a source of GC and is left alone for a while.
    GcSetAside {
        /// The bucket.
        bucket: BucketId,
        /// For how long, in milliseconds.
        retry_after_ms: u64,
        /// Why.
        error: StoreError,
    },
    /// A live bucket is evicted, since nothing dead was left to reclaim.
    Evicted {
        /// The bucket.
        bucket: BucketId,
        /// How many live objects it had.
        objects: usize,
    },
    /// The callback of an eviction failed: the bucket is live again.
    EvictionRefused {
        /// The bucket.
        bucket: BucketId,
        /// What the callback said.
        reason: String,
    },
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The configured capacity.
    pub capacity_bytes: u64,
    /// Blocks that bucket files occupy, those that are unlinked and still held by a reader included.
    pub physical_bytes: u64,
    /// Bytes of live records.
    pub live_bytes: u64,
    /// Bytes of records that are hidden, superseded, tombstoned or damaged, and still on disk.
    pub dead_bytes: u64,
    /// Live objects.
    pub live_objects: u64,
    /// Buckets that are served.
    pub buckets: u64,
    /// Buckets that GC would take now, those included for whose copies the disk may have no room.
    pub gc_candidates: u64,
    /// Buckets that are no source of GC for now.
    pub suspect_buckets: u64,
    /// Buckets that are neither served nor touched.
    pub quarantined_buckets: u64,
    /// Blocks among `physical_bytes` that no GC gives back: of those buckets, and of data files that could not be taken away. They are free
    /// again when a person has dealt with the buckets, and when the next open has taken the files away.
    pub out_of_reach_bytes: u64,
    /// Written bytes that are not durable yet.
    pub pending_bytes: u64,
    /// Rounds of GC whose files are not all gone yet.
    pub gc_rounds_open: u64,
    /// Whether the reserve is spent and not back.
    pub reserve_missing: bool,
    /// Whether the store is read-only.
    pub read_only: bool,
}
