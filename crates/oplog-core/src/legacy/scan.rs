//! Owns a scan over legacy entries, page by page. What lies between them and is none is passed over, never decoded.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{KvPair, RangeLimit, TxnKv};
use ha_types::Seq;

use super::log::after;
use crate::storage::read_page;
use crate::{LogError, LogKeys};

/// The entries of a range in order. Sequences may have gaps: whoever follows checks them.
#[derive(Debug)]
pub struct LegacyScan {
    kv: Arc<dyn TxnKv>,
    keys: LogKeys,
    /// What is left: the first key, and the key after the last.
    rest: Option<(Bytes, Bytes)>,
    limit: RangeLimit,
}

impl LegacyScan {
    pub(super) fn new(kv: Arc<dyn TxnKv>, keys: LogKeys, after: Seq, through: Seq, page_bytes: usize) -> Self {
        let rest = (after < through).then(|| keys.legacy_range(after, through));
        Self { kv, keys, rest, limit: RangeLimit { pairs: usize::MAX, bytes: page_bytes } }
    }

    pub(super) fn one_at_a_time(mut self) -> Self {
        self.limit.pairs = 1;
        self
    }

    /// The next entries, undecoded: at least one, or none at the end of the range.
    ///
    /// # Errors
    /// [`LogError::Store`]; the next call reads the same page again.
    ///
    /// # Cancel safety
    /// Safe: a dropped call has taken nothing.
    pub async fn next_page(&mut self) -> Result<Vec<(Seq, Bytes)>, LogError> {
        while let Some(pairs) = self.read().await? {
            let seq = |pair: KvPair| Some((self.keys.legacy_seq(&pair.key)?, pair.value));
            let entries: Vec<_> = pairs.into_iter().filter_map(seq).collect();
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        Ok(Vec::new())
    }

    /// The next stretches of entries with nothing else between them, as first and last key; none at the end of the range.
    pub(super) async fn next_runs(&mut self) -> Result<Vec<(Bytes, Bytes)>, LogError> {
        while let Some(pairs) = self.read().await? {
            let runs = pairs.split(|pair| self.keys.legacy_seq(&pair.key).is_none());
            let ends = |run: &[KvPair]| Some((run.first()?.key.clone(), run.last()?.key.clone()));
            let runs: Vec<_> = runs.filter_map(ends).collect();
            if !runs.is_empty() {
                return Ok(runs);
            }
        }
        Ok(Vec::new())
    }

    async fn read(&mut self) -> Result<Option<Vec<KvPair>>, LogError> {
        let Some((start, end)) = &self.rest else { return Ok(None) };
        let page = read_page(&*self.kv, start, end, self.limit).await?;
        self.rest = match page.pairs.last() {
            Some(last) if page.more => Some((after(&last.key), end.clone())),
            _ => None,
        };
        Ok((!page.pairs.is_empty()).then_some(page.pairs))
    }
}
