//! Owns a store that lies in one chosen read, and counts what was read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use ha_kv::test_kit::Detour;
use ha_kv::{Capabilities, KvError, KvErrorKind, KvPair, RangeLimit, RangePage, TxnKv};
use parking_lot::Mutex;

/// What becomes of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It fails.
    Fail(KvErrorKind),
    /// One bit of the value, or of the first value of the page, is another.
    Flip,
    /// The key is absent, the page empty and at its end.
    Absent,
    /// The page ends after its first pair and says that nothing follows.
    Short,
    /// The page lacks its first pair.
    Hole,
    /// The first answer about this key, again.
    Stale,
}

/// Decides for each read, by its number from 0 and its first key.
type Choose = Box<dyn Fn(u64, &[u8]) -> Option<Lie> + Send + Sync>;

/// What the value of one pair of a page becomes, by the page's first key.
type Rewrite = Box<dyn FnMut(&[u8], &KvPair) -> Option<Bytes> + Send + Sync>;

/// A store with lies.
pub struct TamperKv {
    inner: Arc<dyn TxnKv>,
    choose: Mutex<Choose>,
    rewrite: Mutex<Rewrite>,
    reads: AtomicU64,
    keys: AtomicU64,
    told: AtomicU64,
    too_large: AtomicU64,
    largest: AtomicUsize,
    first: Mutex<BTreeMap<Vec<u8>, Option<Bytes>>>,
    reply_limit: usize,
}

impl std::fmt::Debug for TamperKv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TamperKv").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl TamperKv {
    pub fn new(inner: Arc<dyn TxnKv>) -> Arc<Self> {
        Self::with_reply_limit(inner, usize::MAX)
    }

    /// Fails every reply above `reply_limit` bytes, as a server does.
    pub fn with_reply_limit(inner: Arc<dyn TxnKv>, reply_limit: usize) -> Arc<Self> {
        Arc::new(Self {
            inner,
            choose: Mutex::new(Box::new(|_, _| None)),
            rewrite: Mutex::new(Box::new(|_, _| None)),
            reads: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            told: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
            largest: AtomicUsize::new(0),
            first: Mutex::default(),
            reply_limit,
        })
    }

    pub fn choose(&self, choose: impl Fn(u64, &[u8]) -> Option<Lie> + Send + Sync + 'static) {
        *self.choose.lock() = Box::new(choose);
    }

    /// Lies in read number `at` only, counted from now.
    pub fn lie_once(&self, at: u64, lie: Lie) {
        let at = self.reads() + at;
        self.choose(move |n, _| (n == at).then_some(lie));
    }

    /// Gives other values in pages, beside the lies about whole reads.
    pub fn rewrite(&self, rewrite: impl FnMut(&[u8], &KvPair) -> Option<Bytes> + Send + Sync + 'static) {
        *self.rewrite.lock() = Box::new(rewrite);
    }

    pub fn truth(&self) {
        self.choose(|_, _| None);
    }

    /// Requests.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// Keys that were read: asked for, or in a page.
    pub fn keys_read(&self) -> u64 {
        self.keys.load(Ordering::SeqCst)
    }

    /// Lies that made a difference.
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }

    /// Replies that were asked for and were above the reply limit.
    pub fn too_large(&self) -> u64 {
        self.too_large.load(Ordering::SeqCst)
    }

    /// The bytes of the largest page since this was asked last.
    pub fn take_largest_page(&self) -> usize {
        self.largest.swap(0, Ordering::SeqCst)
    }

    fn next(&self, key: &[u8]) -> Result<Option<Lie>, KvError> {
        let n = self.reads.fetch_add(1, Ordering::SeqCst);
        match (self.choose.lock())(n, key) {
            Some(Lie::Fail(kind)) => {
                self.told.fetch_add(1, Ordering::SeqCst);
                Err(KvError::read(kind, "told to fail").with_key(key))
            }
            lie => Ok(lie),
        }
    }

    fn tell<T: PartialEq>(&self, truth: &T, told: T) -> T {
        if *truth != told {
            self.told.fetch_add(1, Ordering::SeqCst);
        }
        told
    }
}

fn flipped(value: &Bytes) -> Bytes {
    let mut value = value.to_vec();
    let at = value.len() / 2;
    if let Some(byte) = value.get_mut(at) {
        *byte ^= 0x10;
    }
    value.into()
}

#[async_trait]
impl Detour for TamperKv {
    fn store(&self) -> &dyn TxnKv {
        &*self.inner
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        let lie = self.next(key)?;
        self.keys.fetch_add(1, Ordering::SeqCst);
        let truth = self.store().get(key).await?;
        let first = self.first.lock().entry(key.to_vec()).or_insert_with(|| truth.clone()).clone();
        Ok(match lie {
            Some(Lie::Flip) => self.tell(&truth, truth.as_ref().map(flipped)),
            Some(Lie::Absent) => self.tell(&truth, None),
            Some(Lie::Stale) => self.tell(&truth, first),
            _ => truth,
        })
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let lie = self.next(start)?;
        let truth = self.store().range(start, end, limit).await?;
        let bytes: usize = truth.pairs.iter().map(|p| p.key.len() + p.value.len()).sum();
        self.largest.fetch_max(bytes, Ordering::SeqCst);
        if bytes > self.reply_limit {
            self.too_large.fetch_add(1, Ordering::SeqCst);
            return Err(KvError::read(KvErrorKind::TooLarge, format!("a reply of {bytes} bytes")));
        }
        self.keys.fetch_add(truth.pairs.len() as u64, Ordering::SeqCst);
        let mut told = truth.clone();
        for pair in &mut told.pairs {
            if let Some(value) = (self.rewrite.lock())(start, pair) {
                pair.value = value;
            }
        }
        match lie {
            Some(Lie::Flip) => {
                if let Some(pair) = told.pairs.first_mut() {
                    *pair = KvPair { key: pair.key.clone(), value: flipped(&pair.value) };
                }
            }
            Some(Lie::Absent) => told = RangePage::default(),
            Some(Lie::Short) => {
                told.pairs.truncate(1);
                told.more = false;
            }
            Some(Lie::Hole) if !told.pairs.is_empty() => drop(told.pairs.remove(0)),
            _ => {}
        }
        Ok(self.tell(&truth, told))
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.store().capabilities();
        Capabilities { max_reply_bytes: inner.max_reply_bytes.min(self.reply_limit), ..inner }
    }
}
