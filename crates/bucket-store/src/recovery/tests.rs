//! Each row of the decision table, and that nothing that happens on the way leads out of it.

use super::*;
use crate::error::StoreErrorKind;
use crate::format::FormatError;
use crate::format::high_water::HighWater;
use crate::format::intent::{Intents, Round};
use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Table};

mod carried_out;

fn ids(ids: &[u64]) -> Vec<BucketId> {
    ids.iter().copied().map(BucketId).collect()
}

fn prepared(sources: &[u64], target: u64) -> Round {
    Round::Prepared { sources: ids(sources), target: BucketId(target) }
}

fn committed(sources: &[u64], target: Option<u64>) -> Round {
    Round::Committed { sources: ids(sources), target: target.map(BucketId) }
}

fn table(id: u64) -> Table {
    Table { bucket: BucketId(id), layout: RecordLayout::Checksummed, age: id, data_len: 100, slots: Vec::new() }
}

fn damage() -> FormatError {
    FormatError::Checksum { what: "bucket table", field: "of the file", offset: 9, expected: 1, found: 2 }
}

fn unmeasured() -> Unmeasured {
    Unmeasured { reason: "open of it failed: EIO".into(), counted_bytes: 0 }
}

/// Buckets 1 to 9 are there, and the rounds are in the intent file.
fn survey_of(rounds: &[Round]) -> Survey {
    let buckets = || (1..=9).map(BucketId);
    Survey {
        intents: Intents { rounds: rounds.to_vec() },
        has_intents: true,
        high_water: Some(HighWater { next_bucket: 65, next_write_number: 1 }),
        tables: buckets().map(|id| (id, Ok(table(id.0)))).collect(),
        data: buckets().map(|id| (id, Ok(DataFile { len: 100, allocated_bytes: 4096 }))).collect(),
        ..Survey::default()
    }
}

/// What is decided: the action of each round and the buckets that go.
fn decided(survey: &Survey) -> Result<Vec<(Action, Vec<u64>)>, String> {
    let decisions = decide(survey).map_err(|error| {
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        format!("{}: {error}", error.code())
    })?;
    Ok(decisions.iter().map(|d| (d.action, d.gone().iter().map(|id| id.0).collect())).collect())
}

#[test]
fn prepared_keeps_the_sources_whatever_there_is_of_the_target() {
    for (has_table, has_data) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut survey = survey_of(&[prepared(&[1, 2], 9)]);
        if !has_table {
            survey.tables.remove(&BucketId(9));
        }
        if !has_data {
            survey.data.remove(&BucketId(9));
        }
        assert_eq!(decided(&survey), Ok(vec![(Action::RollBack, vec![9])]), "{has_table} {has_data}");
    }
    let mut survey = survey_of(&[prepared(&[1, 2], 9)]);
    survey.tables.insert(BucketId(9), Err(damage()));
    assert_eq!(decided(&survey), Ok(vec![(Action::RollBack, vec![9])]));
    survey.data.insert(BucketId(9), Err(unmeasured()));
    assert_eq!(decided(&survey), Ok(vec![(Action::RollBack, vec![9])]));
    // A source that cannot be read is a matter of the open, which does not serve it and deletes nothing of it.
    survey.tables.insert(BucketId(1), Err(damage()));
    survey.data.insert(BucketId(2), Err(unmeasured()));
    assert_eq!(decided(&survey), Ok(vec![(Action::RollBack, vec![9])]));
}

#[test]
fn prepared_with_a_file_of_a_source_missing_is_refused() {
    let whole = survey_of(&[prepared(&[1, 2], 9)]);
    let mut survey = whole.clone();
    survey.tables.remove(&BucketId(2));
    let text = decided(&survey).unwrap_err();
    assert!(text.starts_with("PREPARED_SOURCE_MISSING: 2.meta"), "{text}");
    let mut survey = whole;
    survey.data.remove(&BucketId(1));
    let text = decided(&survey).unwrap_err();
    assert!(text.starts_with("PREPARED_SOURCE_MISSING: 1.bucket"), "{text}");
}

