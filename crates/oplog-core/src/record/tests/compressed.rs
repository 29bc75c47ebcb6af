//! Owns the tests of compressed bodies: what is written, what is read, and every way in which a frame can be wrong.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{
    BatchCompression, BatchCompressor, BatchRecord, BatchRef, Inflated, MAX_BODY_BYTES, OpenBatch, RecordError,
    RecordErrorKind,
};
use super::{Mirror, entry, framed_zstd, header, sealed};
use crate::NewEntry;

fn zstd_of(body: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(body, 3).unwrap()
}

/// As a stream: the frame does not say how long its content is.
fn unclaimed(body: &[u8]) -> Vec<u8> {
    let frame = zstd::stream::encode_all(body, 3).unwrap();
    assert_eq!(zstd::zstd_safe::get_frame_content_size(&frame).ok(), Some(None));
    frame
}

/// A frame of one segment by hand: a claim of four bytes, and blocks of (type, size, bytes).
fn by_hand(claim: u32, blocks: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut frame = [&b"\x28\xb5\x2f\xfd\xa0"[..], &claim.to_le_bytes()].concat();
    for (at, (kind, size, bytes)) in blocks.iter().enumerate() {
        let last = u32::from(at + 1 == blocks.len());
        frame.extend_from_slice(&(last | (kind << 1) | (size << 3)).to_le_bytes()[..3]);
        frame.extend_from_slice(bytes);
    }
    frame
}

fn refused(record: &[u8]) -> RecordError {
    let error = BatchRef::decode_in(record, &mut Inflated::new()).expect_err("the record was accepted");
    assert_eq!(BatchRecord::decode(Bytes::copy_from_slice(record)).expect_err("accepted"), error);
    error
}

/// A body of one entry and `MAX_BODY_BYTES + more` bytes in all, nearly all of them zero.
fn huge_body(more: usize) -> Vec<u8> {
    let mut body = Mirror::sample().body();
    body.resize(MAX_BODY_BYTES + more, 0);
    body
}

#[test]
fn a_compressed_record_reads_as_the_raw_one_does() {
    let body = Mirror::sample().body();
    for frame in [zstd_of(&body), unclaimed(&body)] {
        let record = framed_zstd(&frame);
        let (raw, mut room) = (Mirror::sample().record(), Inflated::new());
        let (raw, read) = (BatchRef::decode(&raw).unwrap(), BatchRef::decode_in(&record, &mut room).unwrap());
        assert_eq!(read.compression(), BatchCompression::Zstd);
        assert_eq!((read.header(), read.last_seq(), read.tenants()), (raw.header(), raw.last_seq(), raw.tenants()));
        assert!(read.entries().eq(raw.entries()));
        assert_ne!(read.crc(), raw.crc(), "the chain is over what is stored");
        assert_eq!(read.raw_bytes(), raw.raw_bytes());
        let owned = BatchRecord::decode(record.clone().into()).unwrap();
        assert_eq!(
            (owned.crc(), owned.raw_bytes(), owned.bytes()),
            (read.crc(), read.raw_bytes(), &Bytes::from(record))
        );
        assert!(owned.entries().eq(raw.entries()));
    }
}

#[test]
fn only_what_gets_smaller_and_is_long_enough_is_compressed() {
    let mut noise = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (noise >> 56) as u8
    })
    .take(5000)
    .collect();
    let mut zstd = BatchCompressor::new(BatchCompression::Zstd, 1000).unwrap();
    for (payload, compressed) in [(&noise[..], false), (&[7; 5000], true), (&[7; 500], false)] {
        let entries = [entry("default", b"k", payload)];
        let raw = sealed(header(2, 9), &entries);
        let mut batch = OpenBatch::new();
        batch.push(&entries[0]).unwrap();
        let stored = batch.seal_with(header(2, 9), &mut zstd).unwrap();
        assert_eq!(stored.bytes[5], u8::from(compressed));
        assert_eq!((stored.raw_bytes, stored.last_seq, stored.count), (raw.bytes.len(), raw.last_seq, raw.count));
        assert_eq!(stored.bytes == raw.bytes, !compressed);
        let read = BatchRecord::decode(stored.bytes).unwrap();
        assert_eq!(read.crc(), stored.crc);
        assert!(read.entries().map(NewEntry::from).eq(entries));
        assert!(batch.is_empty());
    }
}

