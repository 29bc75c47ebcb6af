//! Owns the list of faults: all are counted, the first ones are kept.

use std::collections::BTreeMap;

use crate::ReplayFault;

/// The faults of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFaults {
    most: usize,
    listed: Vec<ReplayFault>,
    by_kind: BTreeMap<&'static str, u64>,
    total: u64,
}

impl AuditFaults {
    pub(super) fn at_most(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(super) fn add(&mut self, fault: ReplayFault) {
        self.total += 1;
        *self.by_kind.entry(fault.kind.name()).or_default() += 1;
        if self.listed.len() < self.most {
            self.listed.push(fault);
        }
    }

    pub(super) fn extend(&mut self, faults: impl IntoIterator<Item = ReplayFault>) {
        faults.into_iter().for_each(|fault| self.add(fault));
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many there are of each kind, by the kind's name.
    #[must_use]
    pub fn by_kind(&self) -> &BTreeMap<&'static str, u64> {
        &self.by_kind
    }

    /// The first ones, in the order in which they were found.
    #[must_use]
    pub fn listed(&self) -> &[ReplayFault] {
        &self.listed
    }

    /// How many are counted and not listed.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.total.saturating_sub(u64::try_from(self.listed.len()).unwrap_or(u64::MAX))
    }
}
