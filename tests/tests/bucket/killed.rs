//! Owns the test of a process that is killed at any moment (`kill -9`), again and again on one directory: what it had answered holds.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use bucket_store::Durability;
use ha_types::{Entropy as _, SeededEntropy};
use plimsoll_tests::ProcessGuard;
use plimsoll_tests::bucket_kit::{self, KEYS};

/// Lives of the worker in one test.
const LIVES: u64 = 12;

/// What the worker has told about the objects of one key.
#[derive(Debug, Default)]
struct Told {
    /// The newest object that must be there, unless its delete or that of a newer one has begun.
    durable: Option<u64>,
    /// Writes that were answered and are durable with the next `s`.
    answered: Vec<u64>,
    /// Writes that have begun.
    begun: Vec<u64>,
    /// Deletes that have begun.
    doomed: Vec<u64>,
    /// Deletes that were acknowledged.
    dead: Vec<u64>,
}

impl Told {
    /// Whether a restart may serve this object, or nothing.
    fn allows(&self, served: Option<u64>) -> bool {
        let may_be_gone = |number: &u64| self.doomed.contains(number);
        match served {
            // Never what was acknowledged as deleted, nor what is older than something durable.
            Some(number) => {
                !self.dead.contains(&number) && self.begun.contains(&number) && Some(number) >= self.durable
            }
            None => self
                .durable
                .is_none_or(|durable| self.begun.iter().any(|number| *number >= durable && may_be_gone(number))),
        }
    }
}

#[derive(Debug)]
struct Model {
    durability: Durability,
    keys: BTreeMap<u64, Told>,
    next: u64,
}

impl Model {
    fn take(&mut self, line: &str) {
        let (what, numbers) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        for number in numbers {
            self.next = self.next.max(number + 1);
            let told = self.keys.entry(number % KEYS).or_default();
            match what {
                "w" => told.begun.push(number),
                "W" if self.durability == Durability::Sync => told.durable = told.durable.max(Some(number)),
                "W" => told.answered.push(number),
                "d" => told.doomed.push(number),
                "D" => told.dead.push(number),
                other => panic!("the worker says {other}"),
            }
        }
        if what == "s" {
            for told in self.keys.values_mut() {
                told.durable = told.durable.max(told.answered.drain(..).max());
            }
        }
    }

    /// Opens the directory and compares. What is served from then on is durable.
    fn check(&mut self, path: &Path, when: &str) {
        let store = bucket_kit::open(path, bucket_kit::config(self.durability)).unwrap();
        assert_eq!(store.quarantined().count(), 0, "{when}");
        for key in 0..KEYS {
            let told = self.keys.entry(key).or_default();
            let served = bucket_kit::served(&store, key);
            assert!(told.allows(served), "{when}: key {key} serves {served:?} after {told:?}");
            let again = bucket_kit::delete(&store, &told.dead).unwrap();
            let still_dead = again.iter().all(|outcome| outcome.is_terminal() && !format!("{outcome:?}").eq("Removed"));
            assert!(still_dead, "{when}: key {key}: {again:?} of {:?}", told.dead);
            told.durable = served;
            told.answered.clear();
            told.begun = served.into_iter().collect();
            told.doomed = Vec::new();
        }
        drop(store);
        assert_eq!(bucket_kit::left_over(path).unwrap(), Vec::<String>::new(), "{when}");
    }
}

fn kill_again_and_again(durability: Durability, seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("buckets");
    std::fs::create_dir(&path).unwrap();
    let entropy = SeededEntropy::new(seed);
    let mut model = Model { durability, keys: BTreeMap::new(), next: 1 };
    let (mut writes, mut deletes, mut steps) = (0, 0, 0);
    for life in 0..LIVES {
        let mode = if durability == Durability::Sync { "sync" } else { "relaxed" };
        let worker = ProcessGuard::start(
            Command::new(env!("CARGO_BIN_EXE_bucket-worker"))
                .arg(&path)
                .args([(seed * 1000 + life).to_string(), model.next.to_string(), mode.into()])
                .stdout(Stdio::piped()),
        )
        .unwrap();
        let output = worker.with_child(|child| child.stdout.take()).unwrap();
        let mut lines = BufReader::new(output).lines();
        // So many lines are awaited; how far it has come when it dies, nobody knows.
        for _ in 0..10 + entropy.next_u64() % 150 {
            let Some(line) = lines.next() else { panic!("the worker ended by itself: {:?}", worker.ended()) };
            model.take(&line.unwrap());
        }
        worker.kill();
        for line in lines.map_while(Result::ok) {
            model.take(&line);
        }
        writes += model.keys.values().map(|told| told.begun.len()).sum::<usize>();
        deletes += model.keys.values().map(|told| told.dead.len()).sum::<usize>();
        steps += 1;
        model.check(&path, &format!("seed {seed}, life {life}, {mode}"));
    }
    assert!(writes > 100 && deletes > 50 && steps == LIVES, "{writes} writes, {deletes} deletes: nothing happened");
}

#[test]
fn b1_b2_d3_a_killed_process_keeps_what_it_answered() {
    kill_again_and_again(Durability::Sync, 1);
}

#[test]
fn b1_b2_d3_a_killed_process_keeps_what_it_made_durable() {
    kill_again_and_again(Durability::Relaxed, 2);
}
