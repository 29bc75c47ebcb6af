//! Owns how a batch leaves the queue: taken under the lock, sealed without it, in flight under it again (RFC batch record §8, §9).

use bytes::Bytes;
use ha_types::MonoTime;

use super::{Core, Flying};
use crate::DurablePrefix;
use crate::record::{BatchCompressor, BatchHeader, BatchRef, Inflated, OpenBatch, SealError};
use crate::writer::Phase;
use crate::writer::flight::{Action, Flight};
use crate::writer::waiting::WaitingBatch;
use crate::{BatchId, NewEntry, Outcome, Terminal};

/// A batch to be sealed outside the lock.
#[derive(Debug)]
pub(in crate::writer) struct Departure {
    entries: OpenBatch,
    header: BatchHeader,
    expected: DurablePrefix,
}

/// A batch record ready to be sent.
#[derive(Debug)]
pub(in crate::writer) struct Sealed {
    pub(in crate::writer) record: Bytes,
    pub(in crate::writer) expected: DurablePrefix,
    pub(in crate::writer) new: DurablePrefix,
    raw_bytes: usize,
    crc: u32,
    emptied: OpenBatch,
}

impl Departure {
    /// Makes the record.
    pub(in crate::writer) fn seal(mut self, compressor: &mut BatchCompressor) -> Result<Sealed, SealError> {
        let sealed = self.entries.seal_with(self.header, compressor)?;
        let new = DurablePrefix { batch_id: self.header.batch_id, last_seq: sealed.last_seq, ..self.expected };
        let Self { entries: emptied, expected, .. } = self;
        Ok(Sealed { record: sealed.bytes, raw_bytes: sealed.raw_bytes, expected, new, crc: sealed.crc, emptied })
    }
}

impl Core {
    /// The next batch to send, with its numbers. `None`: there is none; the next commit wakes the driver.
    pub(in crate::writer) fn depart(&mut self, timestamp_ms: u64, now: MonoTime) -> Option<Departure> {
        assert!(self.flying.is_none(), "L8: one batch is in flight at a time");
        if self.terminal.is_some() {
            return None;
        }
        let Some(taken) = self.waiting.take() else {
            self.wake_at = 1;
            return None;
        };
        self.wake_at = usize::MAX;
        // The entries keep their slots until they are sealed, reservations keep theirs longer (RFC §8).
        self.admission.give_back(taken.slots);
        self.reopen();
        let WaitingBatch { entries, first_seq, callbacks, since, bulk: _ } = taken.batch;
        self.counters.waiting.record(now.saturating_since(since));
        self.flying = Some(Flying {
            first_seq,
            entries: entries.count(),
            callbacks,
            committed_at: since,
            sealed_at: now,
            flight: None,
            record_bytes: 0,
            raw_bytes: 0,
            crc: 0,
            phase: Phase::Sealing,
        });
        let header = BatchHeader {
            batch_id: self.next_batch_id(),
            first_seq,
            epoch: self.durable.epoch,
            prev_crc: self.chain,
            timestamp_ms,
        };
        Some(Departure { entries, header, expected: self.durable })
    }

    /// The count of entries committed so far, or `None` if an entry committed from now on would not be in the next batch, or none
    /// can come: a seal delay would wait for nobody.
    pub(in crate::writer) fn committed_if_more_may_join(&self) -> Option<u64> {
        let full = self.waiting.next_is_full() || self.waiting.entries() >= self.config.oplog_batch_max_entries;
        (!full && !self.orphaned && !self.is_closed()).then_some(self.counters.committed)
    }

    fn next_batch_id(&self) -> BatchId {
        self.durable.batch_id.next().expect("the end of the batch numbers was refused at the start")
    }

    /// The record is ready: how its journey begins.
    pub(in crate::writer) fn take_off(&mut self, sealed: &mut Sealed) -> Action {
        self.waiting.give_back(std::mem::take(&mut sealed.emptied));
        let config = &self.config;
        let flying = self.flying.as_mut().expect("a batch departed before it takes off");
        flying.record_bytes = sealed.record.len();
        flying.raw_bytes = sealed.raw_bytes;
        flying.crc = sealed.crc;
        flying.flight = Some(Flight::new(sealed.expected, sealed.new, flying.entries, config));
        if let Some(terminal) = &self.terminal {
            return Action::End(terminal.clone(), Outcome::Never);
        }
        // It was filled before a store found such a batch too large: not even tried.
        let too_large = flying.raw_bytes > self.waiting.seal_bytes() && flying.entries > 1;
        let action = if too_large { Action::Cut } else { Action::Append };
        flying.phase = Phase::of(&action);
        action
    }

    /// A batch that could not be sealed: the numbers of the log are used up.
    pub(in crate::writer) fn cannot_seal(&mut self, error: &SealError) {
        self.latch(Terminal::Rejected { reason: error.to_string() });
    }

    /// Cuts the batch in flight, which is certainly not in the store: its first part departs next with its batch id, the rest
    /// follows (design §3.3). The sequences stay.
    pub(in crate::writer) fn cut(&mut self, record: &[u8]) {
        let flying = self.flying.take().expect("a batch in flight is cut");
        let was_sent = flying.flight.as_ref().is_some_and(Flight::was_sent);
        assert!(
            !flying.flight.as_ref().is_some_and(Flight::maybe_applied),
            "a batch that may be in the log is not cut"
        );
        if was_sent {
            self.counters.retries += flying.flight.as_ref().map_or(0, Flight::retries);
            self.counters.cuts += 1;
            self.waiting.lower_seal_bytes(flying.raw_bytes / 2);
            self.entry_bytes = self.entry_bytes.min(record.len() - 1);
        }
        let mut callbacks = flying.callbacks.into_iter().peekable();
        let mut parts = Vec::new();
        let mut first_seq = flying.first_seq;
        for entries in parts_of(record, self.waiting.seal_bytes()) {
            let next =
                first_seq.checked_add(entries.count() as u64).expect("the parts have the sequences of the whole");
            let mut part = WaitingBatch::new(entries, first_seq, flying.committed_at);
            while let Some(callback) = callbacks.next_if(|(seq, _)| *seq < next) {
                part.callbacks.push(callback);
            }
            parts.push(part);
            first_seq = next;
        }
        self.waiting.put_first(parts);
    }
}

/// The entries of `record` in batches of at most `limit` bytes, or of one entry.
fn parts_of(record: &[u8], limit: usize) -> Vec<OpenBatch> {
    let mut room = Inflated::new();
    let whole = BatchRef::decode_in(record, &mut room).expect("a record of our own decodes");
    let mut parts = Vec::new();
    let mut part = OpenBatch::new();
    for entry in whole.entries() {
        let entry = NewEntry::from(entry);
        if !part.is_empty() && part.bytes() + OpenBatch::entry_len(&entry) > limit {
            parts.push(std::mem::take(&mut part));
        }
        part.push(&entry).expect("an entry of our own fits a part of its batch");
    }
    parts.push(part);
    parts
}
