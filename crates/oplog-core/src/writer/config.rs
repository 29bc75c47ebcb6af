//! Owns the writer's settings and what is allowed in them. Plain data: clock and randomness come in beside it.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::Capabilities;
use ha_types::{Clock, Entropy};

use crate::record::{BatchCompression, BatchCompressor, MAX_BATCH_ENTRIES, MAX_BODY_BYTES};
use crate::{BatchId, BatchStorage, DurablePrefix, LogKeys};

/// Settings, with the RFC's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterConfig {
    /// Most entries that wait, reserved or committed and not yet in the batch being written: an admission limit, no target
    /// size of a batch. Default 1024.
    pub oplog_batch_max_entries: usize,
    /// A batch seals at so many bytes of its record before compression; also the largest record of one entry. Default 1 MiB.
    pub oplog_batch_max_bytes: usize,
    /// Whether a batch's body is compressed when it seals, if that makes it smaller. Only once every reader of the log has the
    /// feature `zstd`: one without it refuses such a record. Default [`BatchCompression::Off`].
    pub oplog_batch_compression: BatchCompression,
    /// Shorter bodies, in bytes, are not compressed. Default 4 KiB.
    pub oplog_batch_compress_min_bytes: usize,
    /// Admission closes while so many bytes wait. What was reserved before may still commit beyond it. Default 64 MiB.
    pub oplog_waiting_max_bytes: usize,
    /// How long a seal directly after a completion may wait for the callers of the completed batch to come back, at most a quarter
    /// of what that batch took. Zero is the RFC's rule. It never delays an idle writer. Default
    /// [`DEFAULT_SEAL_DELAY`](Self::DEFAULT_SEAL_DELAY).
    pub oplog_max_seal_delay: Duration,
    /// First pause after a failure; it doubles. Default 1 ms.
    pub oplog_retry_min: Duration,
    /// Longest pause. Default 1 s.
    pub oplog_retry_max: Duration,
    /// How long one batch may stay without an answer to its transaction before the writer ends with
    /// [`Terminal::RetryBudget`](crate::Terminal::RetryBudget). The time of definite refusals does not count; an answered read
    /// stops no count, for a store that reads and does not write is of no use to a log. `None`, the default: for ever.
    pub oplog_retry_budget: Option<Duration>,
}

impl Default for WriterConfig {
    fn default() -> Self {
        Self {
            oplog_batch_max_entries: 1024,
            oplog_batch_max_bytes: 1 << 20,
            oplog_batch_compression: BatchCompression::Off,
            oplog_batch_compress_min_bytes: 4 << 10,
            oplog_waiting_max_bytes: 64 << 20,
            oplog_max_seal_delay: Self::DEFAULT_SEAL_DELAY,
            oplog_retry_min: Duration::from_millis(1),
            oplog_retry_max: Duration::from_secs(1),
            oplog_retry_budget: None,
        }
    }
}

impl WriterConfig {
    /// Most entries that may be allowed to wait.
    pub const MAX_ENTRIES: usize = MAX_BATCH_ENTRIES;
    /// The smallest batch limit: a header, a tenant and a short entry.
    pub const MIN_BATCH_BYTES: usize = 256;
    /// The seal delay where none is set.
    pub const DEFAULT_SEAL_DELAY: Duration = Duration::from_micros(200);
    /// Longest seal delay.
    pub const MAX_SEAL_DELAY: Duration = Duration::from_secs(1);

