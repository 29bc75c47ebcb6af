//! Owns the settings of an election and what is allowed in them.

use std::time::Duration;

/// Settings of an election. Plain data; nodes of one cluster should agree on `ttl` and `margin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// How long a lease lives after the store received a keep-alive. A store may raise it; what it granted counts.
    pub ttl: Duration,
    /// How long before the lease can run out this node stops acting. It covers the difference in speed of two clocks.
    pub margin: Duration,
    /// How often a candidate asks for the lease without a hint.
    pub poll: Duration,
    /// The longest wait for one answer of the store. A request without answer is sent again.
    pub request_timeout: Duration,
    /// The first pause after a failure.
    pub retry_min: Duration,
    /// The longest pause after failures.
    pub retry_max: Duration,
}

impl Default for ElectionConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(3),
            margin: Duration::from_millis(500),
            poll: Duration::from_millis(250),
            request_timeout: Duration::from_secs(1),
            retry_min: Duration::from_millis(20),
            retry_max: Duration::from_secs(1),
        }
    }
}

/// A setting that cannot work, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leadership setting {setting} is {found}; it must be {expected}")]
pub struct ElectionConfigError {
    /// The setting's name.
    pub setting: &'static str,
    /// Its value.
    pub found: String,
    /// What is allowed.
    pub expected: String,
}

impl ElectionConfig {
    /// The longest TTL: an hour without a leader after a crash is a mistake in the unit.
    pub const MAX_TTL: Duration = Duration::from_secs(3600);

    /// Checks every setting and how they fit together.
    ///
    /// # Errors
    /// [`ElectionConfigError`] names the first setting that cannot work.
    pub fn validate(&self) -> Result<(), ElectionConfigError> {
        let positive = [
            ("ttl", self.ttl),
            ("poll", self.poll),
            ("request_timeout", self.request_timeout),
            ("retry_min", self.retry_min),
        ];
        for (setting, value) in positive {
            check(setting, value, !value.is_zero(), || "above zero".into())?;
        }
        let third = self.ttl / 3;
        check("ttl", self.ttl, self.ttl <= Self::MAX_TTL, || format!("at most {:?}", Self::MAX_TTL))?;
        check("margin", self.margin, self.margin <= self.ttl / 2, || {
            format!("at most half of ttl ({:?}), so that there is time to serve", self.ttl / 2)
        })?;
        check("poll", self.poll, self.poll <= third, || {
            format!("at most a third of ttl ({third:?}), so that a candidate's lease stays alive")
        })?;
        check("retry_min", self.retry_min, self.retry_min <= third, || {
            format!("at most a third of ttl ({third:?}), so that a failed keep-alive is repeated in time")
        })?;
        check("retry_max", self.retry_max, self.retry_max >= self.retry_min, || {
            format!("at least retry_min ({:?})", self.retry_min)
        })
    }
}

fn check(
    setting: &'static str,
    value: Duration,
    holds: bool,
    expected: impl FnOnce() -> String,
) -> Result<(), ElectionConfigError> {
    if holds { Ok(()) } else { Err(ElectionConfigError { setting, found: format!("{value:?}"), expected: expected() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        ElectionConfig::default().validate().unwrap();
    }

    #[test]
    fn a_setting_that_cannot_work_is_named_with_what_would() {
        let ok = ElectionConfig::default();
        let cases = [
            ("ttl", ElectionConfig { ttl: Duration::ZERO, ..ok.clone() }),
            ("ttl", ElectionConfig { ttl: Duration::from_secs(3601), ..ok.clone() }),
            ("margin", ElectionConfig { margin: Duration::from_secs(2), ..ok.clone() }),
            ("poll", ElectionConfig { poll: Duration::from_millis(1001), ..ok.clone() }),
            ("poll", ElectionConfig { poll: Duration::ZERO, ..ok.clone() }),
            ("request_timeout", ElectionConfig { request_timeout: Duration::ZERO, ..ok.clone() }),
            ("retry_min", ElectionConfig { retry_min: Duration::ZERO, ..ok.clone() }),
            ("retry_min", ElectionConfig { retry_min: Duration::from_secs(2), ..ok.clone() }),
            ("retry_max", ElectionConfig { retry_max: Duration::from_millis(1), ..ok }),
        ];
        for (setting, config) in cases {
            let error = config.validate().unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
            assert!(error.to_string().contains("it must be"), "{error}");
        }
    }
}
