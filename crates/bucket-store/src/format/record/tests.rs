//! Tests of a record's bytes.

use ha_types::ObjectIncarnation;
use proptest::prelude::*;

use super::super::error::FormatError;
use super::super::test_bytes::hex;
use super::{CHUNK_BYTES, ChunkRange, MAX_HEADER_BYTES, MAX_WRITE_NUMBER, RecordHeader, verify_raw_key};

const CHUNK: u64 = CHUNK_BYTES as u64;

fn record(key: &[u8], number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    name(key, number, value).encode_into(value, &mut out);
    assert_eq!(out.len() as u64, RecordHeader::encoded_len(key.len(), value.len() as u32));
    out.extend_from_slice(value);
    assert_eq!(out.len() as u64, RecordHeader::record_len(key.len(), value.len() as u32));
    out
}

fn name<'a>(key: &'a [u8], number: u8, value: &[u8]) -> RecordHeader<'a> {
    let incarnation = ObjectIncarnation::from_bytes([number; 16]);
    RecordHeader { key, incarnation, write_number: number.into(), value_len: value.len() as u32 }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()[0]).collect()
}

/// Reads a range as a store does: header, then the chunks that the range touches, then the range out of them.
fn read(record: &[u8], of: RecordHeader<'_>, offset: u64, len: u64) -> Result<Vec<u8>, FormatError> {
    let header = RecordHeader::encoded_len(of.key.len(), of.value_len) as usize;
    let sums = of.verify(&record[..header.min(record.len())])?;
    let range = ChunkRange::covering(of.value_len, offset, len).expect("a range within the value");
    let from = header + range.offset() as usize;
    let chunks = &record[from.min(record.len())..(from + range.len() as usize).min(record.len())];
    sums.verify(range, chunks)?;
    let from = (offset - range.offset()) as usize;
    Ok(chunks[from..from + len as usize].to_vec())
}

#[test]
fn golden_bytes() {
    let bytes = record(b"default\0a", 7, b"value");
    let golden = "504c42524f4fdf9809000000050000000700000000000000\
                  0707070707070707070707070707070764656661756c7400616303e0e176616c7565";
    assert_eq!(hex(&bytes), golden);
    let (header, sums) = RecordHeader::decode(&bytes).unwrap();
    assert_eq!((header, sums.value_len()), (name(b"default\0a", 7, b"value"), 5));
}

#[test]
fn every_range_of_a_value_of_several_chunks_is_read_back() {
    let value = pattern(2 * CHUNK as usize + 100);
    let bytes = record(b"t\0k", 1, &value);
    let of = name(b"t\0k", 1, &value);
    let edges = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, value.len() as u64];
    for from in edges {
        for to in edges.into_iter().filter(|to| *to > from) {
            assert_eq!(read(&bytes, of, from, to - from).unwrap(), value[from as usize..to as usize], "{from}..{to}");
        }
    }
}

#[test]
fn a_range_touches_no_more_chunks_than_it_must() {
    let covering = |offset, len| ChunkRange::covering(200_000, offset, len).map(|r| (r.offset(), r.len()));
    assert_eq!(covering(0, 1), Some((0, CHUNK)));
    assert_eq!(covering(CHUNK - 1, 2), Some((0, 2 * CHUNK)));
    assert_eq!(covering(CHUNK, CHUNK), Some((CHUNK, CHUNK)));
    assert_eq!(covering(199_999, 1), Some((3 * CHUNK, 200_000 - 3 * CHUNK)));
    assert_eq!(ChunkRange::whole(200_000), ChunkRange::covering(200_000, 0, 200_000));
    for (offset, len) in [(0, 0), (0, 200_001), (200_000, 1), (u64::MAX, 2), (1, u64::MAX)] {
        assert_eq!(covering(offset, len), None, "{offset}+{len}");
    }
    assert_eq!(ChunkRange::whole(0), None);
    assert!(ChunkRange::covering(u32::MAX, u64::from(u32::MAX) - 1, 1).is_some());
}

#[test]
fn b11_bytes_of_another_record_are_noticed_by_what_differs() {
    let other = |key: &'static [u8], number: u8, value: &[u8], field: &str| {
        let bytes = record(key, number, value);
        let err = read(&bytes, name(b"t\0k1", 3, b"value"), 0, 5).unwrap_err();
        assert_eq!(err.field(), field, "{err}");
    };
    other(b"t\0k2", 3, b"value", "key");
    other(b"t\0k11", 3, b"value", "key_len");
    other(b"t\0k1", 3, b"longer value", "value_len");
    other(b"t\0k1", 4, b"value", "write_number");
    let mut bytes = Vec::new();
    let of = RecordHeader { incarnation: ObjectIncarnation::from_bytes([9; 16]), ..name(b"t\0k1", 3, b"value") };
    of.encode_into(b"value", &mut bytes);
    assert_eq!(name(b"t\0k1", 3, b"value").verify(&bytes).unwrap_err().field(), "incarnation");
}