#[test]
fn committed_removes_what_is_left_of_the_sources() {
    for left in 0..16 {
        let mut survey = survey_of(&[committed(&[1, 2], Some(9))]);
        for (bit, id) in [(1, 1), (2, 2)] {
            if left & bit != 0 {
                survey.tables.remove(&BucketId(id));
            }
            if left & (bit << 2) != 0 {
                survey.data.remove(&BucketId(id));
            }
        }
        assert_eq!(decided(&survey), Ok(vec![(Action::Finish, vec![1, 2])]), "{left:04b}");
    }
    let mut survey = survey_of(&[committed(&[1, 2], Some(9))]);
    survey.tables.insert(BucketId(1), Err(damage()));
    survey.data.insert(BucketId(2), Err(unmeasured()));
    assert_eq!(decided(&survey), Ok(vec![(Action::Finish, vec![1, 2])]));
}

#[test]
fn b3_a_missing_or_damaged_committed_target_is_refused() {
    let target = BucketId(9);
    type Spoil<'a> = &'a dyn Fn(&mut Survey);
    let spoilt: [(&str, Spoil<'_>); 6] = [
        ("there is no 9.meta", &|s| drop(s.tables.remove(&target))),
        ("there is no 9.bucket", &|s| {
            s.data.remove(&target);
        }),
        ("open of it failed: EIO", &|s| drop(s.data.insert(target, Err(unmeasured())))),
        ("9.meta: bucket table: the checksum", &|s| drop(s.tables.insert(target, Err(damage())))),
        ("9.meta was not written by GC", &|s| {
            s.tables.insert(target, Ok(Table { layout: RecordLayout::MooncakeRaw, ..table(9) }));
        }),
        ("there is no 9.bucket", &|s| {
            s.tables.remove(&target);
            s.data.remove(&target);
        }),
    ];
    for (reason, spoil) in spoilt {
        // A round before it that could be ended is left alone as well.
        let mut survey = survey_of(&[committed(&[5], None), committed(&[1, 2], Some(9)), prepared(&[3], 4)]);
        spoil(&mut survey);
        let text = decided(&survey).unwrap_err();
        assert!(text.starts_with("COMMITTED_TARGET_DAMAGED: ") && text.contains(reason), "{reason}: {text}");
    }
}

#[test]
fn sources_only_removes_them_whole_or_not() {
    let mut survey = survey_of(&[committed(&[1, 2, 3], None)]);
    survey.tables.remove(&BucketId(2));
    survey.data.remove(&BucketId(3));
    survey.tables.insert(BucketId(1), Err(damage()));
    assert_eq!(decided(&survey), Ok(vec![(Action::Remove, vec![1, 2, 3])]));
}

#[test]
fn a_bucket_that_was_never_given_out_is_refused_in_every_round() {
    for round in [
        prepared(&[1, 65], 9),
        prepared(&[1, 2], 65),
        committed(&[65], Some(9)),
        committed(&[1], Some(65)),
        committed(&[1, 66], None),
    ] {
        let text = decided(&survey_of(&[committed(&[7], None), round.clone()])).unwrap_err();
        assert!(text.starts_with("INTENT_BUCKET_UNKNOWN: .bucket_gc_intent: bucket id is 6"), "{round:?}: {text}");
    }
    let mut adopted = survey_of(&[committed(&[1, 66], None)]);
    adopted.high_water = None;
    assert_eq!(
        decided(&adopted),
        Ok(vec![(Action::Remove, vec![1, 66])]),
        "without a mark there is nothing to compare with"
    );
}

#[test]
fn each_of_several_rounds_is_decided_by_itself() {
    let survey = survey_of(&[committed(&[1], Some(2)), committed(&[3], None), prepared(&[4, 5], 64)]);
    assert_eq!(
        decided(&survey),
        Ok(vec![(Action::Finish, vec![1]), (Action::Remove, vec![3]), (Action::RollBack, vec![64])])
    );
    assert_eq!(decided(&survey_of(&[])), Ok(vec![]));
}
