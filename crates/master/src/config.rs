//! Owns the settings of one master: limits and the margin between clocks.

use std::time::Duration;

use crate::Policy;

/// Settings of one node's master. What the whole cluster must agree on is not here but in [`Policy`](crate::Policy).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterConfig {
    /// How much longer than promised a range is kept from others, for clocks that run at different rates.
    pub clock_margin: Duration,
    /// For how long the first primary after Mooncake hands out no space in segments that its clients may still be using. The
    /// operator may know that they stopped earlier.
    pub after_mooncake: Duration,
    /// The largest object, in bytes.
    pub max_object_bytes: u64,
    /// The most replicas of one object, at most [`MasterConfig::MOST_REPLICAS`].
    pub max_replicas: usize,
    /// The most puts that may run at once.
    pub max_running_puts: usize,
    /// The most segments mounted at once.
    pub max_segments: usize,
    /// The most tenants.
    pub max_tenants: usize,
    /// The most keys of one batch remove.
    pub max_batch_remove_keys: usize,
    /// The most keys of one page of a list.
    pub max_list_page: usize,
}

impl MasterConfig {
    /// The most replicas of one object that an entry can carry.
    pub const MOST_REPLICAS: usize = 32;

    /// Checks the values.
    ///
    /// # Errors
    /// A sentence that names the setting and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        let counts = [
            ("max_replicas", self.max_replicas, Self::MOST_REPLICAS),
            ("max_running_puts", self.max_running_puts, 1 << 30),
            ("max_segments", self.max_segments, 1 << 20),
            ("max_tenants", self.max_tenants, 1 << 30),
            ("max_batch_remove_keys", self.max_batch_remove_keys, 1_000_000),
            ("max_list_page", self.max_list_page, 1_000_000),
        ];
        for (name, value, most) in counts {
            if value == 0 || value > most {
                return Err(format!("{name} is {value}; give 1 to {most}"));
            }
        }
        if self.max_object_bytes == 0 || self.max_object_bytes > 1 << 62 {
            return Err(format!("max_object_bytes is {}; give 1 to {}", self.max_object_bytes, 1_u64 << 62));
        }
        if self.after_mooncake > Duration::from_millis(Policy::LONGEST_MS) {
            return Err(format!("after_mooncake is {:?}; give at most an hour", self.after_mooncake));
        }
        if self.clock_margin > Duration::from_secs(60) {
            return Err(format!("clock_margin is {:?}; give at most 60s", self.clock_margin));
        }
        Ok(())
    }
}

impl Default for MasterConfig {
    fn default() -> Self {
        Self {
            clock_margin: Duration::from_millis(100),
            after_mooncake: Duration::from_millis(Policy::AFTER_MOONCAKE_MS),
            max_object_bytes: 1 << 40,
            max_replicas: 8,
            max_running_puts: 1 << 20,
            max_segments: 65_536,
            max_tenants: 65_536,
            max_batch_remove_keys: 10_000,
            max_list_page: 10_000,
        }
    }
}
