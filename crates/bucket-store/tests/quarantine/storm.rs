//! Owns random histories: many seeds, what must have happened in them, and the shortest history that shows a failure.
//!
//! `PLIMSOLL_SIM_SEED=n` tells one history step by step, `PLIMSOLL_SIM_SEEDS=n` runs more of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::step::History;
use crate::world::{Reached, run};

/// Histories of a plain run.
const SEEDS: u64 = 300;

/// What must happen in a run, or it proves nothing.
const SITUATIONS: &[&str] = &[
    "unreadable open: the table cannot be opened",
    "unreadable open: the table cannot be read",
    "unreadable open: the data file cannot be opened",
    "unreadable open: the table is damaged",
    "unreadable open: the data file is missing",
    "healed open",
    "adoption refused: a bucket is away",
    "open refused: a bucket of an unfinished round is away",
    "crash with something in quarantine",
    "the power went while a store was opened",
    "the power went in the middle of a step",
    "replaced while away",
    "deleted while away",
    "deleted while an older one is away",
    "deleted while a newer one is away",
    "collected while an older one is away",
    "evicted",
    "evicted while another version is away",
    "evicted while its twin is away",
    "eviction refused",
    "twin of the same incarnation away",
    "incarnation-0 twin away",
    "one incarnation in two buckets that can be read",
    "tangle of two buckets",
    "delete answered InQuarantine",
    "an older one is served while the newer one is away",
    "a bit of a record turned over",
    "written again after damage",
    "the store says that an object is damaged",
    "write refused",
    "GC merged buckets",
    "GC removed buckets",
    "GC rolled back",
];

#[expect(clippy::disallowed_methods, reason = "a test that is asked for more, or for one history again")]
fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn attempt(history: &History, reached: &mut Reached, tell: bool) -> Result<(), String> {
    let ran = catch_unwind(AssertUnwindSafe(|| run(history, reached, tell)));
    ran.unwrap_or_else(|panic| {
        let text =
            panic.downcast_ref::<String>().cloned().or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// What is broken, without the numbers that a shorter history has others of.
fn class(broken: &str) -> String {
    broken.chars().take(60).filter(|it| !it.is_ascii_digit()).collect()
}

/// Takes out whatever is not needed to see the same fail.
fn shrunk(mut history: History, broken: &str) -> History {
    let fails = |history: &History| {
        attempt(history, &mut Reached::new(), false).is_err_and(|other| class(&other) == class(broken))
    };
    loop {
        let before = history.steps.len();
        for at in (0..before).rev() {
            let mut less = history.clone();
            less.steps.remove(at);
            if fails(&less) {
                history = less;
            }
        }
        if history.steps.len() == before {
            return history;
        }
    }
}

#[test]
fn b1_b2_b6_v4_random_use_while_buckets_go_away_and_come_back() {
    let one = from_env("PLIMSOLL_SIM_SEED");
    let seeds = one.map_or(1..from_env("PLIMSOLL_SIM_SEEDS").unwrap_or(SEEDS) + 1, |seed| seed..seed + 1);
    let mut reached = Reached::new();
    for seed in seeds {
        let history = History::draw(seed);
        if let Err(broken) = attempt(&history, &mut reached, one.is_some()) {
            let history = shrunk(history, &broken);
            let again = attempt(&history, &mut Reached::new(), true);
            let steps: Vec<_> = history.steps.iter().map(|step| format!("{step:?},\n")).collect();
            let (begin, first) = (history.begin, history.first);
            panic!(
                "history {seed}: {broken}\nshrunk to {begin:?}, {first:?}\n{}which ends with {again:?}",
                steps.concat()
            );
        }
    }
    println!("{reached:#?}");
    if one.is_none() {
        let missing: Vec<_> = SITUATIONS.iter().filter(|it| !reached.contains_key(*it)).collect();
        assert!(missing.is_empty(), "never happened: {missing:?}");
    }
}
