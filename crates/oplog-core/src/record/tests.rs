//! Owns what the record's tests share: the structure as postcard sees it, and records built around the encoder.

#[cfg(feature = "zstd")]
mod compressed;
mod constraints;
mod damage;
mod golden;
mod open_batch;
mod properties;

use ha_types::{BatchId, Epoch, Seq};
use serde::Serialize;

use super::{BatchHeader, BatchRef, OpenBatch, RecordError, SealedRecord};
use crate::NewEntry;

/// The body as `docs/formats/batch-record.md` lists it, for postcard itself to encode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Mirror {
    batch_id: u64,
    first_seq: u64,
    epoch: u64,
    prev_crc: u32,
    timestamp_ms: u64,
    tenants: Vec<String>,
    entries: Vec<MirrorEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct MirrorEntry {
    op_type: u8,
    tenant: u32,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl Mirror {
    fn sample() -> Self {
        let entry = |op_type, tenant, key: &[u8], payload: &[u8]| MirrorEntry {
            op_type,
            tenant,
            key: key.to_vec(),
            payload: payload.to_vec(),
        };
        Self {
            batch_id: 7,
            first_seq: 300,
            epoch: 3,
            prev_crc: 0xdead_beef,
            timestamp_ms: 1_700_000_000_000,
            tenants: vec!["default".into(), "tenant-a".into()],
            entries: vec![
                entry(1, 0, b"key1", b"value1"),
                entry(3, 1, b"\xff\x00", &[7; 200]),
                entry(1, 0, b"key2", b"v"),
            ],
        }
    }

    fn body(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap()
    }

    fn record(&self) -> Vec<u8> {
        framed(&self.body())
    }
}

/// `body` under a right header.
fn framed(body: &[u8]) -> Vec<u8> {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[1, 0]), body);
    [b"PLB1\x01\x00", &crc.to_le_bytes()[..], body].concat()
}

/// `stored` under a right header that says that it is compressed.
fn framed_zstd(stored: &[u8]) -> Vec<u8> {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[1, 1]), stored);
    [b"PLB1\x01\x01", &crc.to_le_bytes()[..], stored].concat()
}

fn header(batch_id: u64, first_seq: u64) -> BatchHeader {
    BatchHeader {
        batch_id: BatchId::new(batch_id),
        first_seq: Seq::new(first_seq),
        epoch: Epoch::new(3),
        prev_crc: if batch_id == 1 { 0 } else { 0x0102_0304 },
        timestamp_ms: 1_700_000_000_000,
    }
}

fn entry<'a>(tenant: &'a str, key: &'a [u8], payload: &'a [u8]) -> NewEntry<'a> {
    NewEntry { op_type: 1, tenant, key, payload }
}

fn sealed(header: BatchHeader, entries: &[NewEntry<'_>]) -> SealedRecord {
    let mut batch = OpenBatch::new();
    for entry in entries {
        batch.push(entry).unwrap();
    }
    batch.seal(header).unwrap()
}

fn refused(record: &[u8]) -> RecordError {
    BatchRef::decode(record).expect_err("the record was accepted")
}