#[test]
fn a_body_that_inflates_beyond_64_mib_is_refused_whatever_its_frame_claims() {
    // Exactly at the limit it is read, and found to be no batch.
    let error = refused(&framed_zstd(&zstd_of(&huge_body(0))));
    assert_eq!((error.kind, error.field), (RecordErrorKind::Malformed, "end"), "{error}");
    let bomb = huge_body(1);
    let error = refused(&framed_zstd(&zstd_of(&bomb)));
    assert_eq!((error.kind, error.field), (RecordErrorKind::TooLarge, "body"), "{error}");
    assert_eq!(error.found, (MAX_BODY_BYTES + 1).to_string());
    let error = refused(&framed_zstd(&unclaimed(&bomb)));
    assert_eq!((error.kind, error.field), (RecordErrorKind::TooLarge, "body"), "{error}");
    // 131 MB of zeros in blocks that repeat one byte, under claims that do not say so.
    let repeated = (1, 128 << 10, &b"\0"[..]);
    for claim in [1, 64 << 10, MAX_BODY_BYTES as u32] {
        let error = refused(&framed_zstd(&by_hand(claim, &[repeated; 1000])));
        assert_eq!((error.kind, error.field), (RecordErrorKind::Malformed, "zstd frame"), "{error}");
    }
}

#[test]
fn nothing_is_allocated_for_a_claim_that_the_frame_cannot_keep() {
    let mut room = Inflated::new();
    for blocks in [&[(0, 5, &b"abcde"[..])][..], &[(1, 9, b"x"), (0, 2, b"yz")]] {
        let error = room.inflate(&by_hand(MAX_BODY_BYTES as u32, blocks)).expect_err("a lie");
        assert_eq!((error.kind, error.field), (RecordErrorKind::Malformed, "zstd frame"), "{error}");
    }
    room.inflate(&by_hand(u32::MAX, &[(1, 9, b"x")])).expect_err("a larger one");
    assert!(room.into_body().capacity() < 100);
}

#[test]
fn every_cut_of_a_frame_and_every_byte_behind_it_is_named_under_a_right_checksum() {
    let body = Mirror::sample().body();
    for frame in [zstd_of(&body), unclaimed(&body), by_hand(2, &[(0, 1, b"a"), (1, 1, b"b")])] {
        for len in 0..frame.len() {
            let error = refused(&framed_zstd(&frame[..len]));
            assert_eq!((error.kind, error.field), (RecordErrorKind::Truncated, "zstd frame"), "cut to {len}: {error}");
            assert!((10..=10 + len).contains(&error.offset), "{error}");
        }
        for behind in [&b"\0"[..], &frame, b"\x50\x2a\x4d\x18\0\0\0\0"] {
            let error = refused(&framed_zstd(&[&frame[..], behind].concat()));
            assert_eq!((error.kind, error.field), (RecordErrorKind::Malformed, "zstd frame"), "{error}");
            assert_eq!((error.offset, error.found), (10 + frame.len(), format!("{} more bytes", behind.len())));
        }
    }
}

#[test]
fn what_is_no_frame_is_named() {
    let body = Mirror::sample().body();
    let error = refused(&framed_zstd(&body));
    assert_eq!(
        (error.kind, error.field, error.offset),
        (RecordErrorKind::Malformed, "zstd frame", 10),
        "the flag alone"
    );
    let good = zstd_of(&body);
    let mut with_dictionary = good.clone();
    with_dictionary[4] |= 1;
    let mut reserved_bit = good.clone();
    reserved_bit[4] |= 8;
    let skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd".to_vec();
    let reserved_block = by_hand(1, &[(3, 1, b"a")]);
    let long_block = by_hand(200_000, &[(1, (128 << 10) + 1, b"a")]);
    for frame in [with_dictionary, reserved_bit, skippable, reserved_block, long_block] {
        let error = refused(&framed_zstd(&frame));
        assert_eq!((error.kind, error.field), (RecordErrorKind::Malformed, "zstd frame"), "{error}");
    }
    // A sound frame of a body that is none, and of a body that breaks a constraint.
    let error = refused(&framed_zstd(&zstd_of(&body[..body.len() - 1])));
    assert!(matches!(error.kind, RecordErrorKind::Truncated | RecordErrorKind::Malformed), "{error}");
    let error = refused(&framed_zstd(&zstd_of(&Mirror { epoch: 0, ..Mirror::sample() }.body())));
    assert_eq!((error.kind, error.field), (RecordErrorKind::Constraint, "epoch"), "{error}");
}

