//! Owns what the index knows of records that left it while a bucket could not be read, and what must be noted before others leave. How
//! that gets to disk is `store::graves`'.

use std::collections::HashSet;

use ha_types::ObjectIncarnation;

use super::State;
use super::slots::{Location, SlotState};
use crate::format::graves::{Graves, Rank};
use crate::format::names::BucketId;
use crate::format::table::Tombstone;

impl State {
    /// An index without a bucket, that knows this. It must be told before the first bucket is.
    pub(crate) fn with_graves(graves: Graves) -> Self {
        Self { graves, ..Self::default() }
    }

    /// What the file says from now on. Durably: what it says of objects is answered.
    pub(crate) fn set_graves(&mut self, graves: Graves) {
        self.graves = graves;
    }

    /// Whether the object was deleted, and its record has left since.
    pub(crate) fn is_buried(&self, key: &[u8], incarnation: ObjectIncarnation) -> bool {
        self.graves.is_deleted(key, incarnation)
    }

    /// Whether something is covered and not tombstoned yet.
    pub(crate) fn has_covered(&self) -> bool {
        !self.covered.is_empty()
    }

    /// What must be known after these buckets have left, but for the records that were copied: of each key that `may_come_back`, below
    /// which rank all was replaced, and what was deleted. `None` if all of it is known.
    ///
    /// What is only hidden counts as deleted: once its record is gone without a tombstone its delete is answered as done.
    pub(crate) fn graves_for(
        &self,
        leaving: &[BucketId],
        copied: &HashSet<Location>,
        may_come_back: impl Fn(&[u8]) -> bool,
    ) -> Option<Graves> {
        let mut graves = None;
        let mut news = false;
        for state in leaving.iter().filter_map(|id| self.buckets.get(id)) {
            for (slot, entry) in (0_u32..).zip(&state.slots) {
                let at = Location { bucket: state.id(), slot };
                if copied.contains(&at) || !may_come_back(&entry.key) {
                    continue;
                }
                let is_gone = matches!(entry.state, SlotState::Hidden | SlotState::Tombstoned);
                let deleted = (is_gone && entry.tombstone == Tombstone::Deleted).then_some(entry.incarnation);
                let rank = Rank { write_number: entry.write_number, bucket: at.bucket };
                news |= graves.get_or_insert_with(|| self.graves.clone()).add(&entry.key, rank, deleted);
            }
        }
        graves.filter(|_| news)
    }
}
