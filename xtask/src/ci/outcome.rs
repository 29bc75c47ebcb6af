//! Owns what one step came to.

/// How many checks passed and failed, and which were skipped for want of what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: Vec<String>,
}

impl Outcome {
    pub(crate) fn passed(passed: u64) -> Self {
        Self { passed, ..Self::default() }
    }

    pub(crate) fn failed() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// One check that held or did not.
    pub(crate) fn of(held: bool) -> Self {
        if held { Self::passed(1) } else { Self::failed() }
    }

    pub(crate) fn skipped(what: impl Into<String>) -> Self {
        Self { skipped: vec![what.into()], ..Self::default() }
    }
}
