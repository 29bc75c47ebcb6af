//! Owns the rules that join batch records to each other and to the durable prefix (L1, L2, L16). Reads nothing.

use bytes::Bytes;
use ha_types::{BatchId, Epoch, Seq};

use super::BatchSummary;
use crate::record::{BatchCompression, BatchRecord, Encoding};
use crate::{DurablePrefix, FaultKind, LogKeys, ReplayFault};

/// The most epochs that are listed.
const MOST_EPOCHS: usize = 256;

/// Consecutive batches of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochRange {
    /// The epoch.
    pub epoch: Epoch,
    /// Its first batch.
    pub first: BatchId,
    /// Its last batch.
    pub last: BatchId,
    /// How many entries they have.
    pub entries: u64,
}

/// Batch records in the order of their keys, each judged by itself and by the one before. It goes on after every fault; what joins
/// a record that cannot be read is not judged.
#[derive(Clone, Debug)]
pub struct BatchChain {
    keys: LogKeys,
    last: Option<Last>,
    epoch: Epoch,
    base: Option<Seq>,
    summary: BatchSummary,
}

/// What the next record must join.
#[derive(Clone, Copy, Debug)]
struct Last {
    id: BatchId,
    /// Unknown for a record that could not be read.
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    seq: Seq,
    crc: u32,
}

impl BatchChain {
    /// No record yet.
    #[must_use]
    pub fn new(keys: LogKeys) -> Self {
        Self { keys, last: None, epoch: Epoch::ZERO, base: None, summary: BatchSummary::default() }
    }

    /// What there was so far.
    #[must_use]
    pub fn summary(&self) -> &BatchSummary {
        &self.summary
    }

    /// The last record taken; zero before the first.
    #[must_use]
    pub fn last_id(&self) -> BatchId {
        self.last.map_or(BatchId::ZERO, |last| last.id)
    }

    /// The sequence before batch 1, if that was taken and could be read.
    #[must_use]
    pub fn base(&self) -> Option<Seq> {
        self.base
    }

    /// The first batch that is missing before `id`.
    pub(super) fn hole_before(&self, id: BatchId) -> Option<BatchId> {
        self.last.and_then(|last| last.id.next()).filter(|next| *next < id)
    }

    /// The records taken so far were removed meanwhile, oldest first: the next one joins nothing.
    pub(super) fn shortened_to(&mut self, id: BatchId) {
        if let Some(before) = id.get().checked_sub(1) {
            self.last = Some(Last { id: BatchId::new(before), end: None });
        }
    }

    /// The value under the key of `id`; gives what is wrong with it or its place.
    pub fn value(&mut self, id: BatchId, value: Bytes) -> Vec<ReplayFault> {
        let bytes = value.len() as u64;
        match BatchRecord::decode(value) {
            Ok(record) => self.record(id, &record),
            Err(error) => {
                self.summary.bytes += bytes;
                let fault = ReplayFault::batch_undecodable(&self.keys.batch(id), &error);
                self.unreadable(id).into_iter().chain([fault]).collect()
            }
        }
    }

    /// The record under the key of `id`; gives what is wrong with its place.
    pub fn record(&mut self, id: BatchId, record: &BatchRecord) -> Vec<ReplayFault> {
        let header = record.header();
        let key = self.keys.batch(id);
        if header.batch_id != id {
            self.summary.bytes += record.bytes().len() as u64;
            let found = format!("the record of batch {}", header.batch_id);
            let fault = ReplayFault::new(FaultKind::WrongBatchId, &key, format!("the record of batch {id}"), found);
            return self.unreadable(id).into_iter().chain([fault]).collect();
        }
        let mut faults: Vec<_> = self.hole_fault(id).into_iter().collect();
        let mut fault =
            |kind, expected: String, found: String| faults.push(ReplayFault::new(kind, &key, expected, found));
        if let Some(Last { id: before, end: Some(end) }) = self.last
            && before.next() == Some(id)
        {
            if end.seq.next() != Some(header.first_seq) {
                let found = format!("entry {}", header.first_seq);
                fault(FaultKind::SequenceGap, format!("the entry after {}", end.seq), found);
            }
            if record.encoding() == Encoding::Plb1 && end.crc != header.prev_crc {
                let found = format!("{:08x}", header.prev_crc);
                fault(FaultKind::BrokenChain, format!("{:08x}, the CRC of batch {before}", end.crc), found);
            }
        }
        if header.epoch < self.epoch {
            let found = format!("epoch {}", header.epoch);
            fault(FaultKind::WrongEpoch, format!("epoch {} or higher", self.epoch), found);
        }
        self.epoch = header.epoch;
        if id.get() == 1 {
            self.base = header.first_seq.get().checked_sub(1).map(Seq::new);
        }
        self.last = Some(Last { id, end: Some(End { seq: record.last_seq(), crc: record.crc() }) });
        self.summary.add(record);
        faults
    }

    /// The record under the key of `id` cannot be read.
    pub fn unreadable(&mut self, id: BatchId) -> Option<ReplayFault> {
        let hole = self.hole_fault(id);
        self.last = Some(Last { id, end: None });
        self.summary.unreadable += 1;
        self.summary.note_id(id);
        hole
    }

