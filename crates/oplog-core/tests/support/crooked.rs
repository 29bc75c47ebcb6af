//! Owns a store that answers reads with what a test makes of the answer: empty pages, old values, broken bytes.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use ha_kv::test_kit::Detour;
use ha_kv::{Capabilities, KvError, RangeLimit, RangePage, TxnKv};
use parking_lot::Mutex;

type BendGet = Box<dyn FnMut(&[u8], Option<Bytes>) -> Option<Bytes> + Send>;
type BendRange = Box<dyn FnMut(&[u8], RangePage) -> RangePage + Send>;

pub(crate) struct Crooked {
    store: Arc<dyn TxnKv>,
    get: Mutex<Option<BendGet>>,
    range: Mutex<Option<BendRange>>,
    reads: Mutex<Vec<Bytes>>,
    declared: Mutex<Option<Capabilities>>,
}

impl Crooked {
    pub(crate) fn new(store: Arc<dyn TxnKv>) -> Arc<Self> {
        let (get, range, reads, declared) = Default::default();
        Arc::new(Self { store, get, range, reads, declared })
    }

    pub(crate) fn bend_get(&self, bend: impl FnMut(&[u8], Option<Bytes>) -> Option<Bytes> + Send + 'static) {
        *self.get.lock() = Some(Box::new(bend));
    }

    pub(crate) fn bend_range(&self, bend: impl FnMut(&[u8], RangePage) -> RangePage + Send + 'static) {
        *self.range.lock() = Some(Box::new(bend));
    }

    pub(crate) fn straighten(&self) {
        *self.get.lock() = None;
        *self.range.lock() = None;
    }

    pub(crate) fn declare(&self, capabilities: Capabilities) {
        *self.declared.lock() = Some(capabilities);
    }

    /// The keys whose values were answered, since the last call.
    pub(crate) fn take_reads(&self) -> Vec<Bytes> {
        std::mem::take(&mut self.reads.lock())
    }
}

#[async_trait]
impl Detour for Crooked {
    fn store(&self) -> &dyn TxnKv {
        &*self.store
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        let answer = self.store().get(key).await?;
        self.reads.lock().push(Bytes::copy_from_slice(key));
        Ok(match &mut *self.get.lock() {
            Some(bend) => bend(key, answer),
            None => answer,
        })
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let page = self.store().range(start, end, limit).await?;
        self.reads.lock().extend(page.pairs.iter().map(|pair| pair.key.clone()));
        Ok(match &mut *self.range.lock() {
            Some(bend) => bend(start, page),
            None => page,
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.declared.lock().clone().unwrap_or_else(|| self.store().capabilities())
    }
}

impl fmt::Debug for Crooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crooked").field("store", &self.store).finish_non_exhaustive()
    }
}
