//! Owns the summary of `ci`: the table of steps and the closing line. It must not run anything by itself.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::outcome::Outcome;
use crate::servers::{Found, Server};

/// What was run so far.
pub(super) struct Report {
    only: Option<String>,
    strict: bool,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    outcome: Outcome,
    took: Duration,
}

impl Report {
    /// `strict`: a skip is a failure.
    pub(super) fn new(only: Option<String>, strict: bool) -> Self {
        Self { only, strict, rows: Vec::new() }
    }

    /// Runs a step, unless it was not asked for.
    pub(super) fn step(&mut self, name: &str, run: impl FnOnce() -> Result<Outcome>) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        println!("\n=== {name}");
        let start = Instant::now();
        let outcome = run().unwrap_or_else(|error| {
            eprintln!("{name}: {error:#}");
            Outcome::failed()
        });
        self.rows.push(Row { name: name.into(), outcome, took: start.elapsed() });
    }

    /// Runs a step that needs servers; without one it is skipped by name. Says whether it ran.
    pub(super) fn step_with(
        &mut self,
        name: &str,
        found: &Found,
        needs: &[Server],
        run: impl FnOnce() -> Result<Outcome>,
    ) -> bool {
        let missing: Vec<&str> = needs.iter().filter(|s| found.path(**s).is_none()).map(|s| s.name()).collect();
        if missing.is_empty() {
            self.step(name, run);
        } else {
            let missing = missing.join(", ");
            self.step(name, || Ok(Outcome::skipped(format!("{missing}: {name}"))));
        }
        missing_none(needs, found)
    }

    /// Prints the table and the closing line. Whether all held.
    pub(super) fn close(&self) -> bool {
        println!("\n{}", self.table());
        for skip in self.rows.iter().flat_map(|row| &row.outcome.skipped) {
            println!("SKIPPED {skip}");
        }
        let (line, held) = self.closing_line();
        println!("{line}");
        held
    }

    fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let lines = self.rows.iter().map(|row| {
            let Outcome { passed, failed, skipped } = &row.outcome;
            let verdict = match (failed, skipped.len()) {
                (0, 0) => "ok",
                (0, _) if *passed == 0 => "SKIPPED",
                (0, _) => "ok, with skips",
                _ => "FAILED",
            };
            let seconds = row.took.as_secs_f64();
            format!("{:<width$}  {seconds:>7.1} s  {passed:>5} passed  {failed:>3} failed  {verdict}", row.name)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn closing_line(&self) -> (String, bool) {
        let sum = |of: fn(&Outcome) -> u64| self.rows.iter().map(|row| of(&row.outcome)).sum::<u64>();
        let skipped = sum(|outcome| outcome.skipped.len() as u64);
        let (passed, failed) = (sum(|outcome| outcome.passed), sum(|outcome| outcome.failed));
        let (failed, skipped) = if self.strict { (failed + skipped, 0) } else { (failed, skipped) };
        (format!("{passed} passed, {failed} failed, {skipped} skipped"), failed == 0 && passed > 0)
    }
}

fn missing_none(needs: &[Server], found: &Found) -> bool {
    needs.iter().all(|server| found.path(*server).is_some())
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::ci::outcome::Outcome;

    fn report(strict: bool) -> Report {
        let mut report = Report::new(None, strict);
        report.step("tests", || Ok(Outcome::passed(7)));
        report.step("etcd", || Ok(Outcome::skipped("etcd: demo")));
        report
    }

    #[test]
    fn a_skip_is_counted_and_fails_only_under_ci() {
        assert_eq!(report(false).closing_line(), ("7 passed, 0 failed, 1 skipped".into(), true));
        assert_eq!(report(true).closing_line(), ("7 passed, 1 failed, 0 skipped".into(), false));
    }

    #[test]
    fn an_error_is_a_failed_step_and_the_rest_runs() {
        let mut report = Report::new(None, false);
        report.step("broken", || anyhow::bail!("no such program"));
        report.step("fine", || Ok(Outcome::passed(1)));
        assert_eq!(report.closing_line(), ("1 passed, 1 failed, 0 skipped".into(), false));
        assert!(report.table().contains("FAILED"));
    }

    #[test]
    fn nothing_run_is_no_success() {
        let mut report = Report::new(Some("no such step".into()), false);
        report.step("tests", || Ok(Outcome::passed(7)));
        assert_eq!(report.closing_line(), ("0 passed, 0 failed, 0 skipped".into(), false));
    }
}
