//! Owns the part of the proof that a test run can afford: the smaller scenarios to their end, and a few rules whose removal must be
//! found. The whole is `cargo xtask proof model`.

use ha_sim::model::{Rule, Scenario};
use ha_sim::run::{explore, remove};

/// Without `rule` the nearest broken state breaks at least `broken`.
fn is_needed(rule: Rule, broken: &[&str]) {
    let removed = remove(rule);
    let found = removed.found.unwrap_or_else(|| panic!("nothing went wrong without \"{}\"", removed.rule));
    for invariant in broken {
        assert!(found.broken.contains(invariant), "{invariant} still holds: {found}");
    }
}

#[test]
fn l3_l11_an_append_that_does_not_compare_the_claim() {
    is_needed(Rule::AppendComparesPrefix, &["L3", "L11"]);
    is_needed(Rule::AppendComparesClaim, &["L3", "L11"]);
    is_needed(Rule::ClaimRaisesEpoch, &["L11"]);
}

#[test]
fn l1_l2_a_claim_that_compares_nothing_and_a_truncation_that_takes_the_last_batch() {
    is_needed(Rule::ClaimComparesPrefix, &["L1", "L2"]);
    is_needed(Rule::TruncationKeepsLast, &["L2"]);
}

#[test]
fn l5_what_is_sent_again_is_the_same_transaction() {
    is_needed(Rule::SameTransactionAgain, &["L5"]);
    is_needed(Rule::NoAnswerIsNoSuccess, &["L5"]);
}

#[test]
fn l6_a_writer_under_which_the_store_lost_a_batch_goes_on() {
    is_needed(Rule::LowerPrefixEnds, &["L6"]);
}

#[test]
fn l12_every_way_to_call_a_batch_lost_too_early() {
    is_needed(Rule::UnchangedIsNotOver, &["L12"]);
    is_needed(Rule::NoAnswerIsUnknown, &["L12"]);
    is_needed(Rule::FailedCompareIsReread, &["L12"]);
    is_needed(Rule::StoredBatchIsRead, &["L12"]);
    is_needed(Rule::StopSaysUnknown, &["L12"]);
}

#[test]
fn l14_l4_what_fences_a_legacy_writer() {
    is_needed(Rule::LegacyComparesPrefix, &["L14", "L5"]);
    is_needed(Rule::LegacyFencesAnother, &["L4"]);
    is_needed(Rule::CutoverComparesPrefix, &["L14"]);
    is_needed(Rule::CutoverComparesLatest, &["L14"]);
    is_needed(Rule::MissingIsNotFresh, &["L14"]);
}

#[test]
fn l14_the_originals_writer_cannot_be_fenced() {
    let found = explore(&Scenario::original()).counterexample.expect("a violation that no rule of ours prevents");
    assert_eq!(found.broken, ["L14"], "{found}");
}

#[test]
fn s3_s4_the_last_catch_up_comes_after_the_claim() {
    is_needed(Rule::CatchUpAfterClaim, &["S3", "S4"]);
    is_needed(Rule::ClaimIsConfirmed, &["S3"]);
}

#[test]
fn truncation_by_a_snapshot_that_was_never_restored() {
    is_needed(Rule::TruncationVerified, &["S6"]);
}

#[test]
fn s1_states_that_must_not_be_followed_with() {
    is_needed(Rule::ServedStateIsDropped, &["S1"]);
    is_needed(Rule::ReaderAboveStops, &["S1"]);
    is_needed(Rule::ReaderChecksChain, &["S1"]);
}

#[test]
fn two_legacy_writers_and_a_cutover_keep_every_invariant() {
    let report = explore(&Scenario::two_legacy());
    assert!(report.counterexample.is_none(), "{:?}", report.counterexample);
    assert!(report.missed.is_empty(), "never reached: {:?}", report.missed);
}

#[test]
fn l14_no_cutover_while_an_old_primary_is_elected() {
    is_needed(Rule::CutoverLooksForOldPrimary, &["L14"]);
    is_needed(Rule::CutoverComparesElection, &["L14"]);
    let report = explore(&Scenario::old_election());
    assert!(report.counterexample.is_none(), "{:?}", report.counterexample);
    assert!(report.missed.is_empty(), "never reached: {:?}", report.missed);
}

#[test]
fn a_read_that_fails_is_no_absence() {
    is_needed(Rule::FailedReadIsNoAbsence, &["Calm"]);
}

#[test]
fn l3_l11_a_take_over_compares_what_mooncakes_primary_left() {
    is_needed(Rule::TakeOverComparesPrefix, &["L1", "L2", "L3"]);
    let report = explore(&Scenario::take_over());
    assert!(report.counterexample.is_none(), "{:?}", report.counterexample);
    assert!(report.missed.is_empty(), "never reached: {:?}", report.missed);
}
