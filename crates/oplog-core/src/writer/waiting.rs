//! Owns the entries that wait to be sent: batches that are full, and the open one. Entries are encoded when they are committed.

use std::collections::VecDeque;

use ha_types::{MonoTime, Seq};

use super::class::{Class, Slots};
use super::notifier::Callback;
use crate::NewEntry;
use crate::record::{EntryError, MAX_BATCH_ENTRIES, OpenBatch};

/// A batch that is not sent yet. Its id and its place in the chain are given when it is sent.
#[derive(Debug)]
pub(super) struct WaitingBatch {
    pub(super) entries: OpenBatch,
    pub(super) first_seq: Seq,
    /// In order of sequence.
    pub(super) callbacks: Vec<(Seq, Callback)>,
    /// When its first entry was committed.
    pub(super) since: MonoTime,
    /// Entries and bytes that are bulk's; none of a batch that was cut, for it holds no slots.
    pub(super) bulk: Bulk,
}

/// What of some entries is bulk's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bulk {
    entries: usize,
    bytes: usize,
}

impl WaitingBatch {
    pub(super) fn new(entries: OpenBatch, first_seq: Seq, since: MonoTime) -> Self {
        Self { entries, first_seq, callbacks: Vec::new(), since, bulk: Bulk::default() }
    }
}

/// The waiting queue, oldest first: what a cut left over, then batches full in bytes, then the open batch.
#[derive(Debug)]
pub(super) struct WaitingQueue {
    /// Parts of a batch that was sealed before. They hold no slots.
    cut: VecDeque<WaitingBatch>,
    full: VecDeque<WaitingBatch>,
    open: WaitingBatch,
    /// A batch at which the open one is full.
    seal_bytes: usize,
    entries: usize,
    bytes: usize,
    bulk: Bulk,
    /// An empty batch with its buffers, to be used again.
    spare: Option<OpenBatch>,
}

/// What was taken, and how many slots it held.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) batch: WaitingBatch,
    pub(super) slots: Slots,
}

impl WaitingQueue {
    pub(super) fn new(seal_bytes: usize) -> Self {
        Self {
            cut: VecDeque::new(),
            full: VecDeque::new(),
            open: WaitingBatch::new(OpenBatch::new(), Seq::ZERO, MonoTime::ZERO),
            seal_bytes,
            entries: 0,
            bytes: 0,
            bulk: Bulk::default(),
            spare: None,
        }
    }

    /// Committed entries that hold slots.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// The slots they hold.
    pub(super) fn slots(&self) -> Slots {
        Slots { all: self.entries, bulk: self.bulk.entries }
    }

    /// The bytes of those that are bulk's.
    pub(super) fn bulk_bytes(&self) -> usize {
        self.bulk.bytes
    }

    /// Their bytes, and those of the batches around them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the oldest entry that waits was committed.
    pub(super) fn oldest(&self) -> Option<MonoTime> {
        let open = (!self.open.entries.is_empty()).then_some(&self.open);
        self.cut.front().or_else(|| self.full.front()).or(open).map(|batch| batch.since)
    }

    /// Committed entries, those of a cut included.
    pub(super) fn all_entries(&self) -> usize {
        self.entries + self.cut.iter().map(|b| b.entries.count()).sum::<usize>()
    }

    #[cfg(test)]
    pub(super) fn cut_parts(&self) -> Vec<usize> {
        self.cut.iter().map(|part| part.entries.count()).collect()
    }

    pub(super) fn seal_bytes(&self) -> usize {
        self.seal_bytes
    }

    /// Seals at `bytes` from now on, if that is less than before.
    pub(super) fn lower_seal_bytes(&mut self, bytes: usize) {
        self.seal_bytes = self.seal_bytes.min(bytes);
    }

    /// Encodes `entry` as `seq` at the end; the callback is taken only on success. `now` is asked for the first entry of a batch
    /// only.
    pub(super) fn push(
        &mut self,
        class: Class,
        seq: Seq,
        entry: &NewEntry<'_>,
        callback: &mut Option<Callback>,
        now: impl FnOnce() -> MonoTime,
    ) -> Result<(), EntryError> {
        let open = &self.open.entries;
        let would_be = open.bytes().saturating_add(OpenBatch::entry_len(entry));
        if !open.is_empty() && (would_be > self.seal_bytes || open.count() >= MAX_BATCH_ENTRIES) {
            self.roll();
        }
        let first = self.open.entries.is_empty();
        let added = self.open.entries.push(entry)?;
        if first {
            self.open.first_seq = seq;
            self.open.since = now();
        }
        if let Some(callback) = callback.take() {
            self.open.callbacks.push((seq, callback));
        }
        self.entries += 1;
        self.bytes += added;
        if class == Class::Bulk {
            for bulk in [&mut self.bulk, &mut self.open.bulk] {
                bulk.entries += 1;
                bulk.bytes += added;
            }
        }
        Ok(())
    }

    /// Whether the batch to be taken next takes no further entry.
    pub(super) fn next_is_full(&self) -> bool {
        !self.cut.is_empty() || !self.full.is_empty() || self.open.entries.count() >= MAX_BATCH_ENTRIES
    }

    fn roll(&mut self) {
        let next = self.fresh();
        self.full.push_back(std::mem::replace(&mut self.open, next));
    }

    fn fresh(&mut self) -> WaitingBatch {
        WaitingBatch::new(self.spare.take().unwrap_or_default(), Seq::ZERO, MonoTime::ZERO)
    }

    /// Takes the oldest batch.
    pub(super) fn take(&mut self) -> Option<Taken> {
        if let Some(batch) = self.cut.pop_front() {
            return Some(Taken { batch, slots: Slots::default() });
        }
        let batch = match self.full.pop_front() {
            Some(batch) => batch,
            None if self.open.entries.is_empty() => return None,
            None => {
                let next = self.fresh();
                std::mem::replace(&mut self.open, next)
            }
        };
        let slots = Slots { all: batch.entries.count(), bulk: batch.bulk.entries };
        self.entries -= slots.all;
        self.bulk.entries -= slots.bulk;
        self.bulk.bytes -= batch.bulk.bytes;
        // A batch counts its entries only, so that the sum of what was added is what is taken away.
        self.bytes -= batch.entries.bytes() - OpenBatch::HEADER_BOUND;
        Some(Taken { batch, slots })
    }

    /// Takes an emptied batch back for its buffers.
    pub(super) fn give_back(&mut self, emptied: OpenBatch) {
        debug_assert!(emptied.is_empty(), "a batch was given back with entries");
        self.spare = Some(emptied);
    }

    /// Puts the parts of a cut at the front.
    pub(super) fn put_first(&mut self, parts: Vec<WaitingBatch>) {
        for part in parts.into_iter().rev() {
            self.cut.push_front(part);
        }
    }

    /// Ends the queue and gives out its callbacks in order of sequence.
    pub(super) fn end(&mut self) -> Vec<(Seq, Callback)> {
        let mut callbacks = Vec::new();
        while let Some(taken) = self.take() {
            callbacks.extend(taken.batch.callbacks);
        }
        callbacks
    }
}
