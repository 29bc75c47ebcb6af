//! Owns `.bucket_graves` while the store runs: nothing that is not served now comes back later with what was deleted meanwhile. What the
//! file says is `state::graves`'.
//!
//! ```text
//! open, a bucket cannot be read ──► away: that bucket, before anything is served
//! GC is about to drop records that it may hold ──► key, rank, deleted? ──► only then COMMITTED
//! open, some cannot be read ──► those that were away before stay away, too: what covers their records may be in the others
//! open, all can be read ──► what is covered is hidden and tombstoned ──► the file goes
//! ```

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::Store;
use super::open::Quarantined;
use super::state::{Engagement, Location};
use crate::crashsafe::{self, Attempt};
use crate::error::{Problem, StoreError};
use crate::format::MAX_FILE_BYTES;
use crate::format::graves::Graves;
use crate::format::names::{BucketId, GRAVES};
use crate::sync::AtomicBool;

/// Why a bucket that can be read is not served.
pub(crate) const STILL_AWAY: &str = "it could not be read before, and others cannot be read now: what was deleted meanwhile may be known \
                                     to those only";

/// The file, and what it is needed for.
#[derive(Debug)]
pub(crate) struct GravesFile {
    held: HeldKeys,
    /// There may be a file of that name.
    may_exist: AtomicBool,
    /// The last removal of it failed.
    removal_failed: AtomicBool,
}

/// The keys that buckets in quarantine may hold.
#[derive(Debug, Default)]
enum HeldKeys {
    #[default]
    None,
    These(HashSet<Arc<[u8]>>),
    /// One of their tables cannot be read.
    Any,
}

impl HeldKeys {
    fn of(quarantined: &BTreeMap<BucketId, Quarantined>) -> Self {
        let mut these = HashSet::new();
        for bucket in quarantined.values() {
            let Some(keys) = bucket.keys() else { return Self::Any };
            these.extend(keys.cloned());
        }
        if quarantined.is_empty() { Self::None } else { Self::These(these) }
    }

    fn may_hold(&self, key: &[u8]) -> bool {
        match self {
            Self::None => false,
            Self::These(keys) => keys.contains(key),
            Self::Any => true,
        }
    }
}

impl GravesFile {
    /// What the next open will need. `exists`: there is such a file.
    pub(super) fn new(quarantined: &BTreeMap<BucketId, Quarantined>, exists: bool) -> Self {
        let (may_exist, removal_failed) = (AtomicBool::new(exists), AtomicBool::new(false));
        Self { held: HeldKeys::of(quarantined), may_exist, removal_failed }
    }
}

impl Store {
    /// Before anything is served: which buckets are away. A file that is already there may have others, which stay.
    pub(super) fn note_away(&self, mut graves: Graves) -> Result<Graves, StoreError> {
        let before = graves.away.len();
        graves.away.extend(self.quarantined.keys());
        if graves.away.len() > before {
            self.publish_graves(&graves)?;
        }
        Ok(graves)
    }

    /// Before these buckets leave the disk, but for the records that were copied: what must not come back with a bucket that is not
    /// served. Their tables are locked. While there is such a bucket, deletes of their keys answer `Retryable` from here on until they
    /// have left, or are let go: none may come too late to be noted.
    ///
    /// # Errors
    /// As the disk says; `BUCKET_STAYS` if there is too much to note. Nothing may leave then.
    pub(crate) fn dig_graves(&self, leaving: &[BucketId], copied: &HashSet<Location>) -> Result<(), StoreError> {
        if self.quarantined.is_empty() {
            return Ok(());
        }
        let graves = {
            let mut state = self.state.write();
            leaving.iter().for_each(|id| state.engage(*id, Engagement::Uncertain));
            state.graves_for(leaving, copied, |key| self.graves.held.may_hold(key))
        };
        let (Some(graves), Some(bucket)) = (graves, leaving.first()) else { return Ok(()) };
        if graves.encoded_len() > MAX_FILE_BYTES {
            return Err(Problem::BucketStays { bucket: *bucket, reason: TOO_MANY }.into());
        }
        self.publish_graves(&graves)?;
        self.state.write().set_graves(graves);
        Ok(())
    }

    fn publish_graves(&self, graves: &Graves) -> Result<(), StoreError> {
        let bytes = graves.encode().map_err(|error| StoreError::unwritable(GRAVES, error))?;
        self.graves.may_exist.store(true, Relaxed);
        self.publish_intents(GRAVES, &bytes)
    }

    /// Whether the file has done what it was for: all is served, and says itself what it must not bring back.
    pub(crate) fn are_graves_done(&self) -> bool {
        self.graves.may_exist.load(Relaxed) && self.quarantined.is_empty() && !self.state.read().has_covered()
    }

    /// Takes the file away.
    ///
    /// # Errors
    /// As the disk says: it is known to be needed no more, and may be there after a restart.
    pub(crate) fn fill_graves(&self) -> Result<(), StoreError> {
        // What was unlinked and may come back is first replaced by a file that says nothing: a removal that is repeated would
        // make an empty one, which a power loss could leave.
        if self.graves.removal_failed.load(Relaxed) {
            self.publish_graves(&Graves::default())?;
        }
        let removed = crashsafe::remove(&*self.vfs, &[GRAVES], Attempt::First);
        self.graves.removal_failed.store(removed.is_err(), Relaxed);
        removed?;
        self.graves.may_exist.store(false, Relaxed);
        // Not before: a file that comes back must not say of an object that was written since that it was deleted.
        self.state.write().set_graves(Graves::default());
        Ok(())
    }
}

/// Why a bucket cannot be removed.
const TOO_MANY: &str = "too much has been deleted while a bucket cannot be read, and .bucket_graves has no room for more: mend the buckets \
                        in quarantine, or move their files away";

/// Which of the buckets that can be read must not be served, because others cannot.
pub(crate) fn still_away(graves: &Graves, unreadable: &BTreeSet<BucketId>) -> BTreeSet<BucketId> {
    if unreadable.is_empty() { BTreeSet::new() } else { graves.away.difference(unreadable).copied().collect() }
}
