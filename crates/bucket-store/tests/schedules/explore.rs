//! Owns running one scenario under thousands of schedules, the situations that must have occurred in them, and what is printed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Schedules of each kind, random, and with few preemptions.
const SCHEDULES: usize = 3_000;
/// Preemptions at chosen points in a schedule of the second kind.
const DEPTHS: [usize; 2] = [2, 4];
/// One seed for all: a run finds what the last one found.
const SEED: u64 = 0x9a3c_51d0;

/// The situations of one scenario, counted over its schedules.
#[derive(Clone)]
pub(crate) struct Reached(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Reached {
    fn of(required: &[&'static str]) -> Self {
        Self(Arc::new(Mutex::new(required.iter().map(|name| (*name, 0)).collect())))
    }

    /// `situation` occurs in the schedule that runs now.
    pub(crate) fn mark(&self, situation: &'static str) {
        *self.0.lock().expect("no panic while counting").get_mut(situation).expect("a situation of this scenario") += 1;
    }

    /// What has not occurred in any schedule.
    fn missed(&self) -> Vec<&'static str> {
        let counts = self.0.lock().expect("no panic while counting");
        counts.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect()
    }

    /// As [`Self::mark`], if `occurs`.
    pub(crate) fn mark_if(&self, occurs: bool, situation: &'static str) {
        if occurs {
            self.mark(situation);
        }
    }
}

/// Runs `body` under random schedules and under those with few preemptions at the worst points, and fails if one of them fails, or
/// if one of `required` occurs in none.
pub(crate) fn explore(
    scenario: &'static str,
    required: &'static [&'static str],
    body: impl Fn(&Reached) + Send + Sync + 'static,
) {
    if from_env("OPLOG_SCENARIO").is_some_and(|only| only != scenario) {
        return;
    }
    let reached = Reached::of(required);
    let body: Arc<dyn Fn() + Send + Sync> = {
        let reached = reached.clone();
        Arc::new(move || body(&reached))
    };
    let on_failure = HowToReplay(scenario);
    let (schedules, missed) = match from_env("OPLOG_SCHEDULE") {
        Some(schedule) => (run(ReplayScheduler::new_from_encoded(&schedule), &body), Vec::new()),
        None => {
            let mut schedules = run(RandomScheduler::new_from_seed(SEED, SCHEDULES), &body);
            for depth in DEPTHS {
                schedules += run(PctScheduler::new_from_seed(SEED, depth, SCHEDULES / DEPTHS.len()), &body);
            }
            (schedules, reached.missed())
        }
    };
    let held = missed.is_empty();
    let reached = reached.0.lock().expect("no panic while counting");
    // One line of JSON for whoever runs this: a map of names and numbers prints as such.
    println!(
        "\n{{\"scenario\": {scenario:?}, \"schedules\": {schedules}, \"reached\": {reached:?}, \"held\": {held}}}"
    );
    std::mem::forget(on_failure);
    assert!(held, "never reached in {schedules} schedules: {missed:?}");
}

fn run(scheduler: impl Scheduler + 'static, body: &Arc<dyn Fn() + Send + Sync>) -> usize {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    // Atomics are checked as if they were sequentially consistent; docs/proofs.md says so.
    config.silence_warnings = true;
    let body = Arc::clone(body);
    Runner::new(scheduler, config).run(move || body())
}

#[expect(clippy::disallowed_methods, reason = "which scenario, and which schedule to replay, is said from outside")]
fn from_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Says how to replay the failed schedule that the checker has printed.
struct HowToReplay(&'static str);

impl Drop for HowToReplay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "to replay the failing schedule printed above, alone:\n  OPLOG_SCHEDULE=<the schedule> cargo xtask proof schedules --only {}",
                self.0
            );
        }
    }
}
