//! Owns the settings of a standby and what is allowed in them.

use std::time::Duration;

/// Settings of a standby. Plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandbyConfig {
    /// How often the durable prefix is read without a hint.
    pub poll: Duration,
    /// The longest wait for one answer of the store.
    pub request_timeout: Duration,
    /// How much one page of batch records may hold. Two pages are in memory at once: one is applied while the next is read.
    pub page_bytes: usize,
    /// The first pause after a failure of the store, and the pause before a doubtful reading is confirmed by a second.
    pub retry_min: Duration,
    /// The longest pause after failures of the store.
    pub retry_max: Duration,
    /// A standby further behind does not campaign, in entries.
    pub campaign_max_lag_entries: u64,
    /// A standby further behind does not campaign, in batches.
    pub campaign_max_lag_batches: u64,
}

impl Default for StandbyConfig {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(100),
            request_timeout: Duration::from_secs(5),
            page_bytes: 4 << 20,
            retry_min: Duration::from_millis(20),
            retry_max: Duration::from_secs(1),
            campaign_max_lag_entries: 100_000,
            campaign_max_lag_batches: 1_000,
        }
    }
}

/// A setting that cannot work, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standby setting {setting} is {found}; it must be {expected}")]
pub struct StandbyConfigError {
    /// The setting's name.
    pub setting: &'static str,
    /// Its value.
    pub found: String,
    /// What is allowed.
    pub expected: String,
}

impl StandbyConfig {
    /// The largest page.
    pub const MAX_PAGE_BYTES: usize = 256 << 20;

    /// Checks every setting and how they fit together.
    ///
    /// # Errors
    /// [`StandbyConfigError`] names the first setting that cannot work.
    pub fn validate(&self) -> Result<(), StandbyConfigError> {
        let positive = [("poll", self.poll), ("request_timeout", self.request_timeout), ("retry_min", self.retry_min)];
        for (setting, value) in positive {
            check(setting, format!("{value:?}"), !value.is_zero(), "above zero".into())?;
        }
        check(
            "page_bytes",
            self.page_bytes.to_string(),
            (1..=Self::MAX_PAGE_BYTES).contains(&self.page_bytes),
            format!("1 to {} bytes", Self::MAX_PAGE_BYTES),
        )?;
        check(
            "retry_max",
            format!("{:?}", self.retry_max),
            self.retry_max >= self.retry_min,
            format!("at least retry_min ({:?})", self.retry_min),
        )
    }
}

fn check(setting: &'static str, found: String, holds: bool, expected: String) -> Result<(), StandbyConfigError> {
    if holds { Ok(()) } else { Err(StandbyConfigError { setting, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_cannot_work_is_named_with_what_would() {
        let ok = StandbyConfig::default();
        ok.validate().unwrap();
        let cases = [
            ("poll", StandbyConfig { poll: Duration::ZERO, ..ok.clone() }),
            ("request_timeout", StandbyConfig { request_timeout: Duration::ZERO, ..ok.clone() }),
            ("retry_min", StandbyConfig { retry_min: Duration::ZERO, ..ok.clone() }),
            ("page_bytes", StandbyConfig { page_bytes: 0, ..ok.clone() }),
            ("page_bytes", StandbyConfig { page_bytes: usize::MAX, ..ok.clone() }),
            ("retry_max", StandbyConfig { retry_max: Duration::ZERO, ..ok }),
        ];
        for (setting, config) in cases {
            let error = config.validate().unwrap_err();
            assert_eq!(error.setting, setting, "{error}");
            assert!(error.to_string().contains("it must be"), "{error}");
        }
    }
}
