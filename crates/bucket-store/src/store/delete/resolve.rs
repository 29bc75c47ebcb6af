//! Owns steps 1 and 2 of a delete: which records a request means, or why it means none. Pure; it hides nothing.

use ha_types::ObjectIncarnation;

use super::outcome::{DeleteOutcome, DeleteRequest};
use crate::error::Problem;
use crate::format::table::Tombstone;
use crate::key::StorageKey;
use crate::store::state::{Engagement, Fate, Location, Record, SlotState, State};

/// What a request means.
#[derive(Debug)]
pub(super) enum Resolution {
    /// Nothing to delete, whatever else there may be.
    Known(DeleteOutcome),
    /// Nothing to delete, if no bucket that is not in the index holds the object.
    Absent(DeleteOutcome),
    /// These records, nearly always one. Some may be hidden already: their delete is joined.
    Delete(Vec<Location>),
}

/// Finds what a request means.
pub(super) fn resolve(state: &State, request: &DeleteRequest<'_>) -> Resolution {
    let key = request.key;
    if let Err(reason) = StorageKey::check(key) {
        let problem = Problem::BadKey { key: key.into(), reason };
        return Resolution::Known(DeleteOutcome::Invalid(problem.into()));
    }
    let uncertain = |record: &Record<'_>| record.bucket.engagement() == Engagement::Uncertain;
    if undead(state, key).any(|record| uncertain(&record)) {
        // Neither the old place nor the new one may get a tombstone before it is known which of them counts.
        return busy(key, "in a round of GC that is not known yet to be committed");
    }
    let named: Vec<_> = undead(state, key).filter(|record| record.slot.incarnation == request.incarnation).collect();
    // A write that runs may bring an object that is not here, and may bring anew one that is damaged.
    if named.iter().all(|record| record.state() == SlotState::Damaged) && state.is_in_flight(key) {
        return busy(key, "being written");
    }
    if request.incarnation == ObjectIncarnation::LEGACY {
        return legacy(state, key, &named);
    }
    if named.is_empty() { absent(state, request) } else { delete(named) }
}

/// Incarnation 0 names whatever was written before there were incarnations, so it must not be guessed which: it acts only on the key's
/// one live record. What was hidden is already chosen.
fn legacy(state: &State, key: &[u8], named: &[Record<'_>]) -> Resolution {
    let hidden: Vec<_> = named.iter().copied().filter(|record| record.state() == SlotState::Hidden).collect();
    if !hidden.is_empty() {
        return delete(hidden);
    }
    let newest = undead(state, key).next_back();
    // One that is damaged in this life may be live in the next.
    let is_live = |record: Record<'_>| matches!(record.state(), SlotState::Live | SlotState::Damaged);
    if newest.is_some_and(|newest| is_live(newest) && newest.slot.incarnation == ObjectIncarnation::LEGACY) {
        return delete(named.to_vec());
    }
    if named.iter().any(|record| state.fate(record.at) != Fate::Drop) {
        return busy(key, "replaced by a version that is not durable yet");
    }
    if named.is_empty() {
        return absent(state, &DeleteRequest { key, incarnation: ObjectIncarnation::LEGACY });
    }
    Resolution::Absent(DeleteOutcome::StaleVersion)
}

/// No record of that incarnation is here but for tombstones. All answers rest on durable tables: what is hidden was found before.
fn absent(state: &State, request: &DeleteRequest<'_>) -> Resolution {
    let tombstoned = state.records(request.key).filter(|record| record.slot.incarnation == request.incarnation);
    let buried = state.is_buried(request.key, request.incarnation).then_some(Tombstone::Deleted);
    match tombstoned.map(|record| record.slot.tombstone()).max().max(buried) {
        Some(Tombstone::Deleted) => Resolution::Known(DeleteOutcome::AlreadyRemoved),
        // That a copy of it was replaced says nothing of another one.
        Some(Tombstone::Replaced) => Resolution::Absent(DeleteOutcome::AlreadyRemoved),
        None => Resolution::Absent(DeleteOutcome::StaleVersion),
    }
}

fn undead<'a>(state: &'a State, key: &[u8]) -> impl DoubleEndedIterator<Item = Record<'a>> {
    state.records(key).filter(|record| record.state() != SlotState::Tombstoned)
}

fn delete(records: Vec<Record<'_>>) -> Resolution {
    Resolution::Delete(records.into_iter().map(|record| record.at).collect())
}

fn busy(key: &[u8], doing: &'static str) -> Resolution {
    Resolution::Known(DeleteOutcome::Retryable(Problem::Busy { key: key.into(), doing }.into()))
}

#[cfg(test)]
mod tests;
