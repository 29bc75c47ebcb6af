//! Owns the situations of one scenario, counted over its schedules.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

/// The situations of one scenario, and in how many schedules each occurred. Clones count together.
#[derive(Clone)]
pub struct Reached(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Reached {
    pub(crate) fn of(required: &[&'static str]) -> Self {
        Self(Arc::new(Mutex::new(required.iter().map(|name| (*name, 0)).collect())))
    }

    /// `situation` occurs in the schedule that runs now.
    ///
    /// # Panics
    /// If the scenario does not name it.
    pub fn mark(&self, situation: &'static str) {
        *self.0.lock().expect("no panic while counting").get_mut(situation).expect("a situation of this scenario") += 1;
    }

    /// As [`Self::mark`], if `occurs`.
    ///
    /// # Panics
    /// If it occurs and the scenario does not name it.
    pub fn mark_if(&self, occurs: bool, situation: &'static str) {
        if occurs {
            self.mark(situation);
        }
    }

    /// What has not occurred in any schedule.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        let counts = self.0.lock().expect("no panic while counting");
        counts.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect()
    }
}

/// A map of names and numbers, which prints as JSON does.
impl fmt::Debug for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.lock().expect("no panic while counting").fmt(f)
    }
}
