//! Owns the golden records: bytes made by an encoder that shares nothing with ours. Files are added, never edited.

use ha_types::{BatchId, Epoch, Seq};

use super::super::{BatchHeader, BatchRecord, BatchRef};
use super::sealed;
use crate::NewEntry;

/// The bytes of a golden file: hex with comments.
fn bytes(text: &str) -> Vec<u8> {
    let code = text.lines().filter_map(|line| line.split('#').next());
    code.flat_map(str::split_whitespace).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

#[track_caller]
fn check(text: &str, header: BatchHeader, entries: &[NewEntry<'_>], crc: u32) {
    let golden = bytes(text);
    let ours = sealed(header, entries);
    assert_eq!(ours.bytes, golden, "the encoder writes the golden bytes");
    assert_eq!(ours.crc, crc);

    let batch = BatchRef::decode(&golden).unwrap();
    assert_eq!((*batch.header(), batch.crc(), batch.last_seq()), (header, crc, ours.last_seq));
    let read: Vec<_> = batch.entries().map(NewEntry::from).collect();
    assert_eq!(read, entries);
    let seqs: Vec<_> = batch.entries().map(|e| e.seq.get() - header.first_seq.get()).collect();
    assert_eq!(seqs, (0..entries.len() as u64).collect::<Vec<_>>());

    let owned = BatchRecord::decode(golden.clone().into()).unwrap();
    assert_eq!((*owned.header(), owned.crc(), owned.last_seq()), (header, crc, ours.last_seq));
    assert!(owned.entries().eq(batch.entries()));
}

fn header(batch_id: u64, first_seq: u64, epoch: u64, prev_crc: u32, timestamp_ms: u64) -> BatchHeader {
    BatchHeader {
        batch_id: BatchId::new(batch_id),
        first_seq: Seq::new(first_seq),
        epoch: Epoch::new(epoch),
        prev_crc,
        timestamp_ms,
    }
}

#[test]
fn s12_one_entry() {
    let entry = NewEntry { op_type: 1, tenant: "default", key: b"key1", payload: b"value1" };
    let text = include_str!("../../../tests/golden/plb1-one-entry.hex");
    check(text, header(1, 1, 1, 0, 1_700_000_000_123), &[entry], 0x4a8c_b24a);
}

#[test]
fn s12_two_tenants() {
    let payload: Vec<u8> = (0..130).collect();
    let entries = [
        NewEntry { op_type: 3, tenant: "tenant-a", key: b"\xff\x00\x80key", payload: b"\x01" },
        NewEntry { op_type: 1, tenant: "gr\u{fc}\u{df}", key: &[b'k'; 128], payload: &payload },
        NewEntry { op_type: 200, tenant: "tenant-a", key: b"/", payload: b"[" },
    ];
    let text = include_str!("../../../tests/golden/plb1-two-tenants.hex");
    check(text, header(2, 2, 300, 0x4a8c_b24a, 1_700_000_000_456), &entries, 0x0002_f7cd);
}

#[test]
fn s12_largest_numbers() {
    let tenant = "x".repeat(128);
    let entries = [
        NewEntry { op_type: 0, tenant: &tenant, key: b"a", payload: b"b" },
        NewEntry { op_type: 255, tenant: &tenant, key: b"c", payload: b"d" },
    ];
    let text = include_str!("../../../tests/golden/plb1-largest-numbers.hex");
    let most = u64::MAX;
    check(text, header(most - 2, most - 2, most - 1, u32::MAX, most), &entries, 0x5350_b0c6);
}

/// The zstd program wrote this frame; another version of zstd may write another one, so only the reading is pinned.
#[cfg(feature = "zstd")]
#[test]
fn s12_compressed() {
    let golden = bytes(include_str!("../../../tests/golden/plb1-zstd.hex"));
    let record = BatchRecord::decode(golden.into()).unwrap();
    assert_eq!((*record.header(), record.crc()), (header(3, 5, 300, 0x0002_f7cd, 1_700_000_000_789), 0x5200_11da));
    assert_eq!((record.last_seq(), record.bytes().len(), record.raw_bytes()), (Seq::new(12), 169, 681));
    let entries = (0..8_u8).map(|i| {
        let mut payload = vec![1];
        payload.extend_from_slice(format!("tcp 10.0.0.{}:12345 ", i % 2).as_bytes());
        let buffer = [(0x7f00_0000_0000 + u64::from(i) * 65536).to_le_bytes(), 65536_u64.to_le_bytes()].concat();
        payload.extend_from_slice(&[&buffer[..], &buffer].concat());
        (format!("llama/layer-{i:02}/block-{i:04}"), payload)
    });
    let read = record.entries().map(|e| {
        assert_eq!((e.op_type, e.tenant), (1, "default"));
        (String::from_utf8(e.key.to_vec()).unwrap(), e.payload.to_vec())
    });
    assert!(read.eq(entries));
}
