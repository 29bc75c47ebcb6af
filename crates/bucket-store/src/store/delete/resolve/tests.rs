//! Owns the tests of what a delete means: every state that its record can be in, and the rule for incarnation 0.

use std::sync::Arc;

use ha_types::ObjectIncarnation;

use super::{DeleteOutcome, DeleteRequest, Resolution, resolve};
use crate::error::StoreErrorKind;
use crate::format::names::BucketId;
use crate::format::table::{RecordLayout, Slot, Tombstone};
use crate::store::bucket::{Bucket, BucketFile, PhysicalBytes};
use crate::store::state::{Engagement, Location, State};
use crate::vfs::Vfs;
use crate::vfs::sim::SimDisk;

const KEY: &[u8] = b"t\0k";

fn bucket(id: u64) -> Arc<Bucket> {
    let file = SimDisk::new().mount().unwrap().create("1.bucket").unwrap();
    let file = BucketFile::new(file, 0, &PhysicalBytes::default());
    Bucket::new((BucketId(id), RecordLayout::Checksummed, id, 1 << 20), file, true)
}

fn incarnation(n: u8) -> ObjectIncarnation {
    ObjectIncarnation::from_bytes([n; 16])
}

fn slot(n: u8, write_number: u64) -> Slot {
    let (key, offset) = (KEY.into(), write_number * 1000);
    Slot { key, incarnation: incarnation(n), write_number, offset, value_len: 9, tombstone: None }
}

/// Records of the one key: (bucket, incarnation, write number).
fn state(records: &[(u64, u8, u64)]) -> State {
    let mut state = State::default();
    for (id, n, number) in records {
        state.insert(bucket(*id), vec![slot(*n, *number)], true);
    }
    state
}

fn at(bucket: u64) -> Location {
    Location { bucket: BucketId(bucket), slot: 0 }
}

fn tombstone(state: &mut State, id: u64) {
    assert!(state.hide(at(id)));
    let tombstoned = state.publication(BucketId(id)).unwrap().tombstoned;
    assert_eq!(tombstoned, [(0, Tombstone::Deleted)]);
    state.published(BucketId(id), &tombstoned);
}

/// What a delete of that incarnation means, in a word.
fn meaning(state: &State, n: u8) -> String {
    match resolve(state, &DeleteRequest { key: KEY, incarnation: incarnation(n) }) {
        Resolution::Delete(places) => format!("{:?}", places.iter().map(|at| at.bucket.0).collect::<Vec<_>>()),
        Resolution::Known(DeleteOutcome::Retryable(error)) => format!("{:?}", error.kind()),
        Resolution::Known(outcome) => format!("{outcome:?}"),
        Resolution::Absent(DeleteOutcome::StaleVersion) => "StaleVersion".into(),
        Resolution::Absent(outcome) => format!("{outcome:?} unless another bucket has it"),
    }
}

#[test]
fn d5_only_the_incarnation_that_is_named_is_meant() {
    let state = state(&[(1, 1, 5), (2, 2, 6)]);
    assert_eq!(meaning(&state, 2), "[2]");
    assert_eq!(meaning(&state, 1), "[1]", "a superseded one may be named too");
    assert_eq!(meaning(&state, 3), "StaleVersion");
}

#[test]
fn d4_whatever_is_not_durably_gone_is_still_meant() {
    let mut state = state(&[(1, 1, 5)]);
    state.hide(at(1));
    assert_eq!(meaning(&state, 1), "[1]", "hidden is not durable");
    tombstone(&mut state, 1);
    assert_eq!(meaning(&state, 1), "AlreadyRemoved");

    let mut state = self::state(&[(1, 1, 5)]);
    state.damage(at(1));
    assert_eq!(meaning(&state, 1), "[1]", "what cannot be read now may be read after a restart");
}

