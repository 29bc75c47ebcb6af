//! Owns the codec's part: what one batch takes, raw and compressed.

use std::hint::black_box;

use bytes::Bytes;
use ha_types::{BatchId, Epoch, Seq};
use oplog_core::NewEntry;
use oplog_core::record::{BatchCompression, BatchCompressor, BatchHeader, BatchRef, Inflated, OpenBatch};
use oplog_core::test_kit::metadata::{Metadata, MetadataEntry, Payloads};

use crate::rounds::interleaved;

const BATCHES: [usize; 5] = [4, 16, 64, 256, 1024];

fn header() -> BatchHeader {
    BatchHeader {
        batch_id: BatchId::new(1_000_000),
        first_seq: Seq::new(1_000_000_000),
        epoch: Epoch::new(7),
        prev_crc: 0x1234_5678,
        timestamp_ms: 1_700_000_000_000,
    }
}

fn seal(entries: &[MetadataEntry], open: &mut OpenBatch, compressor: &mut BatchCompressor) -> Bytes {
    for entry in entries {
        open.push(&entry.as_new()).expect("the entry fits");
    }
    open.seal_with(header(), compressor).expect("the batch can be sealed").bytes
}

fn walk(record: &[u8], room: &mut Inflated) -> usize {
    let batch = BatchRef::decode_in(record, room).expect("it decodes");
    batch.entries().map(|entry| entry.key.len() + entry.payload.len()).sum()
}

/// Measures and prints every batch size of both kinds of payload.
pub(crate) fn run(rounds: usize, json: bool) {
    for (name, payloads) in [("plimsoll", Payloads::Plimsoll), ("mooncake", Payloads::Mooncake)] {
        for batch in BATCHES {
            // Past the mounts, where the stream is what it stays.
            let entries: Vec<_> = Metadata::new(payloads, 1).skip(100).take(batch).collect();
            one(name, &entries, rounds, json);
        }
    }
}

fn one(name: &str, entries: &[MetadataEntry], rounds: usize, json: bool) {
    let mut off = BatchCompressor::off();
    let mut zstd = BatchCompressor::new(BatchCompression::Zstd, 0).expect("zstd is built in");
    let (mut open_raw, mut open_zstd) = (OpenBatch::new(), OpenBatch::new());
    let raw = seal(entries, &mut open_raw, &mut off);
    let stored = seal(entries, &mut open_zstd, &mut zstd);
    let (mut room_raw, mut room_zstd) = (Inflated::new(), Inflated::new());
    for record in [&raw, &stored] {
        let batch = BatchRef::decode_in(record, &mut room_raw).expect("it decodes");
        assert!(batch.entries().map(NewEntry::from).eq(entries.iter().map(MetadataEntry::as_new)), "equal inputs");
    }
    let mut seal_raw = || drop(black_box(seal(black_box(entries), &mut open_raw, &mut off)));
    let mut seal_zstd = || drop(black_box(seal(black_box(entries), &mut open_zstd, &mut zstd)));
    let mut decode_raw = || {
        black_box(walk(black_box(&raw), &mut room_raw));
    };
    let mut decode_zstd = || {
        black_box(walk(black_box(&stored), &mut room_zstd));
    };
    let us = interleaved([&mut seal_raw, &mut seal_zstd, &mut decode_raw, &mut decode_zstd], rounds).map(|ns| ns / 1e3);
    let [seal_raw, seal_zstd, decode_raw, decode_zstd] = us;
    let (batch, raw_bytes, stored_bytes) = (entries.len(), raw.len(), stored.len());
    let ratio = stored_bytes as f64 / raw_bytes as f64;
    if json {
        println!(
            "{{\"suite\":\"compression\",\"payloads\":\"{name}\",\"batch\":{batch},\"raw_bytes\":{raw_bytes},\
             \"stored_bytes\":{stored_bytes},\"bytes_ratio\":{ratio:.3},\"encode_raw_us\":{seal_raw:.2},\
             \"encode_zstd_us\":{seal_zstd:.2},\"decode_raw_us\":{decode_raw:.2},\"decode_zstd_us\":{decode_zstd:.2}}}"
        );
    } else {
        println!(
            "{name:>8} {batch:>5} entries: {raw_bytes:>7} bytes raw, {stored_bytes:>7} stored ({ratio:.3}); encode {seal_raw:>7.2} us \
             raw, {seal_zstd:>7.2} zstd; decode {decode_raw:>6.2} us raw, {decode_zstd:>7.2} zstd"
        );
    }
}
