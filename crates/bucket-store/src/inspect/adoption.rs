//! Owns the forecast of an adoption: what would be served, what would be given up, and what stands in the way. It says what the open does,
//! and does none of it.

use super::contents::{Amount, Contents, RecordState};
use super::fault::{Fault, FaultKind};
use super::fsck::judged;
use super::look::Look;
use crate::recovery::{Decision, decide};

/// What would become of a directory that is adopted.
#[derive(Clone, Debug)]
pub struct Adopting {
    /// Why it would be refused, and nothing changed; empty if it would not.
    pub refused: Vec<Fault>,
    /// Buckets with a table.
    pub buckets: u64,
    /// The objects that would be served.
    pub live: Amount,
    /// Records that would be given up: the bucket with the highest id has another object of their key.
    pub superseded: Amount,
    /// Records that are deleted already; Mooncake has none.
    pub tombstoned: Amount,
    /// Rounds of GC that would be ended, and how; Mooncake has none.
    pub rounds: Vec<Decision>,
    /// Temporary files that would be removed.
    pub temporaries: Vec<String>,
}

/// Says what an adoption of what [`look`](super::look()) saw would do. Whose the directory is then is not asked.
#[must_use]
pub fn adopting(look: &Look, contents: &Contents) -> Adopting {
    let stands_in_the_way = |fault: &Fault| match fault.kind {
        // That is what adoption is for.
        FaultKind::MarkerMissing => false,
        FaultKind::OrphanData
        | FaultKind::UnknownData
        | FaultKind::TableDamaged
        | FaultKind::DataMissing
        | FaultKind::DataShort
        | FaultKind::ReadFailed => true,
        _ => fault.refuses(),
    };
    let refused: Vec<_> = judged(look).into_iter().filter(stands_in_the_way).collect();
    let rounds = look.survey().filter(|_| refused.is_empty()).and_then(|survey| decide(&survey).ok());
    Adopting {
        refused,
        buckets: look.buckets.values().filter(|bucket| bucket.table.is_some()).count() as u64,
        live: contents.live(),
        superseded: contents.amount(RecordState::Superseded),
        tombstoned: contents.amount(RecordState::Tombstoned),
        rounds: rounds.unwrap_or_default(),
        temporaries: look.temporaries.clone(),
    }
}
