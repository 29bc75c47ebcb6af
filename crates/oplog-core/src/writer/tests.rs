//! Tests of the core: random sequences of events against a reference model.

pub(super) mod kit;
mod model;
mod rest;
mod run;

use proptest::prelude::*;

use self::run::{Event, run};

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_core_does_what_the_model_does(events in prop::collection::vec(Event::any(), 1..160)) {
        run(&events);
    }
}

/// The property is worth something only if the sequences reach what they are meant to reach.
#[test]
fn the_random_sequences_reach_every_kind_of_end_and_step() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut reached = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let tree = prop::collection::vec(Event::any(), 1..160).new_tree(&mut runner).expect("a sequence");
        for situation in run(&tree.current()) {
            *reached.entry(situation).or_insert(0_u64) += 1;
        }
    }
    println!("{reached:#?}");
    for situation in run::SITUATIONS {
        assert!(reached.contains_key(situation), "never reached: {situation}");
    }
}
