//! Owns what a run of the suite found.

use std::fmt;

/// What ran, what did not and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Report {
    /// The cases that passed.
    pub passed: Vec<&'static str>,
    /// The cases that do not fit the store, with the reason.
    pub skipped: Vec<(&'static str, String)>,
    /// The cases that found a broken promise, with what they found. Empty in what [`run`](super::run) returns.
    pub failed: Vec<(&'static str, String)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, what) in &self.failed {
            writeln!(f, "FAILED  {name}: {what}")?;
        }
        for (name, why) in &self.skipped {
            writeln!(f, "SKIPPED {name}: {why}")?;
        }
        write!(f, "{} passed, {} skipped, {} failed", self.passed.len(), self.skipped.len(), self.failed.len())
    }
}
