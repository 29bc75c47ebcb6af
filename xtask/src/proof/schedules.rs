//! Owns running the schedules of the writer and of the bucket store: the build under `--cfg oplog_schedules`, and reading what each scenario prints.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::result::{LookedAt, Proof};
use crate::cargo;
use crate::ci::target;

/// The line that each scenario prints.
#[derive(Deserialize)]
struct Scenario {
    scenario: String,
    schedules: u64,
    reached: BTreeMap<String, u64>,
    held: bool,
}

/// A cargo command that builds for the checker, apart from all other builds.
pub(crate) fn command(root: &Path, subcommand: &str) -> Command {
    let mut command = cargo::command(root, subcommand);
    command.env("RUSTFLAGS", "--cfg oplog_schedules").env("CARGO_TARGET_DIR", target(root).join("proof/schedules"));
    command.args(["--package", "oplog-core", "--package", "bucket-store", "--features", "oplog-core/legacy"]);
    command.args(["--profile", "proof"]);
    command
}

/// Runs all scenarios, or one.
pub(crate) fn prove(root: &Path, only: Option<&str>) -> Result<Proof> {
    let mut test = command(root, "test");
    test.args(["--test", "schedules", "--", "--nocapture"]);
    if let Some(only) = only {
        test.env("OPLOG_SCENARIO", only);
    }
    let mut child = test.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cargo test does not start")?;
    let stdout = child.stdout.take().context("the tests have an output")?;
    let mut scenarios = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.context("the tests' output")?;
        match serde_json::from_str::<Scenario>(&line) {
            Ok(scenario) => scenarios.push(scenario),
            Err(_) => eprintln!("{line}"),
        }
    }
    let passed = child.wait().context("the tests' exit status is lost")?.success();
    Ok(sum(scenarios, passed))
}

fn sum(scenarios: Vec<Scenario>, passed: bool) -> Proof {
    let held = passed && !scenarios.is_empty() && scenarios.iter().all(|s| s.held);
    let schedules = scenarios.iter().map(|s| s.schedules).sum();
    let reached = scenarios.into_iter().flat_map(|s| {
        let Scenario { scenario, reached, .. } = s;
        reached.into_iter().map(move |(situation, count)| (format!("{scenario}: {situation}"), count))
    });
    Proof { proof: "schedules", looked_at: LookedAt::Schedules(schedules), reached: reached.collect(), held }
}

#[cfg(test)]
mod tests {
    use super::{Scenario, sum};

    #[test]
    fn scenarios_add_up_and_none_at_all_is_no_proof() {
        let line = |name: &str, held: bool| -> Scenario {
            let text = format!(r#"{{"scenario": "{name}", "schedules": 5, "reached": {{"x": 2}}, "held": {held}}}"#);
            serde_json::from_str(&text).unwrap()
        };
        let both = sum(vec![line("a", true), line("b", true)], true);
        assert!(both.held);
        assert_eq!(both.reached.into_iter().collect::<Vec<_>>(), [("a: x".into(), 2), ("b: x".into(), 2)]);
        assert!(!sum(vec![line("a", true), line("b", false)], true).held);
        assert!(!sum(vec![line("a", true)], false).held, "a failed test prints no line");
        assert!(!sum(Vec::new(), true).held);
    }
}