    fn hole_fault(&self, id: BatchId) -> Option<ReplayFault> {
        let missing = self.hole_before(id)?;
        let before = self.last_id();
        let through = id.get().saturating_sub(1);
        let expected = format!("batch {missing}, between {before} and {id}");
        Some(self.missing(missing, expected, BatchId::new(through)))
    }

    fn missing(&self, first: BatchId, expected: String, through: BatchId) -> ReplayFault {
        let found = match first == through {
            true => "no such key".to_owned(),
            false => format!("no such key, and none up to batch {through}"),
        };
        ReplayFault::new(FaultKind::BatchMissing, &self.keys.batch(first), expected, found)
    }

    /// What is missing at the start: nothing truncates a log of which no snapshot exists.
    #[must_use]
    pub fn start_fault(&self) -> Option<ReplayFault> {
        let (one, first) = (BatchId::new(1), self.summary.first.filter(|first| first.get() > 1)?);
        let expected = "batch 1, as nothing truncates a log without a snapshot".to_owned();
        Some(self.missing(one, expected, BatchId::new(first.get() - 1)))
    }

    /// What is wrong with the end, all records up to `prefix` having been taken.
    #[must_use]
    pub fn end_faults(&self, prefix: Option<&DurablePrefix>) -> Vec<ReplayFault> {
        let key = self.keys.durable_prefix();
        let id = self.last_id();
        let Some(prefix) = prefix else {
            let lost = (self.summary.batches() > 0).then(|| {
                let expected = "a durable prefix, as there are batches";
                ReplayFault::new(FaultKind::PrefixMissing, &key, expected, "no such key")
            });
            return lost.into_iter().collect();
        };
        match (id.next(), self.last.and_then(|last| last.end)) {
            (Some(next), _) if id < prefix.batch_id => {
                let expected = format!("batch {next}, as the durable prefix is at batch {}", prefix.batch_id);
                vec![self.missing(next, expected, prefix.batch_id)]
            }
            (_, Some(end)) if id == prefix.batch_id => self.end_fault(id, end.seq, prefix).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// What is wrong with a prefix at batch `id`, which ends at `last_seq` (L2).
    pub(super) fn end_fault(&self, id: BatchId, last_seq: Seq, prefix: &DurablePrefix) -> Option<ReplayFault> {
        let key = self.keys.durable_prefix();
        let expected = format!("last_seq {last_seq}, where batch {id} ends");
        (last_seq != prefix.last_seq)
            .then(|| ReplayFault::new(FaultKind::SequenceGap, &key, expected, format!("last_seq {}", prefix.last_seq)))
    }

    /// What is wrong with batch `id` if it lies above `prefix` (L1).
    #[must_use]
    pub fn above_prefix(keys: &LogKeys, id: BatchId, prefix: &DurablePrefix) -> Option<ReplayFault> {
        let expected = format!("no batch above the durable prefix's {}", prefix.batch_id);
        (id > prefix.batch_id)
            .then(|| ReplayFault::new(FaultKind::AppliedAbovePrefix, &keys.batch(id), expected, format!("batch {id}")))
    }

    /// What is wrong with batch `id` if it was written under an epoch that nobody claimed.
    #[must_use]
    pub fn above_epoch(keys: &LogKeys, id: BatchId, epoch: Epoch, prefix: &DurablePrefix) -> Option<ReplayFault> {
        let expected = format!("no epoch above the durable prefix's {}", prefix.epoch);
        (epoch > prefix.epoch)
            .then(|| ReplayFault::new(FaultKind::WrongEpoch, &keys.batch(id), expected, format!("epoch {epoch}")))
    }
}

impl BatchSummary {
    fn note_id(&mut self, id: BatchId) {
        self.first = self.first.or(Some(id));
        self.last = Some(id);
    }

    fn add(&mut self, record: &BatchRecord) {
        let (header, entries) = (record.header(), record.count() as u64);
        self.note_id(header.batch_id);
        match record.encoding() {
            Encoding::MooncakeJson => self.mooncake += 1,
            Encoding::Plb1 => {
                self.plb1 += 1;
                self.first_ms = self.first_ms.or(Some(header.timestamp_ms));
                self.last_ms = Some(header.timestamp_ms);
            }
        }
        self.compressed += u64::from(record.compression() == BatchCompression::Zstd);
        self.first_seq = self.first_seq.or(Some(header.first_seq));
        self.last_seq = Some(record.last_seq());
        self.entries += entries;
        self.bytes += record.bytes().len() as u64;
        self.raw_bytes += record.raw_bytes() as u64;
        match self.epochs.last_mut() {
            Some(range) if range.epoch == header.epoch => {
                range.last = header.batch_id;
                range.entries += entries;
            }
            _ => {
                if self.epochs.len() == MOST_EPOCHS {
                    self.epochs.pop();
                    self.more_epochs += 1;
                }
                let (epoch, id) = (header.epoch, header.batch_id);
                self.epochs.push(EpochRange { epoch, first: id, last: id, entries });
            }
        }
    }
}

#[cfg(test)]
mod tests;
