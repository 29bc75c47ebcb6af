//! Owns the decoded batches of a range one after the other, for whoever looks at a log without following it.

use std::collections::VecDeque;

use bytes::Bytes;
use ha_kv::RangeLimit;
use ha_types::BatchId;

use super::BatchStorage;
use crate::record::BatchRecord;
use crate::{FaultKind, LogError, ReplayFault};

/// The records of a range in order, read page by page. It checks each record, and no chain: an inspection shows a broken log
/// too.
#[derive(Debug)]
pub struct Records {
    storage: BatchStorage,
    after: BatchId,
    at: BatchId,
    through: BatchId,
    page_bytes: usize,
    page: VecDeque<(BatchId, Bytes)>,
    more: bool,
}

impl BatchStorage {
    /// The records with `after < id <= through`, in pages of at most `page_bytes`.
    #[must_use]
    pub fn records(&self, after: BatchId, through: BatchId, page_bytes: usize) -> Records {
        Records { storage: self.clone(), after, at: after, through, page_bytes, page: VecDeque::new(), more: true }
    }
}

impl Records {
    /// The batch whose record the last call of [`Self::next`] took, whether or not that could be decoded.
    #[must_use]
    pub fn at(&self) -> BatchId {
        self.at
    }

    /// The next record, `None` after the last. After a record that cannot be decoded the next call goes on behind it.
    ///
    /// # Errors
    /// [`LogError`]; a record that cannot be decoded is named by its key.
    ///
    /// # Cancel safety
    /// Safe: a dropped call has taken nothing.
    pub async fn next(&mut self) -> Result<Option<(BatchId, BatchRecord)>, LogError> {
        if self.page.is_empty() && self.more {
            let limit = RangeLimit { pairs: usize::MAX, bytes: self.page_bytes };
            let page = self.storage.read_batches(self.after, self.through, limit).await?;
            self.more = page.more;
            self.after = page.records.last().map_or(self.after, |(id, _)| *id);
            self.page = page.records.into();
        }
        let Some((id, bytes)) = self.page.pop_front() else { return Ok(None) };
        self.at = id;
        let key = self.storage.keys().batch(id);
        let record = BatchRecord::decode(bytes).map_err(|e| ReplayFault::batch_undecodable(&key, &e))?;
        if record.header().batch_id != id {
            let found = format!("the record of batch {}", record.header().batch_id);
            let expected = format!("the record of batch {id}");
            return Err(ReplayFault::new(FaultKind::WrongBatchId, &key, expected, found).into());
        }
        Ok(Some((id, record)))
    }
}