#[test]
fn b16_no_flipped_bit_and_no_cut_is_read_as_a_value() {
    let value = b"some value of an object";
    let mut bytes = record(b"t\0k", 1, value);
    let of = name(b"t\0k", 1, value);
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes, of, 0, value.len() as u64).is_err(), "bit {bit}");
        assert!(RecordHeader::decode(&bytes).is_err() || bit / 8 >= bytes.len() - value.len(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len], of, 0, value.len() as u64).is_err(), "{len} bytes");
    }
    assert!(read(&vec![0; bytes.len()], of, 0, 1).is_err());
}

#[test]
fn a_damaged_chunk_spoils_only_the_ranges_that_touch_it() {
    let value = pattern(3 * CHUNK as usize);
    let mut bytes = record(b"t\0k", 1, &value);
    let of = name(b"t\0k", 1, &value);
    let at = RecordHeader::encoded_len(3, of.value_len) + CHUNK + 17;
    bytes[at as usize] ^= 1;
    assert!(read(&bytes, of, 0, CHUNK).is_ok());
    assert!(read(&bytes, of, 2 * CHUNK, CHUNK).is_ok());
    let err = read(&bytes, of, CHUNK - 1, 2).unwrap_err();
    assert!(matches!(err, FormatError::Checksum { offset: 47, .. }), "{err}");
}

#[test]
fn a_value_that_passes_by_is_verified_at_each_chunk_and_at_the_end() {
    let value = pattern(2 * CHUNK as usize + 5);
    let header = record(b"t\0k", 1, &value);
    let sums = RecordHeader::decode(&header).unwrap().1;
    for piece in [1, 4096, CHUNK as usize - 1, CHUNK as usize, 3 * CHUNK as usize] {
        let mut check = sums.stream();
        for piece in value.chunks(piece) {
            check.update(piece).unwrap();
        }
        assert_eq!(check.left(), 0);
        assert!(check.update(b"x").is_err(), "a byte more");
        check.finish().unwrap();
    }
    let mut short = sums.stream();
    short.update(&value[..2 * CHUNK as usize + 4]).unwrap();
    assert!(short.finish().is_err(), "a byte less");
    let mut damaged = value.clone();
    damaged[CHUNK as usize] ^= 0x80;
    let mut check = sums.stream();
    check.update(&damaged[..2 * CHUNK as usize - 1]).unwrap();
    let err = check.update(&damaged[2 * CHUNK as usize - 1..]).unwrap_err();
    assert!(matches!(err, FormatError::Checksum { offset: 47, .. }), "{err}");
}

#[test]
fn lengths_that_no_record_has_are_refused_before_they_are_used() {
    let mut bytes = record(b"t\0k", 1, b"v");
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(RecordHeader::decode(&bytes).unwrap_err().field(), "key_len");
    let mut bytes = record(b"t\0k", 1, b"v");
    bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    let err = RecordHeader::decode(&bytes).unwrap_err();
    assert_eq!((err.field(), err.found()), ("key and checksums", format!("{} bytes", bytes.len())));
    assert_eq!(RecordHeader::encoded_len(4225, u32::MAX), MAX_HEADER_BYTES as u64);
}

#[test]
fn an_empty_value_or_a_key_without_tenant_is_no_record() {
    let empty = record(b"t\0k", 1, b"");
    assert_eq!(RecordHeader::decode(&empty).unwrap_err().field(), "value_len");
    let keyless = record(b"tk", 1, b"v");
    assert_eq!(RecordHeader::decode(&keyless).unwrap_err().field(), "key");
}

#[test]
fn a_write_number_past_the_highest_is_no_record() {
    let of = |write_number| {
        let mut bytes = Vec::new();
        RecordHeader { write_number, ..name(b"t\0k", 1, b"v") }.encode_into(b"v", &mut bytes);
        RecordHeader::decode(&bytes)
            .map(|(header, _)| header.write_number)
            .map_err(|e| (e.field().to_owned(), e.found()))
    };
    assert_eq!(of(MAX_WRITE_NUMBER), Ok(MAX_WRITE_NUMBER));
    for number in [MAX_WRITE_NUMBER + 1, u64::MAX] {
        assert_eq!(of(number), Err(("write_number".into(), number.to_string())));
    }
}

#[test]
fn b11_a_raw_record_is_known_by_its_key() {
    assert_eq!(verify_raw_key(b"t\0k", b"t\0k"), Ok(()));
    let err = verify_raw_key(b"t\0k", b"t\0j").unwrap_err();
    assert_eq!((err.expected().as_str(), err.found().as_str()), ("\"t\\x00k\"", "\"t\\x00j\""));
}

proptest! {
    #[test]
    fn round_trip(key in "[a-z]{1,9}\0.{1,9}", number: u8, value in proptest::collection::vec(any::<u8>(), 1..300)) {
        let bytes = record(key.as_bytes(), number, &value);
        let of = name(key.as_bytes(), number, &value);
        prop_assert_eq!(RecordHeader::decode(&bytes).unwrap().0, of);
        prop_assert_eq!(read(&bytes, of, 0, value.len() as u64).unwrap(), value);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = RecordHeader::decode(&bytes);
        let _ = name(b"t\0k", 1, b"v").verify(&bytes);
        let bytes = [b"PLBR\0\0\0\0\x03\0\0\0\x01\0\0\0", &bytes[..]].concat();
        let _ = RecordHeader::decode(&bytes);
        let _ = name(b"t\0k", 1, b"v").verify(&bytes);
    }
}
