//! Owns the properties of the judge's decoders: no bytes make them panic, and what the server takes for a record they read alike.

use oplog_core::NewEntry;
use oplog_core::record::{BatchCompression, BatchCompressor, BatchHeader, BatchRef, Inflated, OpenBatch};
use proptest::prelude::*;

use super::super::payload::Change;
use super::super::prefix::Prefix;
use super::super::record::Record;
use super::{crc32c, mount, put, record, removal};

/// The bytes with a right header, so that the body is read.
fn sealed(body: &[u8]) -> Vec<u8> {
    let crc = crc32c(&[&[1, 0], body]);
    [b"PLB1", &[1, 0][..], &crc.to_le_bytes(), body].concat()
}

/// The same, of a body that says it is compressed.
fn sealed_zstd(body: &[u8]) -> Vec<u8> {
    let crc = crc32c(&[&[1, 1], body]);
    [b"PLB1", &[1, 1][..], &crc.to_le_bytes(), body].concat()
}

/// A record that the server compressed.
fn compressed() -> Vec<u8> {
    let mut open = OpenBatch::new();
    for n in 0..40_u8 {
        let (op_type, key, payload) = put("a", n.into(), 100 * u64::from(n));
        open.push(&NewEntry { op_type, tenant: "default", key: key.as_bytes(), payload: &payload }).unwrap();
    }
    let header = BatchHeader {
        batch_id: ha_types::BatchId::new(1),
        first_seq: ha_types::Seq::new(1),
        epoch: ha_types::Epoch::new(1),
        prev_crc: 0,
        timestamp_ms: 1_700_000_000_000,
    };
    let mut zstd = BatchCompressor::new(BatchCompression::Zstd, 0).unwrap();
    let bytes = open.seal_with(header, &mut zstd).unwrap().bytes;
    assert_eq!(bytes[5], 1, "it is compressed");
    bytes.to_vec()
}

/// Whether the server takes the bytes for a record; the judge must then read the same in them.
fn read_alike(bytes: &[u8]) -> bool {
    let (mut room, mut inflated) = (Vec::new(), Inflated::new());
    let ours = Record::parse(bytes, &mut room);
    let Ok(theirs) = BatchRef::decode_in(bytes, &mut inflated) else { return false };
    let ours = ours.expect("what the server reads, the judge reads");
    let header = theirs.header();
    assert_eq!((ours.batch_id, ours.first_seq), (header.batch_id.get(), header.first_seq.get()));
    assert_eq!((ours.epoch, ours.prev_crc, ours.crc), (header.epoch.get(), header.prev_crc, theirs.crc()));
    let ours: Vec<_> = ours.entries.iter().map(|e| (e.op, e.tenant, e.key, e.payload)).collect();
    let theirs: Vec<_> = theirs.entries().map(|e| (e.op_type, e.tenant, e.key, e.payload)).collect();
    assert_eq!(ours, theirs);
    true
}

#[test]
fn a_record_that_the_server_takes_is_read_alike() {
    let entries = [mount(), put("a", 1, 0), removal("a", 1), put("b", 2, 100)];
    assert!(read_alike(&record(3, 9, 2, 7, &entries)));
}

#[test]
fn a_compressed_record_is_read_alike_and_a_damaged_one_by_neither() {
    let record = compressed();
    assert!(read_alike(&record));
    let frame = &record[10..];
    for cut in 0..frame.len() {
        let cut = sealed_zstd(&frame[..cut]);
        assert!(!read_alike(&cut) && Record::parse(&cut, &mut Vec::new()).is_err());
    }
    let longer = sealed_zstd(&[frame, b"x"].concat());
    assert!(!read_alike(&longer) && Record::parse(&longer, &mut Vec::new()).unwrap_err().contains("1 bytes follow"));
    let raw = sealed_zstd(&record_of_three()[10..]);
    assert!(Record::parse(&raw, &mut Vec::new()).unwrap_err().contains("no zstd frame"));
}

fn record_of_three() -> Vec<u8> {
    record(1, 1, 1, 0, &[mount(), put("a", 1, 0), removal("a", 1)])
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, op: u8) {
        read_alike(&bytes);
        read_alike(&sealed(&bytes));
        read_alike(&sealed_zstd(&bytes));
        let _ = Prefix::parse(&bytes);
        for op in (1..8).chain([12, op]) {
            let _ = Change::parse(op, &bytes);
            let _ = Change::parse(op, &[&[1], &bytes[..]].concat());
        }
    }

    #[test]
    fn a_record_changed_under_a_right_checksum_is_read_alike_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut body = record_of_three()[10..].to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        read_alike(&sealed(&body));
    }

    #[test]
    fn no_changed_frame_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut frame = compressed()[10..].to_vec();
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let _ = Record::parse(&sealed_zstd(&frame), &mut Vec::new());
    }
}
