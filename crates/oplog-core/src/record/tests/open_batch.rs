//! Owns the tests of the encoder: sizes, limits, reuse, cutting.

use bytes::Bytes;

use super::super::{
    BatchRef, EntryError, MAX_BATCH_ENTRIES, MAX_PAYLOAD_BYTES, OpenBatch, RecordErrorKind, SealError, split,
};
use super::{entry, header, sealed};
use crate::NewEntry;

#[test]
fn a_refused_entry_leaves_the_batch_as_it_was() {
    let mut batch = OpenBatch::new();
    batch.push(&entry("t", b"k", b"v")).unwrap();
    let (bytes, long) = (batch.bytes(), vec![0; MAX_PAYLOAD_BYTES + 1]);
    let refuse = |batch: &mut OpenBatch, bad: &NewEntry<'_>| {
        let error = batch.push(bad).unwrap_err();
        assert_eq!(OpenBatch::check(bad), Err(error.clone()), "check says the same");
        error
    };
    assert!(matches!(refuse(&mut batch, &entry("", b"k", b"v")), EntryError::Tenant(_)));
    assert!(matches!(refuse(&mut batch, &entry("_x", b"k", b"v")), EntryError::Tenant(_)));
    assert!(matches!(refuse(&mut batch, &entry("t", b"", b"v")), EntryError::Key(_)));
    assert!(matches!(refuse(&mut batch, &entry("t", &[0; 4097], b"v")), EntryError::Key(_)));
    assert_eq!(refuse(&mut batch, &entry("t", b"k", b"")), EntryError::PayloadEmpty);
    let len = MAX_PAYLOAD_BYTES + 1;
    assert_eq!(refuse(&mut batch, &entry("t", b"k", &long)), EntryError::PayloadTooLong { len });
    assert_eq!((batch.bytes(), batch.count()), (bytes, 1));
    assert_eq!(batch.seal(header(2, 2)).unwrap(), sealed(header(2, 2), &[entry("t", b"k", b"v")]));
}

#[test]
fn a_header_that_cannot_be_leaves_the_batch_as_it_was() {
    let mut batch = OpenBatch::new();
    assert_eq!(batch.seal(header(1, 1)), Err(SealError::Empty));
    batch.push(&entry("t", b"k", b"v")).unwrap();
    batch.push(&entry("t", b"k", b"w")).unwrap();
    assert!(matches!(batch.seal(header(0, 1)), Err(SealError::Header { field: "batch_id", .. })));
    assert!(matches!(batch.seal(header(2, 1)), Err(SealError::Header { field: "first_seq", .. })));
    let chained = super::BatchHeader { prev_crc: 1, ..header(1, 1) };
    assert!(matches!(batch.seal(chained), Err(SealError::Header { field: "prev_crc", .. })));
    assert!(matches!(batch.seal(header(1, u64::MAX - 1)), Err(SealError::OutOfSequences { count: 2, .. })));
    assert_eq!(batch.seal(header(1, u64::MAX - 2)).unwrap().count, 2);
    assert!(batch.is_empty());
}

#[test]
fn a_batch_is_full_at_the_formats_limits() {
    let mut batch = OpenBatch::new();
    for _ in 0..MAX_BATCH_ENTRIES {
        batch.push(&entry("t", b"k", b"v")).unwrap();
    }
    assert_eq!(batch.push(&entry("t", b"k", b"v")), Err(EntryError::BatchFull));
    let record = batch.seal(header(1, 1)).unwrap();
    assert_eq!(BatchRef::decode(&record.bytes).unwrap().count(), MAX_BATCH_ENTRIES);

    let payload = vec![7; MAX_PAYLOAD_BYTES];
    while batch.count() < 6 {
        batch.push(&entry("t", b"k", &payload)).unwrap();
    }
    assert!(matches!(batch.push(&entry("t", b"k", &payload)), Err(EntryError::BatchTooLarge { .. })));
    let record = batch.seal(header(1, 1)).unwrap();
    assert_eq!(BatchRef::decode(&record.bytes).unwrap().count(), 6);
}

