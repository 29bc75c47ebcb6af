//! Owns the legacy writer's settings and what is allowed in them.

use std::time::Duration;

/// Settings of the legacy writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyWriterConfig {
    /// Most entries that wait to be sent. Default 1024.
    pub max_waiting_entries: usize,
    /// Admission closes while so many bytes wait. Default 64 MiB.
    pub max_waiting_bytes: usize,
    /// The largest transaction, in bytes; the store's own limit counts too. Default 1 MiB.
    pub max_txn_bytes: usize,
    /// Whether entries carry `key_sequence_id` (RFC hot standby §4). The original's entries do not. Default yes.
    pub key_sequence_ids: bool,
    /// How many durable entries stay in memory. Default 10,000.
    pub tail_entries: usize,
    /// How many bytes they may have together. Default 16 MiB.
    pub tail_bytes: usize,
    /// First pause after a failure; it doubles. Default 1 ms.
    pub retry_min: Duration,
    /// Longest pause. Default 1 s.
    pub retry_max: Duration,
    /// How long one group may stay without an answer to its transaction before the writer ends with
    /// [`LegacyTerminal::RetryBudget`](super::LegacyTerminal::RetryBudget), as
    /// [`WriterConfig::oplog_retry_budget`](crate::WriterConfig::oplog_retry_budget). `None`, the default: for ever.
    pub retry_budget: Option<Duration>,
}

impl Default for LegacyWriterConfig {
    fn default() -> Self {
        Self {
            max_waiting_entries: 1024,
            max_waiting_bytes: 64 << 20,
            max_txn_bytes: 1 << 20,
            key_sequence_ids: true,
            tail_entries: 10_000,
            tail_bytes: 16 << 20,
            retry_min: Duration::from_millis(1),
            retry_max: Duration::from_secs(1),
            retry_budget: None,
        }
    }
}

impl LegacyWriterConfig {
    /// The smallest transaction: one short entry.
    pub const MIN_TXN_BYTES: usize = 4096;

    /// Checks the settings by themselves.
    ///
    /// # Errors
    /// One sentence with the setting, its value and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        if self.max_waiting_entries == 0 {
            return Err("max_waiting_entries is 0; set it to at least 1 entry".into());
        }
        if self.max_txn_bytes < Self::MIN_TXN_BYTES {
            let (is, least) = (self.max_txn_bytes, Self::MIN_TXN_BYTES);
            return Err(format!("max_txn_bytes is {is}; set it to at least {least} bytes"));
        }
        if self.max_waiting_bytes < self.max_txn_bytes {
            let (is, least) = (self.max_waiting_bytes, self.max_txn_bytes);
            return Err(format!("max_waiting_bytes is {is}; set it to at least max_txn_bytes, {least}"));
        }
        if self.retry_min.is_zero() {
            return Err("retry_min is 0; set it above zero, or a failing store is flooded".into());
        }
        if self.retry_max < self.retry_min {
            let (is, least) = (self.retry_max, self.retry_min);
            return Err(format!("retry_max is {is:?}; set it to at least retry_min, {least:?}"));
        }
        if self.retry_budget.is_some_and(|budget| budget.is_zero()) {
            return Err("retry_budget is 0; set it above zero, or leave it out to retry for ever".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::LegacyWriterConfig;

    #[test]
    fn every_setting_out_of_range_is_refused_by_name() {
        let fine = LegacyWriterConfig::default();
        assert_eq!(fine.validate(), Ok(()));
        for (config, name) in [
            (LegacyWriterConfig { max_waiting_entries: 0, ..fine.clone() }, "max_waiting_entries"),
            (LegacyWriterConfig { max_txn_bytes: 4095, ..fine.clone() }, "max_txn_bytes"),
            (LegacyWriterConfig { max_waiting_bytes: 1 << 19, ..fine.clone() }, "max_waiting_bytes"),
            (LegacyWriterConfig { retry_min: std::time::Duration::ZERO, ..fine.clone() }, "retry_min"),
            (LegacyWriterConfig { retry_max: std::time::Duration::ZERO, ..fine.clone() }, "retry_max"),
            (LegacyWriterConfig { retry_budget: Some(std::time::Duration::ZERO), ..fine.clone() }, "retry_budget"),
        ] {
            assert!(config.validate().unwrap_err().starts_with(name));
        }
    }
}
