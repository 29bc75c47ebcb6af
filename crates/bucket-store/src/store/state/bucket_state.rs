//! Owns what the index knows of one bucket: its slots, their counters, and what it is being used for. Changes go through `State`.

use std::sync::Arc;

use super::figures::Figures;
use super::slots::SlotEntry;
use crate::format::names::BucketId;
use crate::store::bucket::Bucket;

/// What a bucket is being used for by GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) enum Engagement {
    /// Nothing.
    #[default]
    Free,
    /// Source of a round that is being copied. Deletes go on in it until its commit section.
    Merging,
    /// About to be evicted. Its objects are served until the round is committed.
    Evicting,
    /// Source of a round whose COMMITTED may or may not be in place: no tombstone may go to it, and deletes of its keys answer
    /// `Retryable` without hiding.
    Uncertain,
}

/// Why a bucket may be no source of GC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Suspicion {
    /// The last publish of its table failed, so that disk and memory may differ. A publish that succeeds clears it.
    pub(crate) publish_failed: bool,
    /// A record of it is covered, and its table does not say so yet.
    pub(crate) covered: bool,
    /// A record did not verify or could not be read. Stays until the store is opened anew.
    pub(crate) unreadable: bool,
}

impl Suspicion {
    /// Whether there is any.
    pub(crate) const fn any(self) -> bool {
        self.publish_failed || self.covered || self.unreadable
    }
}

/// One bucket of the index.
#[derive(Debug)]
pub(crate) struct BucketState {
    pub(super) bucket: Arc<Bucket>,
    pub(super) slots: Vec<SlotEntry>,
    pub(super) figures: Figures,
    pub(super) published: bool,
    pub(super) suspicion: Suspicion,
    pub(super) engagement: Engagement,
}

impl BucketState {
    /// The bucket.
    pub(crate) const fn bucket(&self) -> &Arc<Bucket> {
        &self.bucket
    }

    /// Its number.
    pub(crate) fn id(&self) -> BucketId {
        self.bucket.id
    }

    /// Its records, in the order of the table.
    pub(crate) fn slots(&self) -> &[SlotEntry] {
        &self.slots
    }

    /// Its counters.
    pub(crate) const fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Whether its table is durable.
    pub(crate) const fn is_published(&self) -> bool {
        self.published
    }

    /// Why it may be no source of GC.
    pub(crate) const fn suspicion(&self) -> Suspicion {
        self.suspicion
    }

    /// What it is being used for.
    pub(crate) const fn engagement(&self) -> Engagement {
        self.engagement
    }
}