    /// Checks the settings by themselves.
    ///
    /// # Errors
    /// One sentence with the setting, its value and what is allowed.
    pub fn validate(&self) -> Result<(), String> {
        let refuse = |setting: &str, value: &dyn std::fmt::Debug, allowed: String| {
            Err(format!("{setting} is {value:?}; set it {allowed}"))
        };
        if !(1..=Self::MAX_ENTRIES).contains(&self.oplog_batch_max_entries) {
            let allowed = format!("to 1 to {} entries", Self::MAX_ENTRIES);
            return refuse("oplog_batch_max_entries", &self.oplog_batch_max_entries, allowed);
        }
        if !(Self::MIN_BATCH_BYTES..=MAX_BODY_BYTES).contains(&self.oplog_batch_max_bytes) {
            let allowed = format!("to {} to {MAX_BODY_BYTES} bytes", Self::MIN_BATCH_BYTES);
            return refuse("oplog_batch_max_bytes", &self.oplog_batch_max_bytes, allowed);
        }
        self.compressor()?;
        if self.oplog_waiting_max_bytes < self.oplog_batch_max_bytes {
            let allowed = format!("to at least oplog_batch_max_bytes, {}", self.oplog_batch_max_bytes);
            return refuse("oplog_waiting_max_bytes", &self.oplog_waiting_max_bytes, allowed);
        }
        if self.oplog_max_seal_delay > Self::MAX_SEAL_DELAY {
            let allowed = format!("to at most {:?}", Self::MAX_SEAL_DELAY);
            return refuse("oplog_max_seal_delay", &self.oplog_max_seal_delay, allowed);
        }
        if self.oplog_retry_min.is_zero() {
            return refuse(
                "oplog_retry_min",
                &self.oplog_retry_min,
                "above zero, or a failing store is flooded".into(),
            );
        }
        if self.oplog_retry_max < self.oplog_retry_min {
            let allowed = format!("to at least oplog_retry_min, {:?}", self.oplog_retry_min);
            return refuse("oplog_retry_max", &self.oplog_retry_max, allowed);
        }
        if self.oplog_retry_budget.is_some_and(|b| b.is_zero()) {
            return refuse(
                "oplog_retry_budget",
                &Duration::ZERO,
                "above zero, or leave it out to retry for ever".into(),
            );
        }
        Ok(())
    }

    /// What the settings make of a body, or one sentence that this build cannot.
    pub(super) fn compressor(&self) -> Result<BatchCompressor, String> {
        let compressor = BatchCompressor::new(self.oplog_batch_compression, self.oplog_batch_compress_min_bytes);
        compressor.map_err(|e| format!("oplog_batch_compression is {}; {e}", self.oplog_batch_compression))
    }

    /// Checks the settings against a log that was opened.
    ///
    /// # Errors
    /// As [`Self::validate_for`], and one sentence if the log was opened for smaller batches.
    pub fn validate_for_log(&self, log: &BatchStorage) -> Result<(), String> {
        self.validate_for(&log.kv().capabilities(), log.keys())?;
        if self.oplog_batch_max_bytes > log.max_batch_bytes() {
            return Err(format!(
                "oplog_batch_max_bytes is {}; the log was opened for batches of at most {} bytes, so open it for more",
                self.oplog_batch_max_bytes,
                log.max_batch_bytes()
            ));
        }
        Ok(())
    }

    /// Checks the settings against the store that will hold the log under `keys`.
    ///
    /// # Errors
    /// As [`Self::validate`], and one sentence if the store has no transactions or a full batch could not be sent to it.
    pub fn validate_for(&self, store: &Capabilities, keys: &LogKeys) -> Result<(), String> {
        self.validate()?;
        if !store.txn {
            return Err(format!("the {} backend has no transactions; the log needs a backend that has", store.backend));
        }
        if store.max_txn_ops < 2 {
            return Err(format!(
                "the {} backend takes {} operations in a transaction; the log needs one with 2",
                store.backend, store.max_txn_ops
            ));
        }
        let keys_bytes = 2 * keys.durable_prefix().len() + keys.batch(BatchId::ZERO).len();
        let around = keys_bytes + 2 * DurablePrefix::MAX_BYTES;
        let most = store.max_value_bytes.min(store.max_txn_bytes.saturating_sub(around));
        if self.oplog_batch_max_bytes > most {
            return Err(format!(
                "oplog_batch_max_bytes is {}; the {} backend takes batches of at most {most} bytes, so set it to that or less",
                self.oplog_batch_max_bytes, store.backend
            ));
        }
        Ok(())
    }
}

