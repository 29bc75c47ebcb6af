//! Owns the settings of the legacy mode and what is allowed in them.

use std::time::Duration;

use crate::StandbyConfigError;

/// Settings of the legacy mode. Plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyConfig {
    /// How long a missing entry is waited for, and fetched again by every round, before the standby is unhealthy. Default 3 s.
    pub gap_wait: Duration,
    /// Whether the standby goes on behind an entry that stayed away so long: what it said is lost, and nobody will know what that
    /// was. Default no. The start of a log is never passed over.
    pub accept_lost_entries: bool,
    /// How often entries above the base are looked for after the cutover. Default 5 s.
    pub above_base_interval: Duration,
}

impl Default for LegacyConfig {
    fn default() -> Self {
        Self {
            gap_wait: Duration::from_secs(3),
            accept_lost_entries: false,
            above_base_interval: Duration::from_secs(5),
        }
    }
}

impl LegacyConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// [`StandbyConfigError`] names the first setting that cannot work.
    pub fn validate(&self) -> Result<(), StandbyConfigError> {
        let positive = [("gap_wait", self.gap_wait), ("above_base_interval", self.above_base_interval)];
        match positive.into_iter().find(|(_, value)| value.is_zero()) {
            None => Ok(()),
            Some((setting, value)) => {
                Err(StandbyConfigError { setting, found: format!("{value:?}"), expected: "above zero".into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_of_nothing_is_named() {
        LegacyConfig::default().validate().unwrap();
        let none = LegacyConfig { gap_wait: Duration::ZERO, ..LegacyConfig::default() };
        assert_eq!(none.validate().unwrap_err().setting, "gap_wait");
        let none = LegacyConfig { above_base_interval: Duration::ZERO, ..LegacyConfig::default() };
        assert_eq!(none.validate().unwrap_err().setting, "above_base_interval");
    }
}