#[test]
fn that_a_copy_was_replaced_does_not_say_that_the_object_is_removed() {
    let mut state = state(&[(1, 1, 5), (2, 2, 6)]);
    let replaced = state.publication(BucketId(1)).unwrap().tombstoned;
    assert_eq!(replaced, [(0, Tombstone::Replaced)]);
    state.published(BucketId(1), &replaced);
    assert_eq!(meaning(&state, 1), "AlreadyRemoved unless another bucket has it");
    tombstone(&mut state, 2);
    assert_eq!(meaning(&state, 2), "AlreadyRemoved");
}

#[test]
fn d4_an_absent_object_is_stale_only_if_no_write_can_bring_it() {
    let mut state = state(&[(1, 1, 5)]);
    state.begin_write(&[KEY.into()]).unwrap();
    assert_eq!(meaning(&state, 2), "Busy");
    assert_eq!(meaning(&state, 1), "[1]", "a write of another incarnation is no reason to wait");
    state.damage(at(1));
    assert_eq!(meaning(&state, 1), "Busy", "the write may bring it anew");
    state.end_write(&[KEY.into()]);
    assert_eq!(meaning(&state, 2), "StaleVersion");
    assert_eq!(meaning(&state, 1), "[1]");
}

#[test]
fn d4_keys_of_a_round_that_may_be_committed_are_left_alone() {
    let mut state = state(&[(1, 1, 5), (2, 2, 6)]);
    state.engage(BucketId(1), Engagement::Uncertain);
    assert_eq!((meaning(&state, 1), meaning(&state, 2)), ("Busy".into(), "Busy".into()));
    for engagement in [Engagement::Merging, Engagement::Evicting, Engagement::Free] {
        state.engage(BucketId(1), engagement);
        assert_eq!((meaning(&state, 1), meaning(&state, 2)), ("[1]".into(), "[2]".into()));
    }
}

#[test]
fn d5_incarnation_0_means_the_one_live_record_and_only_if_it_is_such_a_one() {
    assert_eq!(meaning(&state(&[]), 0), "StaleVersion");
    assert_eq!(meaning(&state(&[(1, 0, 0)]), 0), "[1]");
    assert_eq!(
        meaning(&state(&[(1, 0, 0), (2, 0, 0)]), 0),
        "[1, 2]",
        "both are of before incarnations, one was superseded"
    );
    assert_eq!(meaning(&state(&[(1, 0, 0), (2, 7, 3)]), 0), "StaleVersion");
    assert_eq!(meaning(&state(&[(1, 0, 0), (2, 7, 3)]), 7), "[2]");
}

#[test]
fn d4_incarnation_0_is_not_stale_while_a_power_loss_could_bring_it_back() {
    let mut state = state(&[(1, 0, 0)]);
    state.insert(bucket(2), vec![slot(7, 3)], false);
    assert_eq!(meaning(&state, 0), "Busy");
    state.published(BucketId(2), &[]);
    assert_eq!(meaning(&state, 0), "StaleVersion");
}

#[test]
fn d3_a_hidden_record_of_incarnation_0_is_joined_whatever_came_after_it() {
    let mut state = state(&[(1, 0, 0)]);
    state.hide(at(1));
    assert_eq!(meaning(&state, 0), "[1]");
    state.insert(bucket(2), vec![slot(7, 3)], true);
    assert_eq!(meaning(&state, 0), "[1]");
    let mut state = self::state(&[(1, 0, 0)]);
    tombstone(&mut state, 1);
    assert_eq!(meaning(&state, 0), "AlreadyRemoved");
    let mut state = self::state(&[(1, 0, 0)]);
    state.damage(at(1));
    assert_eq!(meaning(&state, 0), "[1]");
}

#[test]
fn what_is_no_storage_key_is_named_and_nothing_else() {
    let state = state(&[(1, 1, 5)]);
    for key in [&b""[..], b"no-separator", b"\0key", b"tenant\0", b"te\xffnant\0k"] {
        match resolve(&state, &DeleteRequest { key, incarnation: incarnation(1) }) {
            Resolution::Known(DeleteOutcome::Invalid(error)) => {
                assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "BAD_KEY"));
                assert!(error.to_string().contains(&format!("\"{}\"", key.escape_ascii())), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
