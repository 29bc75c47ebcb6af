//! Owns histories that once came out wrong, each as short as it gets.

use crate::disk::Away;
use crate::step::{Begin, Death, History, Open, Step};
use crate::world::{Reached, run};

fn write(keys: &[u8]) -> Step {
    Step::Write { keys: keys.into(), large: true, hint: None }
}

fn away(away: &[(u8, Away)]) -> Open {
    Open { away: away.into(), eager: true, ..Open::default() }
}

/// Runs it, and gives what happened.
fn holds(begin: Begin, first: Open, steps: Vec<Step>) -> Reached {
    let mut reached = Reached::new();
    run(&History { begin, first, steps }, &mut reached, true).unwrap();
    reached
}

#[test]
fn b1_one_data_file_that_cannot_be_opened_is_no_reason_not_to_serve_the_others() {
    let end = Step::End { death: Death::Close, open: away(&[(0, Away::OpenData)]) };
    let reached = holds(Begin::Empty, Open::default(), vec![write(&[0]), write(&[1]), end]);
    assert!(reached.contains_key(Away::OpenData.situation()));
}

#[test]
fn b3_the_target_of_a_committed_round_that_cannot_be_opened_is_not_believed() {
    let mut refused = 0;
    for ops in 0..40 {
        let steps = |pick| {
            let (then, open) = (Box::new(Step::GcIdle), away(&[(pick, Away::OpenData)]));
            vec![
                write(&[4, 5]),
                Step::Delete(vec![4]),
                Step::End { death: Death::Close, open: away(&[]) },
                Step::Cut { ops, then, death: Death::Process, open },
            ]
        };
        // The source is the first bucket, the target the last.
        for pick in [0, 1] {
            refused += holds(Begin::Empty, Open::default(), steps(pick)).get(REFUSED).unwrap_or(&0);
        }
    }
    assert!(refused > 0);
}

const REFUSED: &str = "open refused: a bucket of an unfinished round is away";

#[test]
fn v5_a_bucket_with_a_damaged_record_goes_when_all_in_it_is_deleted() {
    let reached = holds(Begin::Empty, Open::default(), vec![write(&[0]), Step::Damage(0)]);
    assert!(reached.contains_key("the store says that an object is damaged"));
}