#[test]
fn every_entry_with_a_tenant_of_its_own() {
    let names: Vec<String> = (0..2000_u32).map(|i| format!("tenant-{:04}", i.wrapping_mul(7919) % 2000)).collect();
    let mut batch = OpenBatch::new();
    for round in 1..=3 {
        for name in names.iter().chain(names.iter().rev()) {
            batch.push(&entry(name, b"k", b"v")).unwrap();
        }
        let record = batch.seal(header(round, 4000)).unwrap();
        let read = BatchRef::decode(&record.bytes).unwrap();
        assert!(read.tenants().iter().eq(&names), "each once, in order of first use");
        assert!(read.entries().map(|e| e.tenant).eq(names.iter().chain(names.iter().rev())));
    }
}

#[test]
fn the_buffer_of_a_record_is_used_again_once_nobody_holds_it() {
    let payload = [5; 1000];
    let mut batch = OpenBatch::with_capacity(64 << 10);
    let mut fill = |id: u64| -> Bytes {
        for _ in 0..60 {
            batch.push(&entry("default", b"key", &payload)).unwrap();
        }
        batch.seal(header(id, 1000)).unwrap().bytes
    };
    // One record in flight while the next is filled, as a writer has them.
    let mut seen = std::collections::BTreeSet::new();
    let mut in_flight = fill(1);
    for id in 2..50 {
        let next = fill(id);
        seen.insert(in_flight.as_ptr_range().end);
        assert_eq!(BatchRef::decode(&in_flight).unwrap().header().batch_id.get(), id - 1);
        in_flight = next;
    }
    assert!(seen.len() <= 3, "{} buffers for 49 records", seen.len());
}

#[test]
fn a_record_that_somebody_keeps_never_changes() {
    let payload = [5; 1000];
    let mut batch = OpenBatch::with_capacity(8 << 10);
    let records: Vec<Bytes> = (1..=20)
        .map(|id| {
            for _ in 0..7 {
                batch.push(&entry("default", b"key", &payload)).unwrap();
            }
            batch.seal(header(id, 1000)).unwrap().bytes
        })
        .collect();
    for (id, record) in (1..).zip(&records) {
        assert_eq!(BatchRef::decode(record).unwrap().header().batch_id.get(), id);
    }
}

#[test]
fn a_small_record_does_not_hold_a_large_buffer() {
    let mut batch = OpenBatch::with_capacity(1 << 20);
    batch.push(&entry("default", b"key", b"value")).unwrap();
    let bytes = batch.seal(header(1, 1)).unwrap().bytes;
    let kept = bytes.try_into_mut().unwrap().capacity();
    assert!(kept < 1000, "the record keeps {kept} bytes alive");
}

#[test]
fn l4_cutting_a_record_keeps_every_entry_and_its_sequence() {
    let keys: Vec<Vec<u8>> = (0..10_u8).map(|i| vec![i, 0xff, 0]).collect();
    let entries: Vec<_> = keys.iter().map(|key| entry(if key[0] % 3 == 0 { "a" } else { "b" }, key, key)).collect();
    let whole = sealed(header(5, 100), &entries);
    for keep in 1..10 {
        let (mut first, mut rest) = split(&whole.bytes, keep).unwrap();
        let first = first.seal(header(5, 100)).unwrap();
        let after = super::BatchHeader { prev_crc: first.crc, ..header(6, first.last_seq.get() + 1) };
        let rest = rest.seal(after).unwrap();
        assert_eq!((first.count, rest.count, rest.last_seq), (keep, 10 - keep, whole.last_seq));
        let read = |record: &[u8]| -> Vec<_> {
            let batch = BatchRef::decode(record).unwrap();
            batch.entries().map(|e| (e.seq, e.tenant.to_owned(), e.key.to_vec(), e.payload.to_vec())).collect()
        };
        assert_eq!([read(&first.bytes), read(&rest.bytes)].concat(), read(&whole.bytes));
    }
    for keep in [0, 10, usize::MAX] {
        assert_eq!(split(&whole.bytes, keep).unwrap_err().kind, RecordErrorKind::Constraint);
    }
}

#[test]
fn an_entry_of_32_and_128_bytes_takes_165() {
    let (key, payload) = ([1; 32], [2; 128]);
    let mut batch = OpenBatch::new();
    for _ in 0..1024 {
        batch.push(&entry("default", &key, &payload)).unwrap();
    }
    let record = batch.seal(header(1 << 40, 1 << 50)).unwrap();
    let per_entry = record.bytes.len() as f64 / 1024.0;
    assert!(per_entry <= 166.0, "{per_entry} bytes an entry");
}
