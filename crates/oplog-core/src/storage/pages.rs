//! Owns range reads of batch records, paged by bytes.

use bytes::Bytes;
use ha_kv::{KvError, KvErrorKind, RangeLimit, RangePage, TxnKv};
use ha_types::BatchId;

use super::BatchStorage;
use crate::{FaultKind, LogError, LogKey, ReplayFault};

/// Raw batch records in order.
#[derive(Clone, Debug, Default)]
pub struct BatchPage {
    /// Id by key, and bytes.
    pub records: Vec<(BatchId, Bytes)>,
    /// Whether the range goes on after the last record.
    pub more: bool,
}

impl BatchPage {
    /// The records' bytes together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.records.iter().map(|(_, record)| record.len()).sum()
    }
}

/// No page asks for more records than this, however small they are.
const MAX_PAGE_PAIRS: usize = 1024;

impl BatchStorage {
    /// Raw records with `after < id <= through`, in order, within `limit` and within what the store can answer at once. A page
    /// holds at least one record if there is one. Ids may have gaps: whoever follows checks them.
    ///
    /// # Errors
    /// [`LogError::Store`], or [`LogError::Fault`] for a key among the batches that names no batch.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn read_batches(
        &self,
        after: BatchId,
        through: BatchId,
        limit: RangeLimit,
    ) -> Result<BatchPage, LogError> {
        if through <= after {
            return Ok(BatchPage::default());
        }
        let (start, end) = self.keys.batch_range(after, through);
        let page = read_page(&*self.kv, &start, &end, limit).await?;
        let mut records = Vec::with_capacity(page.pairs.len());
        for pair in page.pairs {
            match self.keys.classify(&pair.key) {
                LogKey::Batch(id) if after < id && id <= through => records.push((id, pair.value)),
                _ => {
                    let expected = "only batch records, each under 20 decimal digits";
                    return Err(ReplayFault::new(FaultKind::StrayKey, &pair.key, expected, "this key").into());
                }
            }
        }
        Ok(BatchPage { records, more: page.more })
    }
}

/// One page of `start <= key < end` within `limit` and within what the store can answer at once.
pub(crate) async fn read_page(
    kv: &dyn TxnKv,
    start: &[u8],
    end: &[u8],
    limit: RangeLimit,
) -> Result<RangePage, KvError> {
    let store = kv.capabilities();
    // A page ends after the pair that reaches the limit, so a large value must still fit behind it.
    let room = store.max_reply_bytes.saturating_sub(store.max_value_bytes).max(store.max_reply_bytes / 2);
    let mut limit = RangeLimit { pairs: limit.pairs.clamp(1, MAX_PAGE_PAIRS), bytes: limit.bytes.min(room) };
    loop {
        match kv.range(start, end, limit).await {
            Err(e) if e.kind == KvErrorKind::TooLarge && limit.pairs > 1 => limit.pairs /= 2,
            answer => return answer,
        }
    }
}
