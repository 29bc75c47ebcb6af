//! Owns how large the log is, counted a piece at a time.

use ha_kv::RangeLimit;
use ha_types::BatchId;

use super::BatchStorage;
use crate::{DurablePrefix, LogError};

/// The size of the log's batch records up to one batch, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogSize {
    /// The last batch counted.
    pub through: BatchId,
    /// How many batch records were counted.
    pub batches: u64,
    /// Their values' bytes together.
    pub bytes: u64,
}

impl LogSize {
    /// The size with one more record, which a writer or a reader has at hand anyway.
    #[must_use]
    pub fn with(self, id: BatchId, record_bytes: usize) -> Self {
        Self { through: id, batches: self.batches + 1, bytes: self.bytes + record_bytes as u64 }
    }
}

impl BatchStorage {
    /// Counts on from `counted` through `prefix`, in pages of at most `page_bytes`; start from the default. It reads every record
    /// it counts, so a caller keeps what it got and pays for a record once.
    ///
    /// # Errors
    /// As [`Self::read_batches`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn log_size(
        &self,
        counted: LogSize,
        prefix: &DurablePrefix,
        page_bytes: usize,
    ) -> Result<LogSize, LogError> {
        let mut size = counted;
        let limit = RangeLimit { pairs: usize::MAX, bytes: page_bytes };
        loop {
            let page = self.read_batches(size.through, prefix.batch_id, limit).await?;
            size = page.records.iter().fold(size, |size, (id, record)| size.with(*id, record.len()));
            if !page.more || page.records.is_empty() {
                return Ok(LogSize { through: size.through.max(prefix.batch_id), ..size });
            }
        }
    }
}
