//! Owns the decision table of recovery: what becomes of each round that an intent file names. Pure: it reads no file and changes none.

use crate::error::{Problem, StoreError};
use crate::format::intent::{Intents, Round};
use crate::format::names::{BucketId, GC_INTENT};
use crate::format::table::RecordLayout;

use super::survey::Survey;

/// What recovery does with one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The round.
    pub round: Round,
    /// What becomes of it.
    pub action: Action,
}

/// What becomes of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The sources are authoritative: the target goes.
    RollBack,
    /// The target is authoritative: the sources go.
    Finish,
    /// Nothing replaces the sources: they go.
    Remove,
}

impl Decision {
    /// The buckets whose files go.
    #[must_use]
    pub fn gone(&self) -> &[BucketId] {
        match (&self.round, self.action) {
            (Round::Prepared { target, .. }, Action::RollBack) => std::slice::from_ref(target),
            (Round::Committed { sources, .. }, Action::Finish | Action::Remove) => sources,
            // `decide` makes no other pair; a pair that it does not make removes nothing.
            _ => &[],
        }
    }
}

/// Decides about all rounds, or refuses all.
///
/// # Errors
/// `COMMITTED_TARGET_DAMAGED`, `INTENT_BUCKET_UNKNOWN`, `PREPARED_SOURCE_MISSING`: as the table in the module's documentation says.
pub fn decide(survey: &Survey) -> Result<Vec<Decision>, StoreError> {
    let Intents { rounds } = &survey.intents;
    rounds.iter().map(|round| decide_round(round, survey)).collect()
}

fn decide_round(round: &Round, survey: &Survey) -> Result<Decision, StoreError> {
    for id in round.target().iter().chain(round.sources()) {
        was_given_out(*id, survey)?;
    }
    let action = match round {
        Round::Prepared { sources, .. } => {
            sources.iter().try_for_each(|source| is_whole(*source, survey))?;
            Action::RollBack
        }
        Round::Committed { target: Some(target), .. } => {
            is_authoritative(*target, survey)
                .map_err(|reason| StoreError::from(Problem::CommittedTargetDamaged { target: *target, reason }))?;
            Action::Finish
        }
        Round::Committed { target: None, .. } => Action::Remove,
    };
    Ok(Decision { round: round.clone(), action })
}

/// A directory without a high-water mark has never given out an id of its own, but may hold buckets that were adopted.
fn was_given_out(id: BucketId, survey: &Survey) -> Result<(), StoreError> {
    match survey.high_water {
        Some(high_water) if id.0 >= high_water.next_bucket => Err(Problem::Refused {
            code: "INTENT_BUCKET_UNKNOWN",
            file: GC_INTENT.into(),
            field: "bucket id",
            expected: format!("less than {}, which was never given out", high_water.next_bucket),
            found: id.to_string(),
            remedy: "restore the file and the high-water mark that belong together",
        }
        .into()),
        _ => Ok(()),
    }
}

/// Both names are there. What is in them does not matter, nor whether it can be read: a source is kept, and kept from being served, by the open.
fn is_whole(source: BucketId, survey: &Survey) -> Result<(), StoreError> {
    let missing = match (survey.data.contains_key(&source), survey.tables.contains_key(&source)) {
        (true, true) => return Ok(()),
        (false, _) => source.data_name(),
        (true, false) => source.table_name(),
    };
    Err(Problem::Refused {
        code: "PREPARED_SOURCE_MISSING",
        file: missing,
        field: "the file",
        expected: "to be there, as the source of a prepared round of GC".into(),
        found: "no such file".into(),
        remedy: "restore it; the round's target, which would be removed, may be the only copy",
    }
    .into())
}

fn is_authoritative(target: BucketId, survey: &Survey) -> Result<(), String> {
    let (table_name, data_name) = (target.table_name(), target.data_name());
    match survey.data.get(&target) {
        None => return Err(format!("there is no {data_name}")),
        // It may be whole, and nobody can tell: its sources are not given up for that.
        Some(Err(unmeasured)) => return Err(unmeasured.reason.clone()),
        Some(Ok(_)) => {}
    }
    match survey.tables.get(&target) {
        None => Err(format!("there is no {table_name}")),
        Some(Err(error)) => Err(format!("{table_name}: {}", error.without_remedy())),
        Some(Ok(table)) if table.layout != RecordLayout::Checksummed => {
            Err(format!("{table_name} was not written by GC"))
        }
        // That it is this bucket's, and that the data file has all it names, is part of decoding it.
        Some(Ok(_)) => Ok(()),
    }
}
