//! Owns the last entries in memory, for a reader that is only a little behind (RFC hot standby §3.1). It is bounded and reads no store.

use std::collections::VecDeque;
use std::sync::Arc;

use ha_types::Seq;

use super::LegacyEntry;

/// The end of the log in memory: the last entries, in order and without a hole.
#[derive(Debug)]
pub struct TailBuffer {
    entries: VecDeque<Arc<LegacyEntry>>,
    /// The last entry ever pushed.
    last: Seq,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
}

/// The entries asked for are no longer, or not yet, in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "entries after {since} are not all in memory, which holds those after {oldest} up to {last}; read them from the store"
)]
pub struct TailMiss {
    /// After which entry the reader asked.
    pub since: Seq,
    /// The entry before the oldest in memory.
    pub oldest: Seq,
    /// The newest.
    pub last: Seq,
}

/// What an entry costs beside its text and payload, in bytes.
const OVERHEAD: usize = std::mem::size_of::<LegacyEntry>() + 16;

impl TailBuffer {
    /// How many entries a reader is given at most unless it says otherwise.
    pub const DEFAULT_LIMIT: usize = 1000;

    /// An empty buffer behind the entry `last`, which keeps at most so many entries and about so many bytes.
    #[must_use]
    pub fn new(last: Seq, max_entries: usize, max_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), last, bytes: 0, max_entries, max_bytes }
    }

    /// Appends the next entry and drops the oldest as far as the bounds ask for it.
    ///
    /// # Panics
    /// If it is not the next one.
    pub fn push(&mut self, entry: Arc<LegacyEntry>) {
        assert_eq!(self.last.next(), Some(entry.seq), "the tail goes on without a hole");
        self.last = entry.seq;
        self.bytes += cost(&entry);
        self.entries.push_back(entry);
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= cost(&oldest);
        }
    }

    /// The entries after `since`, at most `limit`: none if `since` is the last.
    ///
    /// # Errors
    /// [`TailMiss`] if the first of them is not in memory, or `since` is ahead of it.
    pub fn entries_since(&self, since: Seq, limit: usize) -> Result<Vec<Arc<LegacyEntry>>, TailMiss> {
        let held = self.entries.len() as u64;
        let oldest = Seq::new(self.last.get() - held);
        match since.get().checked_sub(oldest.get()) {
            Some(skip) if skip <= held => {
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                Ok(self.entries.iter().skip(skip).take(limit).cloned().collect())
            }
            _ => Err(TailMiss { since, oldest, last: self.last }),
        }
    }

    /// The newest entry it has seen.
    #[must_use]
    pub fn last(&self) -> Seq {
        self.last
    }
}

fn cost(entry: &LegacyEntry) -> usize {
    OVERHEAD + entry.tenant.len() + entry.key.len() + entry.payload.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, payload: usize) -> Arc<LegacyEntry> {
        Arc::new(LegacyEntry {
            seq: Seq::new(seq),
            timestamp_ms: 0,
            op_type: 1,
            tenant: "default".into(),
            key: "k".into(),
            payload: vec![0; payload].into(),
            key_sequence_id: None,
        })
    }

    fn seqs(tail: &TailBuffer, since: u64, limit: usize) -> Result<Vec<u64>, TailMiss> {
        Ok(tail.entries_since(Seq::new(since), limit)?.iter().map(|entry| entry.seq.get()).collect())
    }

    #[test]
    fn entries_since_gives_what_comes_after_up_to_the_limit() {
        let mut tail = TailBuffer::new(Seq::new(10), 100, usize::MAX);
        assert_eq!(seqs(&tail, 10, 5), Ok(vec![]));
        (11..=15).for_each(|seq| tail.push(entry(seq, 1)));
        assert_eq!(seqs(&tail, 10, 1000), Ok(vec![11, 12, 13, 14, 15]));
        assert_eq!(seqs(&tail, 12, 2), Ok(vec![13, 14]));
        assert_eq!(seqs(&tail, 15, 2), Ok(vec![]));
        assert_eq!(seqs(&tail, 12, 0), Ok(vec![]));
    }

    #[test]
    fn what_is_not_in_memory_is_a_miss_and_never_an_empty_answer() {
        let mut tail = TailBuffer::new(Seq::ZERO, 3, usize::MAX);
        (1..=9).for_each(|seq| tail.push(entry(seq, 1)));
        assert_eq!(seqs(&tail, 6, 10), Ok(vec![7, 8, 9]));
        let miss = TailMiss { since: Seq::new(5), oldest: Seq::new(6), last: Seq::new(9) };
        assert_eq!(seqs(&tail, 5, 10), Err(miss));
        assert!(seqs(&tail, 10, 10).is_err(), "ahead of the log");
        assert!(seqs(&tail, u64::MAX, 10).is_err());
    }

    #[test]
    fn it_is_bounded_in_bytes_too_even_by_one_large_entry() {
        let mut tail = TailBuffer::new(Seq::ZERO, 1000, 10_000);
        (1..=100).for_each(|seq| tail.push(entry(seq, 1000)));
        assert!(tail.bytes <= 10_000 && (5..10).contains(&tail.entries.len()), "{} entries", tail.entries.len());
        tail.push(entry(101, 20_000));
        assert_eq!((tail.entries.len(), tail.bytes, tail.last()), (0, 0, Seq::new(101)));
        assert_eq!(seqs(&tail, 101, 1), Ok(vec![]));
    }

    #[test]
    #[should_panic(expected = "without a hole")]
    fn a_hole_is_never_kept() {
        TailBuffer::new(Seq::new(3), 10, 1000).push(entry(5, 1));
    }
}