/// What the writer is given instead of reaching for it.
#[derive(Clone, Debug)]
pub struct WriterEnv {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Jitter.
    pub entropy: Arc<dyn Entropy>,
}

#[cfg(test)]
mod tests {
    use ha_types::ClusterId;

    use super::*;

    fn store(max_txn_bytes: usize) -> Capabilities {
        Capabilities { max_txn_bytes, ..ha_kv::Kv::capabilities(&ha_kv::MemoryKv::new()) }
    }

    fn keys() -> LogKeys {
        LogKeys::new(LogKeys::DEFAULT_ROOT, &ClusterId::new("c").expect("an id")).expect("a root")
    }

    #[test]
    fn the_default_is_valid() {
        assert_eq!(WriterConfig::default().validate_for(&store(64 << 20), &keys()), Ok(()));
    }

    #[test]
    fn each_bad_setting_is_refused_by_name_in_one_sentence() {
        let ok = WriterConfig::default();
        let ms = Duration::from_millis;
        let bad = [
            ("oplog_batch_max_entries", WriterConfig { oplog_batch_max_entries: 0, ..ok.clone() }),
            ("oplog_batch_max_entries", WriterConfig { oplog_batch_max_entries: usize::MAX, ..ok.clone() }),
            ("oplog_batch_max_bytes", WriterConfig { oplog_batch_max_bytes: 0, ..ok.clone() }),
            ("oplog_batch_max_bytes", WriterConfig { oplog_batch_max_bytes: usize::MAX, ..ok.clone() }),
            ("oplog_waiting_max_bytes", WriterConfig { oplog_waiting_max_bytes: 1, ..ok.clone() }),
            ("oplog_max_seal_delay", WriterConfig { oplog_max_seal_delay: ms(1001), ..ok.clone() }),
            ("oplog_retry_min", WriterConfig { oplog_retry_min: ms(0), ..ok.clone() }),
            ("oplog_retry_max", WriterConfig { oplog_retry_min: ms(2), oplog_retry_max: ms(1), ..ok.clone() }),
            ("oplog_retry_budget", WriterConfig { oplog_retry_budget: Some(ms(0)), ..ok.clone() }),
        ];
        for (setting, config) in bad {
            let sentence = config.validate().expect_err(setting);
            assert!(sentence.starts_with(setting), "{sentence}");
        }
    }

    #[test]
    fn compression_is_refused_exactly_where_it_is_not_built_in() {
        let config = WriterConfig { oplog_batch_compression: BatchCompression::Zstd, ..WriterConfig::default() };
        match config.validate() {
            Ok(()) => assert!(BatchCompression::Zstd.is_built_in()),
            Err(sentence) => {
                assert!(!BatchCompression::Zstd.is_built_in());
                assert!(sentence.starts_with("oplog_batch_compression is zstd"), "{sentence}");
                assert!(sentence.contains("feature `zstd`"), "{sentence}");
            }
        }
        for word in ["off", "zstd"] {
            assert_eq!(word.parse::<BatchCompression>().map(BatchCompression::name), Ok(word));
        }
        assert!("gzip".parse::<BatchCompression>().expect_err("no such").to_string().contains("\"gzip\""));
    }

    #[test]
    fn a_batch_above_what_the_store_takes_is_refused_with_its_limit() {
        let config = WriterConfig::default();
        let exactly = (1 << 20) + 2 * keys().durable_prefix().len() + keys().batch(BatchId::ZERO).len() + 288;
        assert_eq!(config.validate_for(&store(exactly), &keys()), Ok(()));
        let sentence = config.validate_for(&store(exactly - 1), &keys()).expect_err("one byte too small");
        assert!(sentence.contains("at most 1048575 bytes"), "{sentence}");
        let no_txn = Capabilities { txn: false, ..store(64 << 20) };
        assert!(config.validate_for(&no_txn, &keys()).expect_err("no txn").contains("no transactions"));
        let one_op = Capabilities { max_txn_ops: 1, ..store(64 << 20) };
        assert!(config.validate_for(&one_op, &keys()).is_err());
    }
}
