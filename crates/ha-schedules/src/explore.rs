//! Owns running one scenario under thousands of schedules, and what is printed of it.

use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use shuttle::{Config, Runner};

use crate::Reached;

/// Preemptions at chosen points in a schedule of the second kind.
const DEPTHS: [usize; 2] = [2, 4];
/// One seed for all: a run finds what the last one found.
const SEED: u64 = 0x9a3c_51d0;

/// How many schedules a scenario runs under.
#[derive(Clone, Copy, Debug)]
pub struct Schedules {
    of_each_kind: usize,
}

impl Schedules {
    /// So many random schedules, and as many with few preemptions.
    #[must_use]
    pub const fn of_each_kind(count: usize) -> Self {
        Self { of_each_kind: count }
    }

    /// Runs `body` under random schedules and under those with few preemptions at the worst points, and prints a line of JSON about it.
    /// With `OPLOG_SCHEDULE` in the environment it runs under that one only; with `OPLOG_SCENARIO`, only if that is its name.
    ///
    /// # Panics
    /// If `body` does in one of them, if its tasks wait for each other, or if one of `required` occurs in none.
    pub fn explore(
        self,
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
                let mut schedules = run(RandomScheduler::new_from_seed(SEED, self.of_each_kind), &body);
                for depth in DEPTHS {
                    let share = self.of_each_kind / DEPTHS.len();
                    schedules += run(PctScheduler::new_from_seed(SEED, depth, share), &body);
                }
                (schedules, reached.missed())
            }
        };
        let held = missed.is_empty();
        // One line of JSON for whoever runs this.
        println!(
            "\n{{\"scenario\": {scenario:?}, \"schedules\": {schedules}, \"reached\": {reached:?}, \"held\": {held}}}"
        );
        std::mem::forget(on_failure);
        assert!(held, "never reached in {schedules} schedules: {missed:?}");
    }
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
