//! Owns what a run of the proof came to, as tables for people and as JSON for programs.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Serialize;

use super::explore::Violation;
use super::promise::Harm;
use super::rules::Rule;
use super::situation::{Reached, Situation};

/// The fewest distinct images with which a run is worth anything.
pub const MIN_IMAGES: usize = 100_000;

/// What one workload came to.
#[derive(Debug)]
pub struct WorkloadReport {
    /// Its name.
    pub workload: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Moments at which the power went.
    pub moments: usize,
    /// Fingerprints of the images that a store was opened on.
    pub images: HashSet<u64>,
    /// What was met.
    pub reached: Reached,
    /// What did not hold.
    pub violations: Vec<Violation>,
}

/// What a workload came to with each of its calls failing in turn.
#[derive(Debug)]
pub struct FaultReport {
    /// Its name.
    pub workload: &'static str,
    /// How many calls failed, each in a run of its own.
    pub calls: usize,
    /// Fingerprints of the images that a store was opened on.
    pub images: HashSet<u64>,
    /// What was met.
    pub reached: Reached,
    /// What did not hold.
    pub violations: Vec<Violation>,
}

/// What the removal of a rule came to.
#[derive(Debug)]
pub struct RemovalReport {
    /// The rule.
    pub rule: Rule,
    /// The workload in which it was found.
    pub workload: Option<&'static str>,
    /// Images that were looked at.
    pub images: usize,
    /// What did not hold without it; `None`: nothing.
    pub found: Option<Violation>,
}

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `crash`.
    pub proof: &'static str,
    /// Distinct disk images on which a store was opened and recovered.
    pub states: usize,
    /// Objects that were durable and were not there, or not with their bytes.
    pub lost: usize,
    /// Objects that were gone, or never written, and were there.
    pub resurrected: usize,
    /// The situations that were met, and how often.
    pub reached: BTreeMap<&'static str, u64>,
    /// Whether everything holds that must, and nothing that must not.
    pub held: bool,
    /// Why it does not.
    pub failures: Vec<String>,
    /// The part that was run, if it is not the whole: then nothing is said of how much was looked at and met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    #[serde(skip)]
    workloads: Vec<WorkloadReport>,
    #[serde(skip)]
    faults: Vec<FaultReport>,
    #[serde(skip)]
    removals: Vec<RemovalReport>,
}

impl Report {
    /// Judges what was seen, of a whole run or of the part that `only` names.
    #[must_use]
    pub fn new(
        only: Option<&str>,
        workloads: Vec<WorkloadReport>,
        faults: Vec<FaultReport>,
        removals: Vec<RemovalReport>,
    ) -> Self {
        let images: HashSet<_> =
            workloads.iter().flat_map(|it| &it.images).chain(faults.iter().flat_map(|it| &it.images)).collect();
        let mut reached = Reached::default();
        workloads.iter().for_each(|it| reached.add(&it.reached));
        faults.iter().for_each(|it| reached.add(&it.reached));
        let violations: Vec<_> = workloads
            .iter()
            .flat_map(|it| it.violations.iter().map(|violation| (it.workload, violation)))
            .chain(faults.iter().flat_map(|it| it.violations.iter().map(|violation| (it.workload, violation))))
            .collect();
        let harmed = |harm: Harm| violations.iter().filter(|(_, it)| it.broken.harm == harm).count();
        let (states, lost, resurrected) = (images.len(), harmed(Harm::Lost), harmed(Harm::Resurrected));
        let mut failures: Vec<_> = violations.iter().map(|(workload, it)| format!("{workload}: {it}")).collect();
        if only.is_none() {
            if states < MIN_IMAGES {
                failures.push(format!("{states} distinct images; at least {MIN_IMAGES} are wanted"));
            }
            let missed = Situation::ALL.iter().filter(|situation| reached.count(**situation) == 0);
            failures.extend(missed.map(|situation| format!("never reached: {}", situation.text())));
        }
        failures.extend(removals.iter().filter_map(RemovalReport::failure));
        let reached = Situation::ALL.iter().map(|situation| (situation.text(), reached.count(*situation))).collect();
        let held = failures.is_empty();
        let only = only.map(str::to_owned);
        Self { proof: "crash", states, lost, resurrected, reached, held, failures, only, workloads, faults, removals }
    }
}

impl RemovalReport {
    fn failure(&self) -> Option<String> {
        self.found.is_none().then(|| format!("nothing went wrong without \"{}\"", self.rule.text()))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, after {} ({} crashes)", self.broken.invariant, self.broken.seen, self.after, self.crashes)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18} {:>8} {:>10}  what it does", "workload", "moments", "images")?;
        for it in &self.workloads {
            writeln!(f, "{:<18} {:>8} {:>10}  {}", it.workload, it.moments, it.images.len(), it.about)?;
        }
        writeln!(f, "\n{:<18} {:>8} {:>10}", "calls that fail", "calls", "images")?;
        for it in &self.faults {
            writeln!(f, "{:<18} {:>8} {:>10}", it.workload, it.calls, it.images.len())?;
        }
        writeln!(f, "\n{:>10}  situation", "reached")?;
        for (situation, count) in &self.reached {
            writeln!(f, "{count:>10}  {situation}")?;
        }
        writeln!(f, "\n{:<18} {:<9} rule removed", "found in", "broken")?;
        for it in &self.removals {
            let (workload, broken) = match &it.found {
                Some(found) => (it.workload.unwrap_or_default(), found.broken.invariant),
                None => ("-", "survived"),
            };
            writeln!(f, "{workload:<18} {broken:<9} {}", it.rule.text())?;
        }
        writeln!(f)?;
        for failure in &self.failures {
            writeln!(f, "FAILED: {failure}")?;
        }
        let outcome = if self.held { "held" } else { "DID NOT HOLD" };
        if let Some(only) = &self.only {
            writeln!(f, "a part: \"{only}\" only")?;
        }
        writeln!(
            f,
            "crash: {} distinct images, {} lost, {} resurrected, {} rules removed, {outcome}",
            self.states,
            self.lost,
            self.resurrected,
            self.removals.len()
        )
    }
}
