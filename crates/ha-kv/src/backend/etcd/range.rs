//! Owns range reads: pages bounded by bytes although etcd can bound them by pairs only.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use etcd_client::{GetOptions, GetResponse};

use super::EtcdKv;
use super::error::Access;
use super::pool::Reply;
use crate::{KvError, KvErrorKind, KvPair, RangeLimit, RangePage};

/// Assumed size of a pair before one was seen.
const FIRST_PAIR_BYTES: usize = 256 << 10;
/// Most pairs asked for at once, however small they are.
const MAX_PAIRS_PER_REQUEST: usize = 16 << 10;

/// How large pairs were when last read: how many to ask for at first. It saves requests and decides nothing else.
#[derive(Debug)]
pub(super) struct PairSize(AtomicUsize);

impl Default for PairSize {
    fn default() -> Self {
        Self(AtomicUsize::new(FIRST_PAIR_BYTES))
    }
}

impl PairSize {
    fn pairs_in(&self, bytes: usize) -> usize {
        (bytes / self.0.load(Ordering::Relaxed).max(1)).clamp(1, MAX_PAIRS_PER_REQUEST)
    }

    fn learn(&self, pairs: &[KvPair]) {
        if !pairs.is_empty() {
            let bytes: usize = pairs.iter().map(size).sum();
            self.0.store(bytes.div_ceil(pairs.len()).max(1), Ordering::Relaxed);
        }
    }
}

fn size(pair: &KvPair) -> usize {
    pair.key.len() + pair.value.len()
}

/// A page in the making.
struct Page {
    pairs: Vec<KvPair>,
    bytes: usize,
    /// The store's revision that the first piece was read at; the other pieces are read at the same one.
    revision: Option<i64>,
}

impl EtcdKv {
    /// Reads pieces until a limit is reached. Every piece is of one revision, so the page is a view of one instant.
    pub(super) async fn read_page(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let byte_limit = limit.bytes.min(self.pool.options().max_reply_bytes).max(1);
        let mut page = Page { pairs: Vec::new(), bytes: 0, revision: None };
        let mut from = start.to_vec();
        let mut at_most = MAX_PAIRS_PER_REQUEST;
        loop {
            let room = limit.pairs.max(1) - page.pairs.len();
            let want = self.pair_size.pairs_in(byte_limit - page.bytes).min(room).min(at_most);
            let more = match self.read_piece(&from, end, want, page.revision).await {
                Ok(piece) => take(&mut page, piece, &self.pair_size, byte_limit),
                Err(e) if e.kind == KvErrorKind::TooLarge && want > 1 => {
                    at_most = want / 2;
                    continue;
                }
                // What was read already is a page that ends at a byte limit; the next one begins with the large pair.
                Err(e) if e.kind == KvErrorKind::TooLarge && !page.pairs.is_empty() => {
                    return Ok(RangePage { pairs: page.pairs, more: true });
                }
                Err(e) if e.kind == KvErrorKind::TooLarge => return Err(self.name_large_pair(&from, end, e).await),
                Err(e) => return Err(e.with_key(&from)),
            };
            let full = page.pairs.len() >= limit.pairs.max(1) || page.bytes >= byte_limit;
            match page.pairs.last() {
                Some(last) if more && !full => from = successor(&last.key),
                _ => return Ok(RangePage { pairs: page.pairs, more }),
            }
        }
    }

    async fn read_piece(
        &self,
        from: &[u8],
        end: &[u8],
        pairs: usize,
        revision: Option<i64>,
    ) -> Result<GetResponse, KvError> {
        let limit = i64::try_from(pairs).unwrap_or(i64::MAX);
        let options = GetOptions::new().with_range(end).with_limit(limit).with_revision(revision.unwrap_or(0));
        self.read(from, options).await
    }

    async fn read(&self, from: &[u8], options: GetOptions) -> Result<GetResponse, KvError> {
        let from = from.to_vec();
        let call = self.pool.call(Access::Read, |member| {
            let mut kv = member.kv(self.pool.options());
            async move {
                let reply = kv.get(from, Some(options)).await?;
                Ok(Reply::new(reply.header().cloned().as_ref(), reply))
            }
        });
        call.await
    }

    /// The error of a pair that no reply can hold, with its key if the store still says which it is.
    async fn name_large_pair(&self, from: &[u8], end: &[u8], error: KvError) -> KvError {
        let keys = GetOptions::new().with_range(end).with_limit(1).with_keys_only();
        let key = match self.read(from, keys).await {
            Ok(reply) => reply.kvs().first().map(|pair| pair.key().to_vec()),
            Err(_) => None,
        };
        error.with_key(key.as_deref().unwrap_or(from))
    }
}

/// Adds a piece to the page; whether the range goes on after the page.
fn take(page: &mut Page, mut piece: GetResponse, pair_size: &PairSize, byte_limit: usize) -> bool {
    page.revision = page.revision.or(piece.header().map(etcd_client::ResponseHeader::revision));
    let goes_on = piece.more();
    let pairs: Vec<KvPair> = piece
        .take_kvs()
        .into_iter()
        .map(|pair| {
            let (key, value) = pair.into_key_value();
            KvPair { key: Bytes::from(key), value: Bytes::from(value) }
        })
        .collect();
    pair_size.learn(&pairs);
    let mut pairs = pairs.into_iter();
    for pair in pairs.by_ref() {
        page.bytes += size(&pair);
        page.pairs.push(pair);
        if page.bytes >= byte_limit {
            break;
        }
    }
    goes_on || pairs.next().is_some()
}

/// The first key after `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}