#[test]
fn s10_every_flipped_bit_of_a_compressed_record_is_detected() {
    let record = framed_zstd(&zstd_of(&Mirror::sample().body()));
    for at in 0..record.len() {
        for bit in 0..8 {
            let mut damaged = record.clone();
            damaged[at] ^= 1 << bit;
            let kind = match at {
                0..4 => RecordErrorKind::Foreign,
                4 => RecordErrorKind::Version,
                5 if bit != 0 => RecordErrorKind::Flags,
                _ => RecordErrorKind::Checksum,
            };
            // Bit 0 of the flags gone, the frame is read as a body first; what is said is that the bytes were changed.
            assert_eq!(refused(&damaged).kind, kind, "bit {bit} of byte {at}");
        }
    }
    for len in 0..record.len() {
        let kind = if len < 10 { RecordErrorKind::Truncated } else { RecordErrorKind::Checksum };
        assert_eq!(refused(&record[..len]).kind, kind, "cut to {len} bytes");
    }
}

#[test]
fn a_reader_in_place_refuses_a_compressed_body_by_name() {
    let record = framed_zstd(&zstd_of(&Mirror::sample().body()));
    let error = BatchRef::decode(&record).expect_err("read in place");
    assert_eq!((error.kind, error.field, error.offset), (RecordErrorKind::Compressed, "flags", 5));
}

#[test]
fn a_split_of_a_compressed_record_has_its_entries() {
    let (first, rest) = super::super::split(&framed_zstd(&zstd_of(&Mirror::sample().body())), 1).unwrap();
    assert_eq!((first.count(), rest.count()), (1, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_compressed_is_read_back(
        raw in vec((any::<u8>(), 0..3_usize, vec(any::<u8>(), 1..60), prop_oneof![
            vec(any::<u8>(), 1..300),
            (any::<u8>(), 1_usize..9000).prop_map(|(byte, n)| vec![byte; n]),
        ]), 1..100),
        min_bytes in 0_usize..3000,
    ) {
        let (mut plain, mut open) = (OpenBatch::new(), OpenBatch::with_capacity(4000));
        let mut zstd = BatchCompressor::new(BatchCompression::Zstd, min_bytes).unwrap();
        let mut room = Inflated::new();
        // Twice: buffers and contexts are used again.
        for first_seq in [9, 900] {
            for (op_type, tenant, key, payload) in &raw {
                let tenant = ["default", "tenant-a", "b"][*tenant];
                let entry = NewEntry { op_type: *op_type, tenant, key, payload };
                plain.push(&entry).unwrap();
                open.push(&entry).unwrap();
            }
            let plain = plain.seal(header(2, first_seq)).unwrap();
            let stored = open.seal_with(header(2, first_seq), &mut zstd).unwrap();
            prop_assert!(stored.bytes.len() <= plain.bytes.len());
            prop_assert_eq!(stored.raw_bytes, plain.bytes.len());
            let (expected, read) = (BatchRef::decode(&plain.bytes).unwrap(), BatchRef::decode_in(&stored.bytes, &mut room).unwrap());
            prop_assert_eq!((read.crc(), read.last_seq()), (stored.crc, stored.last_seq));
            prop_assert!(read.entries().eq(expected.entries()));
            prop_assert_eq!(read.header(), expected.header());
            prop_assert!(BatchRecord::decode(stored.bytes.clone()).unwrap().entries().eq(expected.entries()));
        }
    }

    #[test]
    fn no_bytes_behind_the_flag_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = BatchRecord::decode(framed_zstd(&bytes).into());
        let _ = BatchRecord::decode(framed_zstd(&[&b"\x28\xb5\x2f\xfd"[..], &bytes].concat()).into());
    }

    #[test]
    fn a_frame_changed_under_a_right_checksum_is_refused_or_a_batch(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        claimed: bool,
    ) {
        let body = Mirror::sample().body();
        let mut frame = if claimed { zstd_of(&body) } else { unclaimed(&body) };
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Ok(read) = BatchRecord::decode(framed_zstd(&frame).into()) {
            prop_assert_eq!(read.entries().count(), read.count());
        }
    }
}
