//! Owns what a run of the model came to, as a table for people and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// The fewest distinct states with which a run is worth anything.
pub const MIN_STATES: usize = 200_000;

/// What the original's writer, which cannot be fenced, must be seen to break.
const EXPECTED: &str = "L14";

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `model`.
    pub proof: &'static str,
    /// Distinct states, over the scenarios in which everything must hold.
    pub states: usize,
    /// The situations that were met, and how often.
    pub reached: BTreeMap<&'static str, u64>,
    /// Whether everything holds that must, and nothing that must not.
    pub held: bool,
    /// Why it does not.
    pub failures: Vec<String>,
    /// The scenarios in which everything must hold.
    pub scenarios: Vec<ScenarioReport>,
    /// The scenario in which something must break.
    pub original: ScenarioReport,
    /// The rules, removed in turn.
    pub removals: Vec<RemovalReport>,
}

/// What one scenario came to.
#[derive(Debug, Serialize)]
pub struct ScenarioReport {
    /// Its name.
    pub scenario: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Distinct states.
    pub states: usize,
    /// Steps taken, those that led to a state seen before included.
    pub steps: usize,
    /// The longest way without a detour.
    pub depth: usize,
    /// How often each situation was met.
    #[serde(skip)]
    pub reached: Vec<(&'static str, u64)>,
    /// Situations that it had to reach and did not.
    pub missed: Vec<&'static str>,
    /// The nearest state that breaks an invariant.
    pub counterexample: Option<Counterexample>,
}

/// The way to a state that breaks an invariant.
#[derive(Debug, Serialize)]
pub struct Counterexample {
    /// What it breaks.
    pub broken: Vec<&'static str>,
    /// The steps, from the first state.
    pub steps: Vec<String>,
}

/// What the removal of one rule came to.
#[derive(Debug, Serialize)]
pub struct RemovalReport {
    /// The rule.
    pub rule: &'static str,
    /// The scenario that was run without it.
    pub scenario: &'static str,
    /// Distinct states that were looked at.
    pub states: usize,
    /// How it was found; `None`: it was not.
    pub found: Option<Counterexample>,
}

impl Report {
    pub(crate) fn new(scenarios: Vec<ScenarioReport>, original: ScenarioReport, removals: Vec<RemovalReport>) -> Self {
        let mut reached = BTreeMap::new();
        for (situation, count) in scenarios.iter().chain([&original]).flat_map(|s| &s.reached) {
            *reached.entry(*situation).or_insert(0) += count;
        }
        let states = scenarios.iter().map(|s| s.states).sum();
        let mut report =
            Self { proof: "model", states, reached, held: false, failures: Vec::new(), scenarios, original, removals };
        report.failures = report.judge();
        report.held = report.failures.is_empty();
        report
    }

    fn judge(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if self.states < MIN_STATES {
            failures.push(format!("{} distinct states; at least {MIN_STATES} are wanted", self.states));
        }
        for scenario in &self.scenarios {
            if let Some(counterexample) = &scenario.counterexample {
                failures.push(format!("{}: {counterexample}", scenario.scenario));
            }
        }
        for scenario in self.scenarios.iter().chain([&self.original]) {
            failures.extend(scenario.missed.iter().map(|s| format!("{}: never reached: {s}", scenario.scenario)));
        }
        let breaks = self.original.counterexample.as_ref().is_some_and(|c| c.broken.contains(&EXPECTED));
        if !breaks {
            failures.push(format!("the original's writer was not seen to break {EXPECTED}"));
        }
        let survivors = self.removals.iter().filter(|removal| removal.found.is_none());
        failures.extend(survivors.map(|removal| format!("nothing went wrong without \"{}\"", removal.rule)));
        failures
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<12} {:>10} {:>10} {:>6}  outcome", "scenario", "states", "steps", "depth")?;
        for s in self.scenarios.iter().chain([&self.original]) {
            let outcome = match &s.counterexample {
                None => "every invariant holds".to_owned(),
                Some(found) => format!("{} broken after {} steps", found.broken.join(", "), found.steps.len()),
            };
            writeln!(f, "{:<12} {:>10} {:>10} {:>6}  {outcome}", s.scenario, s.states, s.steps, s.depth)?;
        }
        writeln!(f, "\n{:>10}  situation", "reached")?;
        for (situation, count) in &self.reached {
            writeln!(f, "{count:>10}  {situation}")?;
        }
        writeln!(f, "\n{:<12} {:>5}  {:<16} rule removed", "scenario", "steps", "broken")?;
        for removal in &self.removals {
            let (steps, broken) = match &removal.found {
                Some(found) => (found.steps.len().to_string(), found.broken.join(" ")),
                None => ("-".to_owned(), "SURVIVED".to_owned()),
            };
            writeln!(f, "{:<12} {steps:>5}  {broken:<16} {}", removal.scenario, removal.rule)?;
        }
        writeln!(f)?;
        for failure in &self.failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        let outcome = if self.held { "held" } else { "DID NOT HOLD" };
        writeln!(f, "model: {} distinct states, {} rules removed, {outcome}", self.states, self.removals.len())
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken by: {}", self.broken.join(", "), self.steps.join(" · "))
    }
}
