//! Owns deletes: RFC *bucket deletion* §4, its ten steps by number, with the one change of design §8: step 9, the hiding, comes first.
//! It must not move data, and it knows no rule of which tombstone may be written when: `state::burial` does.
//!
//! ```text
//! resolve, hide (2, 9) ──► table of each bucket: copy, mark, write, sync, rename, sync (3 to 8) ──► answer (10)
//!        ▲                        │ one publish for all that wait for it; buckets in id order
//!        └── GC moved it (B4) ────┘
//! ```
//!
//! A hidden record never comes back while the store is open. Whatever fails from then on is answered [`DeleteOutcome::Retryable`], and the
//! next delete of that record, or the next publish of that table for any reason, ends what was begun.

mod outcome;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};

use ha_types::ObjectIncarnation;

pub use self::outcome::{DeleteOutcome, DeleteRequest};
use self::resolve::Resolution;
use super::Store;
use super::state::{SlotState, State};
use crate::error::{Problem, StoreError};
use crate::format::names::BucketId;

/// The most times that one call asks which tables are next. A delete needs two or three, and one more for each time that GC moves its record.
const MOST_ROUNDS: usize = 64;

impl Store {
    /// Deletes objects for ever: each is gone for readers at once, and its tombstone is durable when it is answered
    /// [`DeleteOutcome::Removed`]. RFC *bucket deletion* §4.
    ///
    /// Outcomes are in the order of the requests, and one never depends on another. Tombstones of one bucket share one write of its
    /// table, with those of other calls that wait for it too. No data is copied.
    ///
    /// # Errors
    /// `ARGUMENT` if there are more than `max_batch` requests; then nothing was deleted. What is wrong with one request is its outcome.
    pub fn delete(&self, requests: &[DeleteRequest<'_>]) -> Result<Vec<DeleteOutcome>, StoreError> {
        if requests.len() > self.config.max_batch {
            return Err(Problem::Argument {
                argument: "requests",
                expected: format!("give at most max_batch, which is {}", self.config.max_batch),
                found: requests.len().to_string(),
            }
            .into());
        }
        let read_only = self.health.read_only();
        let mut outcomes: Vec<Option<DeleteOutcome>> = Vec::with_capacity(requests.len());
        {
            let mut state = self.state.write();
            for request in requests {
                // Steps 1 and 2: the storage key, the object, its incarnation.
                outcomes.push(match resolve::resolve(&state, request) {
                    Resolution::Known(outcome) => Some(outcome),
                    Resolution::Absent(outcome) => Some(self.unless_in_quarantine(request, outcome)),
                    Resolution::Delete(_) if read_only.is_some() => {
                        read_only.clone().map(|reason| DeleteOutcome::Retryable(Problem::ReadOnly(reason).into()))
                    }
                    Resolution::Delete(places) => {
                        // Step 9, before anything can fail: from here on no reader finds it, and nothing ever brings it back.
                        for place in places {
                            state.hide(place);
                        }
                        None
                    }
                });
            }
        }
        self.finish_deletes(requests, &mut outcomes);
        // Step 10: the caller acknowledges what is terminal.
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Not in the index is absent for certain only if every bucket is in the index.
    fn unless_in_quarantine(
        &self,
        DeleteRequest { key, incarnation }: &DeleteRequest<'_>,
        outcome: DeleteOutcome,
    ) -> DeleteOutcome {
        match self.quarantined.iter().find(|(_, bucket)| bucket.may_hold(key, *incarnation)) {
            Some((bucket, _)) => {
                DeleteOutcome::Retryable(Problem::InQuarantine { bucket: *bucket, key: (*key).into() }.into())
            }
            None => outcome,
        }
    }

    /// Steps 3 to 8 for every request without an outcome, until each has one.
    fn finish_deletes(&self, requests: &[DeleteRequest<'_>], outcomes: &mut [Option<DeleteOutcome>]) {
        let mut failed: BTreeMap<BucketId, StoreError> = BTreeMap::new();
        for _ in 0..MOST_ROUNDS {
            let mut tables = BTreeSet::new();
            {
                let state = self.state.read();
                let open = requests.iter().zip(outcomes.iter_mut()).filter(|(_, outcome)| outcome.is_none());
                for (request, outcome) in open {
                    let next = next_tables(&state, request.key, request.incarnation);
                    if let Some(error) = next.iter().find_map(|table| failed.get(table)) {
                        *outcome = Some(DeleteOutcome::Retryable(error.clone()));
                    } else if next.is_empty() {
                        *outcome = Some(DeleteOutcome::Removed);
                    } else {
                        tables.extend(next);
                    }
                }
            }
            if tables.is_empty() {
                return;
            }
            for table in tables {
                if let Err(error) = self.publish_table(table) {
                    failed.insert(table, error);
                }
            }
        }
        for (request, outcome) in requests.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_none()) {
            let busy = Problem::Busy { key: request.key.into(), doing: "moved again and again" };
            *outcome = Some(DeleteOutcome::Retryable(busy.into()));
        }
    }
}

/// The tables that must be published next for the tombstones of an incarnation, wherever its records are by now. None: all are durable, or
/// GC left the records behind for good.
fn next_tables(state: &State, key: &[u8], incarnation: ObjectIncarnation) -> Vec<BucketId> {
    let hidden = state.records(key).filter(|record| record.slot.incarnation == incarnation);
    let hidden = hidden.filter(|record| record.state() == SlotState::Hidden);
    hidden.filter_map(|record| state.next_publish(record.at)).collect()
}
