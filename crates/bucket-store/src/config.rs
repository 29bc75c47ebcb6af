//! Owns the settings of one store and what is allowed of them. Behaviour (disk, clock, observer) is passed to `open`, not set here.

use std::time::Duration;

/// Settings of one store: plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Bytes of blocks that the bucket files may occupy in all. The watermarks are fractions of it.
    pub capacity_bytes: u64,
    /// Above this fraction of the capacity, GC takes every bucket with at least [`dead_ratio_floor`](Self::dead_ratio_floor) dead.
    pub high_watermark: f64,
    /// GC under pressure ends at this fraction of the capacity.
    pub low_watermark: f64,
    /// The fraction of dead bytes below which a bucket is never copied, whatever the pressure: copying it would cost far more than it gives.
    pub dead_ratio_floor: f64,
    /// The fraction of dead bytes at which a bucket is copied without pressure too; `None` turns that off. Write amplification is
    /// at most 1 / ratio. [`Config::SUGGESTED_DEAD_RATIO`] is a good value.
    pub normal_dead_ratio: Option<f64>,
    /// The largest share of the time that GC spends copying, of (0, 1]; in the rest it waits. 1 is unthrottled.
    pub gc_copy_share: f64,
    /// The most bytes per second that GC copies, beside [`gc_copy_share`](Self::gc_copy_share).
    pub gc_copy_bytes_per_s: Option<u64>,
    /// The one buffer that GC copies through, in bytes.
    pub copy_buffer_bytes: usize,
    /// How long GC leaves a failing bucket or clean-up alone after its first failure; doubled with each further one.
    pub gc_retry_min: Duration,
    /// The longest that GC leaves a failing bucket or clean-up alone.
    pub gc_retry_max: Duration,
    /// The most bytes of a bucket's data file.
    pub bucket_size_bytes: u64,
    /// The most objects of a bucket.
    pub bucket_keys: usize,
    /// When a written object is durable. Deletes, intents and GC are durable in every mode.
    pub durability: Durability,
    /// With [`Durability::Relaxed`]: written bytes that may wait to be made durable; the write that goes past it makes them so.
    pub relaxed_limit_bytes: u64,
    /// Failures of publishing or syncing in a row after which the store is read-only.
    pub read_only_after_failures: u32,
    /// The most entries of one batch of writes, reads or deletes.
    pub max_batch: usize,
    /// The most objects of one page of a list.
    pub max_list_page: usize,
    /// The most blocking calls that the `tokio` wrapper runs at once.
    pub blocking_calls: usize,
}

/// When a written object is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When `write` returns.
    Sync,
    /// When a later publish of pending data has succeeded. A power loss may take objects written since the last.
    Relaxed,
}

impl Config {
    /// A good value of [`normal_dead_ratio`](Self::normal_dead_ratio).
    pub const SUGGESTED_DEAD_RATIO: f64 = 0.5;
    /// The largest bucket: whatever is in it, a value has less than 4 GiB, as its length has 32 bits in record and table. Offsets have 64.
    pub const MOST_BUCKET_BYTES: u64 = u32::MAX as u64;
    /// The most keys of a bucket: with keys of the greatest length its table still has less than 64 MiB.
    pub const MOST_BUCKET_KEYS: usize = 12_000;

    /// Checks the values.
    ///
    /// # Errors
    /// The first setting that is not allowed, with what is.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_limits()?;
        self.validate_ratios()?;
        if self.low_watermark >= self.high_watermark {
            return Err(ConfigError::new(
                "low_watermark",
                self.low_watermark,
                format!("give less than high_watermark, which is {}", self.high_watermark),
            ));
        }
        if self.bucket_size_bytes > self.capacity_bytes {
            return Err(ConfigError::new(
                "bucket_size_bytes",
                self.bucket_size_bytes,
                format!("give at most capacity_bytes, which is {}", self.capacity_bytes),
            ));
        }
        if self.gc_retry_max < self.gc_retry_min {
            return Err(ConfigError::new(
                "gc_retry_max",
                format!("{:?}", self.gc_retry_max),
                format!("give at least gc_retry_min, which is {:?}", self.gc_retry_min),
            ));
        }
        Ok(())
    }

    fn validate_limits(&self) -> Result<(), ConfigError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let limits = [
            ("capacity_bytes", self.capacity_bytes, 1 << 62),
            ("copy_buffer_bytes", self.copy_buffer_bytes as u64, 64 << 20),
            ("bucket_size_bytes", self.bucket_size_bytes, Self::MOST_BUCKET_BYTES),
            ("bucket_keys", self.bucket_keys as u64, Self::MOST_BUCKET_KEYS as u64),
            ("relaxed_limit_bytes", self.relaxed_limit_bytes, 1 << 62),
            ("read_only_after_failures", u64::from(self.read_only_after_failures), 1_000_000),
            ("max_batch", self.max_batch as u64, 1_000_000),
            ("max_list_page", self.max_list_page as u64, 1_000_000),
            ("blocking_calls", self.blocking_calls as u64, 1024),
            ("gc_copy_bytes_per_s", self.gc_copy_bytes_per_s.unwrap_or(1), 1 << 62),
            ("gc_retry_min in ms", millis(self.gc_retry_min), 86_400_000),
            ("gc_retry_max in ms", millis(self.gc_retry_max), 86_400_000),
        ];
        for (field, value, most) in limits {
            if value == 0 || value > most {
                return Err(ConfigError::new(field, value, format!("give 1 to {most}")));
            }
        }
        Ok(())
    }

    fn validate_ratios(&self) -> Result<(), ConfigError> {
        let ratios = [
            ("high_watermark", self.high_watermark),
            ("low_watermark", self.low_watermark),
            ("dead_ratio_floor", self.dead_ratio_floor),
            ("normal_dead_ratio", self.normal_dead_ratio.unwrap_or(1.0)),
            ("gc_copy_share", self.gc_copy_share),
        ];
        for (field, value) in ratios {
            // Written so that NaN, which compares false with everything, is refused.
            if !(value > 0.0 && value <= 1.0) {
                return Err(ConfigError::new(field, value, "give more than 0 and at most 1".into()));
            }
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity_bytes: 64 << 30,
            high_watermark: 0.9,
            low_watermark: 0.8,
            dead_ratio_floor: 0.05,
            normal_dead_ratio: None,
            gc_copy_share: 0.3,
            gc_copy_bytes_per_s: None,
            copy_buffer_bytes: 1 << 20,
            gc_retry_min: Duration::from_secs(1),
            gc_retry_max: Duration::from_secs(60),
            bucket_size_bytes: 256 << 20,
            bucket_keys: 500,
            durability: Durability::Sync,
            relaxed_limit_bytes: 256 << 20,
            read_only_after_failures: 3,
            max_batch: 10_000,
            max_list_page: 10_000,
            blocking_calls: 4,
        }
    }
}

