//! Every rule broken once, on records made by the codec itself.

use crate::NewEntry;
use crate::record::{BatchHeader, OpenBatch};
use ha_types::Owner;

use super::*;

fn record(id: u64, first_seq: u64, count: usize, epoch: u64, prev_crc: u32) -> BatchRecord {
    let mut open = OpenBatch::new();
    for _ in 0..count {
        open.push(&NewEntry { op_type: 3, tenant: "default", key: b"k", payload: b"\x01" }).unwrap();
    }
    let header = BatchHeader {
        batch_id: BatchId::new(id),
        first_seq: Seq::new(first_seq),
        epoch: Epoch::new(epoch),
        prev_crc,
        timestamp_ms: 7,
    };
    BatchRecord::decode(open.seal(header).unwrap().bytes).unwrap()
}

fn prefix(epoch: u64, batch_id: u64, last_seq: u64) -> Option<DurablePrefix> {
    Some(DurablePrefix {
        epoch: Epoch::new(epoch),
        owner: Owner::new(9),
        batch_id: BatchId::new(batch_id),
        last_seq: Seq::new(last_seq),
    })
}

/// As one walks who knows the prefix beforehand.
fn faults(prefix: Option<DurablePrefix>, records: &[BatchRecord]) -> Vec<(FaultKind, String)> {
    let mut chain = BatchChain::new(keys());
    let mut faults = Vec::new();
    for record in records {
        let (id, epoch) = (record.header().batch_id, record.header().epoch);
        faults.extend(chain.record(id, record));
        if let Some(prefix) = &prefix {
            faults.extend(BatchChain::above_prefix(&keys(), id, prefix));
            faults.extend(BatchChain::above_epoch(&keys(), id, epoch, prefix));
        }
    }
    faults.extend(chain.start_fault());
    faults.extend(chain.end_faults(prefix.as_ref()));
    faults
        .into_iter()
        .map(|f| {
            (f.kind, f.key.trim_start_matches("/oplog/c/").trim_start_matches("batches/0000000000000000000").to_owned())
        })
        .collect()
}

fn keys() -> LogKeys {
    LogKeys::of(&"c".parse().unwrap())
}

fn one(kind: FaultKind, key: &str) -> Vec<(FaultKind, String)> {
    vec![(kind, key.to_owned())]
}

#[test]
fn a_good_log_has_no_fault() {
    let one = record(1, 1, 3, 1, 0);
    let two = record(2, 4, 2, 2, one.crc());
    assert_eq!(faults(prefix(2, 2, 5), &[one, two]), []);
    assert_eq!(faults(prefix(1, 0, 0), &[]), []);
    assert_eq!(faults(None, &[]), []);
}

#[test]
fn every_broken_rule_is_named() {
    let first = record(1, 1, 3, 2, 0);
    let crc = first.crc();
    let after = |r: BatchRecord, p| faults(p, &[first.clone(), r]);
    assert_eq!(after(record(3, 4, 1, 2, crc), prefix(2, 3, 4)), one(FaultKind::BatchMissing, "2"));
    assert_eq!(after(record(2, 5, 1, 2, crc), prefix(2, 2, 5)), one(FaultKind::SequenceGap, "2"));
    assert_eq!(after(record(2, 4, 1, 2, crc ^ 1), prefix(2, 2, 4)), one(FaultKind::BrokenChain, "2"));
    assert_eq!(after(record(2, 4, 1, 1, crc), prefix(2, 2, 4)), one(FaultKind::WrongEpoch, "2"));
    assert_eq!(after(record(2, 4, 1, 3, crc), prefix(2, 2, 4)), one(FaultKind::WrongEpoch, "2"));
    assert_eq!(after(record(2, 4, 1, 2, crc), prefix(2, 1, 3)), one(FaultKind::AppliedAbovePrefix, "2"));
    assert_eq!(after(record(2, 4, 1, 2, crc), prefix(2, 2, 9)), one(FaultKind::SequenceGap, "durable_prefix"));
    assert_eq!(after(record(2, 4, 1, 2, crc), prefix(2, 5, 9)), one(FaultKind::BatchMissing, "3"));
    assert_eq!(faults(None, std::slice::from_ref(&first)), one(FaultKind::PrefixMissing, "durable_prefix"));
    assert_eq!(faults(prefix(2, 2, 4), &[record(2, 4, 1, 2, 5)]), one(FaultKind::BatchMissing, "1"));
    let mut chain = BatchChain::new(keys());
    let wrong = chain.record(BatchId::new(1), &record(2, 4, 1, 2, crc));
    assert_eq!((wrong.len(), wrong[0].kind), (1, FaultKind::WrongBatchId));
}

#[test]
fn what_joins_an_unreadable_record_is_not_judged() {
    let mut chain = BatchChain::new(keys());
    assert!(chain.record(BatchId::new(1), &record(1, 1, 3, 1, 0)).is_empty());
    assert_eq!(chain.unreadable(BatchId::new(2)), None);
    assert!(chain.record(BatchId::new(3), &record(3, 9, 1, 2, 77)).is_empty());
    assert!(chain.end_faults(prefix(2, 3, 9).as_ref()).is_empty());
    assert_eq!(chain.unreadable(BatchId::new(5)).map(|f| f.kind), Some(FaultKind::BatchMissing));
}

#[test]
fn epochs_are_listed_in_order_and_never_without_end() {
    let mut chain = BatchChain::new(keys());
    let (mut crc, count) = (0, 300);
    for id in 1..=count {
        let record = record(id, id, 1, id, crc);
        crc = record.crc();
        assert!(chain.record(BatchId::new(id), &record).is_empty());
    }
    let summary = chain.summary();
    assert_eq!((summary.epochs.len(), summary.more_epochs), (256, count - 256));
    assert_eq!(summary.epochs.last().map(|range| range.epoch), Some(Epoch::new(count)));
    assert_eq!(summary.entries, count);
}
