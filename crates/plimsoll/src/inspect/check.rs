//! Owns the rules that join batch records to each other and to the durable prefix (L1, L2, L16). Reads nothing.

use ha_types::{BatchId, Epoch, Seq};
use oplog_core::record::BatchRecord;
use oplog_core::{DurablePrefix, FaultKind, LogKeys, ReplayFault};

/// Walks the records in order.
#[derive(Debug)]
pub(super) struct Checker {
    keys: LogKeys,
    prefix: Option<DurablePrefix>,
    last: Option<Last>,
    /// The record before the next one could not be read: what joins the two is not judged.
    blind: bool,
    pub(super) batches: u64,
    pub(super) entries: u64,
    pub(super) bytes: u64,
}

/// What the next record must join.
#[derive(Clone, Copy, Debug)]
struct Last {
    id: BatchId,
    seq: Seq,
    epoch: Epoch,
    crc: u32,
}

impl Checker {
    pub(super) fn new(keys: LogKeys, prefix: Option<DurablePrefix>) -> Self {
        Self { keys, prefix, last: None, blind: false, batches: 0, entries: 0, bytes: 0 }
    }

    /// The next record; gives what is wrong with its place.
    pub(super) fn batch(&mut self, record: &BatchRecord) -> Vec<ReplayFault> {
        let header = *record.header();
        self.batches += 1;
        self.entries += record.count() as u64;
        self.bytes += record.bytes().len() as u64;
        let key = self.keys.batch(header.batch_id);
        let mut faults = Vec::new();
        let mut fault =
            |kind, expected: String, found: String| faults.push(ReplayFault::new(kind, &key, expected, found));
        let blind = std::mem::take(&mut self.blind);
        match &self.last {
            Some(last) if !blind => {
                if last.id.next() != Some(header.batch_id) {
                    let found = format!("batch {}", header.batch_id);
                    fault(FaultKind::BatchMissing, format!("the batch after {}", last.id), found);
                } else {
                    if last.seq.next() != Some(header.first_seq) {
                        let found = format!("entry {}", header.first_seq);
                        fault(FaultKind::SequenceGap, format!("the entry after {}", last.seq), found);
                    }
                    if last.crc != header.prev_crc {
                        let found = format!("{:08x}", header.prev_crc);
                        fault(FaultKind::BrokenChain, format!("{:08x}, the CRC of batch {}", last.crc, last.id), found);
                    }
                }
                if header.epoch < last.epoch {
                    let found = format!("epoch {}", header.epoch);
                    fault(FaultKind::WrongEpoch, format!("epoch {} or higher", last.epoch), found);
                }
            }
            None if !blind && header.batch_id.get() != 1 => {
                fault(
                    FaultKind::BatchMissing,
                    "batch 1, as nothing truncates the log yet".into(),
                    format!("batch {}", header.batch_id),
                );
            }
            _ => {}
        }
        if let Some(prefix) = &self.prefix {
            if header.batch_id > prefix.batch_id {
                let found = format!("batch {}", header.batch_id);
                fault(
                    FaultKind::AppliedAbovePrefix,
                    format!("no batch above the durable prefix's {}", prefix.batch_id),
                    found,
                );
            }
            if header.epoch > prefix.epoch {
                let found = format!("epoch {}", header.epoch);
                fault(FaultKind::WrongEpoch, format!("no epoch above the durable prefix's {}", prefix.epoch), found);
            }
        }
        self.last = Some(Last { id: header.batch_id, seq: record.last_seq(), epoch: header.epoch, crc: record.crc() });
        faults
    }

    /// A record could not be read.
    pub(super) fn unreadable(&mut self) {
        self.batches += 1;
        self.blind = true;
    }

    /// The end; gives what is missing there.
    pub(super) fn end(&self) -> Vec<ReplayFault> {
        let key = self.keys.durable_prefix();
        let (id, seq) = self.last.map_or((BatchId::ZERO, None), |l| (l.id, Some(l.seq)));
        match &self.prefix {
            None if self.batches > 0 => {
                vec![ReplayFault::new(FaultKind::PrefixMissing, &key, "a durable prefix, as there are batches", "none")]
            }
            Some(prefix) if !self.blind && id < prefix.batch_id => {
                let expected = format!("batches up to {}", prefix.batch_id);
                vec![ReplayFault::new(FaultKind::BatchMissing, &key, expected, format!("the last batch is {id}"))]
            }
            Some(prefix) if id == prefix.batch_id && seq.is_some_and(|s| s != prefix.last_seq) => {
                let expected = format!("last_seq {}, where batch {id} ends", seq.unwrap_or_default());
                vec![ReplayFault::new(FaultKind::SequenceGap, &key, expected, prefix.last_seq)]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