/// A setting that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}; {remedy}")]
pub struct ConfigError {
    field: &'static str,
    found: String,
    remedy: String,
}

impl ConfigError {
    fn new(field: &'static str, found: impl ToString, remedy: String) -> Self {
        Self { field, found: found.to_string(), remedy }
    }

    /// What is wrong, without what to do about it.
    #[must_use]
    pub fn what(&self) -> String {
        format!("{} is {}", self.field, self.found)
    }

    /// What to set instead.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// The setting's name.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }
}

#[cfg(test)]
mod tests {
    use super::Config;

    type Change = fn(&mut Config);
    type ChangeTo = fn(&mut Config, f64);

    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.validate().expect_err("must be refused").to_string()
    }

    #[test]
    fn the_default_is_allowed_and_is_what_the_specification_says() {
        let config = Config::default();
        config.validate().unwrap();
        assert_eq!((config.bucket_size_bytes, config.bucket_keys), (256 << 20, 500));
        assert_eq!((config.dead_ratio_floor, config.normal_dead_ratio), (0.05, None));
    }

    #[test]
    fn a_limit_of_zero_is_refused_by_name() {
        let cases: [(&str, Change); 12] = [
            ("capacity_bytes", |c| c.capacity_bytes = 0),
            ("copy_buffer_bytes", |c| c.copy_buffer_bytes = 0),
            ("bucket_size_bytes", |c| c.bucket_size_bytes = 0),
            ("bucket_keys", |c| c.bucket_keys = 0),
            ("relaxed_limit_bytes", |c| c.relaxed_limit_bytes = 0),
            ("read_only_after_failures", |c| c.read_only_after_failures = 0),
            ("max_batch", |c| c.max_batch = 0),
            ("max_list_page", |c| c.max_list_page = 0),
            ("blocking_calls", |c| c.blocking_calls = 0),
            ("gc_copy_bytes_per_s", |c| c.gc_copy_bytes_per_s = Some(0)),
            ("gc_retry_min in ms", |c| c.gc_retry_min = std::time::Duration::ZERO),
            ("gc_retry_max in ms", |c| c.gc_retry_max = std::time::Duration::ZERO),
        ];
        for (field, change) in cases {
            let text = refused(change);
            assert!(text.starts_with(&format!("{field} is 0; give 1 to ")), "{text}");
        }
    }

    #[test]
    fn ratios_outside_of_zero_to_one_are_refused_by_name() {
        let cases: [(&str, ChangeTo); 5] = [
            ("high_watermark", |c, v| c.high_watermark = v),
            ("low_watermark", |c, v| c.low_watermark = v),
            ("dead_ratio_floor", |c, v| c.dead_ratio_floor = v),
            ("normal_dead_ratio", |c, v| c.normal_dead_ratio = Some(v)),
            ("gc_copy_share", |c, v| c.gc_copy_share = v),
        ];
        for (field, change) in cases {
            for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 0.0, -0.0, 1.000_001] {
                let text = refused(|config| change(config, value));
                assert!(text.starts_with(&format!("{field} is ")), "{field} {value}: {text}");
            }
        }
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        assert!(refused(|c| c.low_watermark = 0.9).starts_with("low_watermark is 0.9; give less than high_watermark"));
        assert!(refused(|c| c.low_watermark = 0.95).starts_with("low_watermark is 0.95"));
        assert!(refused(|c| c.capacity_bytes = 1 << 20).starts_with("bucket_size_bytes is "));
        assert!(refused(|c| c.gc_retry_max = std::time::Duration::from_millis(1)).starts_with("gc_retry_max is 1ms"));
        assert!(refused(|c| c.bucket_size_bytes = 1 << 32).starts_with("bucket_size_bytes is 4294967296"));
    }
}
