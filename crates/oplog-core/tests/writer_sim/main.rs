//! A seeded simulation of several writers that claim one log from each other through a faulty store, judged by an oracle after
//! every step. It prints which named situations occurred and fails if one never did.
#![allow(clippy::disallowed_methods, reason = "tests read tokio's paused clock and the seed to replay")]

mod node;
mod oracle;
mod situation;
mod world;

use crate::situation::Situation;
use crate::world::World;

/// Seeds of a plain run. `PLIMSOLL_SIM_SEED=n` replays one, `PLIMSOLL_SIM_SEEDS=n` runs more.
const SEEDS: u64 = 50;

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn writers_that_overlap_keep_the_invariants_of_the_log() {
    let seeds = match from_env("PLIMSOLL_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..from_env("PLIMSOLL_SIM_SEEDS").unwrap_or(SEEDS) + 1,
    };
    let many = seeds.end - seeds.start > 1;
    let mut occurred = situation::Counts::default();
    for seed in seeds {
        let replay = format!("PLIMSOLL_SIM_SEED={seed} cargo test -p oplog-core --test writer_sim");
        let guard = PrintOnPanic(&replay);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let counts = runtime.expect("a runtime").block_on(World::run(seed));
        std::mem::forget(guard);
        occurred.add(&counts);
    }
    println!("{occurred}");
    if many {
        let missing: Vec<_> = Situation::ALL.iter().filter(|s| occurred.of(**s) == 0).collect();
        assert!(missing.is_empty(), "never occurred: {missing:?}");
    }
}

struct PrintOnPanic<'a>(&'a str);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        eprintln!("replay with: {}", self.0);
    }
}
