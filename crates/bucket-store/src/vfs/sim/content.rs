//! Owns the bytes of a simulated file: pages that many images share until one of them writes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// What a disk writes as a whole, in bytes: the smallest piece that survives a power loss or does not.
pub const UNIT: u64 = 512;
/// A block, in bytes: what room is counted in.
pub const BLOCK: u64 = 4096;

/// One block with its hash, which is worked out once for all images that share it.
#[derive(Clone)]
pub(super) struct Page {
    bytes: [u8; BLOCK as usize],
    hash: OnceLock<u64>,
}

impl Page {
    fn zero() -> Arc<Self> {
        static ZERO: OnceLock<Arc<Page>> = OnceLock::new();
        Arc::clone(ZERO.get_or_init(|| Arc::new(Self { bytes: [0; BLOCK as usize], hash: OnceLock::new() })))
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            self.bytes.hash(&mut hasher);
            hasher.finish()
        })
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.hash = OnceLock::new();
    }
}

/// The content of a file. A clone costs one counter. `None` is a hole: it reads as zeros and takes no room.
#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    pages: Arc<Vec<Option<Arc<Page>>>>,
}

impl Content {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.write(0, bytes);
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let end = self.len.min(offset.saturating_add(buf.len() as u64));
        let mut at = offset;
        while at < end {
            let within = (at % BLOCK) as usize;
            let some = (end - at).min(BLOCK - within as u64) as usize;
            let to = &mut buf[(at - offset) as usize..][..some];
            match self.page(at / BLOCK) {
                Some(page) => to.copy_from_slice(&page.bytes[within..within + some]),
                None => to.fill(0),
            }
            at += some as u64;
        }
        end.saturating_sub(offset) as usize
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(&mut bytes, 0);
        bytes
    }

    /// Writes `bytes`, and lets the file reach to their end at least.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let within = (at % BLOCK) as usize;
            let some = (bytes.len() - done).min(BLOCK as usize - within);
            self.page_mut(at / BLOCK).write(within, &bytes[done..done + some]);
            done += some;
        }
        self.reach(offset + bytes.len() as u64);
    }

    /// Takes over the one unit `unit` of `page`, and lets the file reach to `end` at least.
    pub(super) fn write_unit(&mut self, unit: u64, page: &Page, end: u64) {
        let within = (unit * UNIT % BLOCK) as usize;
        self.page_mut(unit * UNIT / BLOCK).write(within, &page.bytes[within..within + UNIT as usize]);
        self.reach(end);
    }

    /// Makes the file at least `len` bytes long.
    pub(super) fn reach(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// Gives the first `len` bytes blocks of their own.
    pub(super) fn allocate(&mut self, len: u64) {
        for index in 0..len.div_ceil(BLOCK) {
            if self.page(index).is_none() {
                *self.slot(index) = Some(Page::zero());
            }
        }
        self.reach(len);
    }

    /// How many blocks `[offset, end)` lacks.
    pub(super) fn missing_blocks(&self, offset: u64, end: u64) -> u64 {
        (offset / BLOCK..end.div_ceil(BLOCK)).filter(|index| self.page(*index).is_none()).count() as u64
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        self.pages.iter().flatten().count() as u64 * BLOCK
    }

    /// The page that `unit` lies in, as it is now.
    pub(super) fn page_of_unit(&self, unit: u64) -> Arc<Page> {
        self.page(unit * UNIT / BLOCK).map_or_else(Page::zero, Arc::clone)
    }

    fn page(&self, index: u64) -> Option<&Arc<Page>> {
        self.pages.get(index as usize)?.as_ref()
    }

    fn page_mut(&mut self, index: u64) -> &mut Page {
        Arc::make_mut(self.slot(index).get_or_insert_with(Page::zero))
    }

    fn slot(&mut self, index: u64) -> &mut Option<Arc<Page>> {
        let pages = Arc::make_mut(&mut self.pages);
        if pages.len() <= index as usize {
            pages.resize(index as usize + 1, None);
        }
        &mut pages[index as usize]
    }

    fn page_hashes(&self) -> impl Iterator<Item = u64> {
        (0..self.len.div_ceil(BLOCK)).map(|index| self.page(index).map_or_else(|| Page::zero().hash(), |p| p.hash()))
    }
}

/// By what can be read: length and bytes.
impl Hash for Content {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.page_hashes().for_each(|hash| hash.hash(state));
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        let same = |index| match (self.page(index), other.page(index)) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs) || mine.bytes == theirs.bytes,
            (Some(page), None) | (None, Some(page)) => page.bytes.iter().all(|byte| *byte == 0),
            (None, None) => true,
        };
        self.len == other.len && (0..self.len.div_ceil(BLOCK)).all(same)
    }
}

impl Eq for Content {}
