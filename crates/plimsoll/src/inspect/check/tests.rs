//! Every rule broken once, on records made by the codec itself.

use oplog_core::record::{BatchHeader, OpenBatch};
use oplog_core::{NewEntry, Owner};

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

fn faults(prefix: Option<DurablePrefix>, records: &[BatchRecord]) -> Vec<FaultKind> {
    let keys = LogKeys::of(&"c".parse().unwrap());
    let mut checker = Checker::new(keys, prefix);
    let mut faults: Vec<_> = records.iter().flat_map(|r| checker.batch(r)).collect();
    faults.extend(checker.end());
    faults.into_iter().map(|f| f.kind).collect()
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
    let one = record(1, 1, 3, 2, 0);
    let crc = one.crc();
    let after = |r: BatchRecord, p| faults(p, &[one.clone(), r]);
    assert_eq!(after(record(3, 4, 1, 2, crc), prefix(2, 3, 4)), [FaultKind::BatchMissing]);
    assert_eq!(after(record(2, 5, 1, 2, crc), prefix(2, 2, 5)), [FaultKind::SequenceGap]);
    assert_eq!(after(record(2, 4, 1, 2, crc ^ 1), prefix(2, 2, 4)), [FaultKind::BrokenChain]);
    assert_eq!(after(record(2, 4, 1, 1, crc), prefix(2, 2, 4)), [FaultKind::WrongEpoch]);
    assert_eq!(after(record(2, 4, 1, 3, crc), prefix(2, 2, 4)), [FaultKind::WrongEpoch]);
    assert_eq!(after(record(2, 4, 1, 2, crc), prefix(2, 1, 3)), [FaultKind::AppliedAbovePrefix]);
    assert_eq!(after(record(2, 4, 1, 2, crc), prefix(2, 2, 9)), [FaultKind::SequenceGap]);
    assert_eq!(after(record(2, 4, 1, 2, crc), prefix(2, 5, 9)), [FaultKind::BatchMissing]);
    assert_eq!(faults(None, std::slice::from_ref(&one)), [FaultKind::PrefixMissing]);
    assert_eq!(faults(prefix(2, 2, 4), &[record(2, 4, 1, 2, 5)]), [FaultKind::BatchMissing]);
}

#[test]
fn what_joins_an_unreadable_record_is_not_judged() {
    let keys = LogKeys::of(&"c".parse().unwrap());
    let mut checker = Checker::new(keys, prefix(2, 3, 9));
    assert!(checker.batch(&record(1, 1, 3, 1, 0)).is_empty());
    checker.unreadable();
    assert!(checker.batch(&record(3, 9, 1, 2, 77)).is_empty());
    assert!(checker.end().is_empty());
}
