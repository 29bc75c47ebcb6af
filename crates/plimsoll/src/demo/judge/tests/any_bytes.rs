//! Owns the properties of the judge's decoders: no bytes make them panic, and what the server takes for a record they read alike.

use oplog_core::record::BatchRef;
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

/// Whether the server takes the bytes for a record; the judge must then read the same in them.
fn read_alike(bytes: &[u8]) -> bool {
    let ours = Record::parse(bytes);
    let Ok(theirs) = BatchRef::decode(bytes) else { return false };
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

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, op: u8) {
        read_alike(&bytes);
        read_alike(&sealed(&bytes));
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
        let mut body = record(1, 1, 1, 0, &[mount(), put("a", 1, 0), removal("a", 1)])[10..].to_vec();
        for (at, byte) in changes {
            let at = at.index(body.len());
            body[at] = byte;
        }
        read_alike(&sealed(&body));
    }
}
