//! Owns the tests of payloads that are none: each is refused by field and offset, and none makes a decoder panic.

use proptest::prelude::*;

use super::super::encode::{Fields, Style};
use super::super::*;
use super::{BODY, STATUS, five, hex, literal};

fn refused(payload: &[u8]) -> StructPackError {
    MetadataPayload::decode(payload).expect_err("the payload was accepted")
}

fn fault(payload: &[u8]) -> (&'static str, usize) {
    let error = refused(payload);
    (error.field, error.offset)
}

/// [`five`] with the byte at `at` changed.
fn with(at: usize, byte: u8) -> Vec<u8> {
    let mut changed = five();
    changed[at] = byte;
    changed
}

#[test]
fn an_unknown_type_is_refused_by_name() {
    for hash in ["c238 47c1", "00000000", "ffffff00", "4404477b", "6a5b783c"] {
        let error = refused(&hex(&format!("{hash} {BODY} {STATUS}")));
        assert_eq!((error.payload, error.field, error.offset), ("MetadataPayload", "type hash", 0), "{error}");
        assert!(error.found.starts_with("0x"), "{error}");
    }
    for (at, len) in [(0, 0), (0, 1), (0, 3)] {
        assert_eq!(fault(&five()[..len]), ("type hash", at));
    }
    let error = SegmentMountPayload::decode(&hex("6a5b783c 01 65")).unwrap_err();
    assert_eq!((error.payload, error.field, error.offset), ("SegmentMount", "type hash", 0));
    let error = SegmentUnmountPayload::decode(&hex("4404477b 01 65")).unwrap_err();
    assert_eq!((error.payload, error.field, error.offset), ("SegmentUnmount", "type hash", 0));
}

#[test]
fn lengths_beyond_the_input_are_refused_before_anything_is_allocated() {
    assert_eq!(fault(&five()[..4]), ("metainfo", 4));
    assert_eq!(fault(&five()[..6]), ("total length", 5));
    for length in ["5700", "5900", "0000", "ffff"] {
        let mut changed = five();
        changed[5..7].copy_from_slice(&hex(length));
        assert_eq!(fault(&changed), ("total length", 5), "{length}");
    }
    assert_eq!(fault(&with(31, 0xff)), ("replica count", 31));
    assert_eq!(fault(&with(57, 0xff)), ("protocol", 58));
    assert_eq!(fault(&with(61, 0xff)), ("endpoint", 62));
    assert_eq!(fault(&with(81, 0xff)), ("group id", 82));
    let huge = Fields::new(8)
        .u64(1)
        .u64(2)
        .u64(3)
        .raw(&[0xff; 8])
        .sealed(0x0ff3_e7cc, Style { total: 0, length: 8, literal: None });
    assert_eq!(fault(&huge), ("replica count", 29));
    let huge = Fields::new(8).raw(&[0xff; 8]).sealed(0x3c78_5b6a, Style { total: 0, length: 8, literal: None });
    let error = SegmentUnmountPayload::decode(&huge).unwrap_err();
    assert_eq!((error.field, error.offset), ("endpoint", 13), "{error}");
}

#[test]
fn trailing_bytes_are_refused() {
    let mut bare = hex(&format!("cce7f30f {BODY} {STATUS}"));
    bare.push(0);
    assert_eq!(fault(&bare), ("end", 77));
    let mut long = five();
    long.push(0);
    assert_eq!(fault(&long), ("total length", 5));
    long[5] += 1;
    assert_eq!(fault(&long), ("end", 88));
    let error = SegmentUnmountPayload::decode(&hex("6a5b783c 01 65 00")).unwrap_err();
    assert_eq!((error.field, error.offset), ("end", 6));
    let error = SegmentMountPayload::decode(&hex("4404477b 01 61 01 65 0000004000000000 01 00 00")).unwrap_err();
    assert_eq!((error.field, error.offset), ("end", 18));
}

#[test]
fn numbers_out_of_range_are_refused() {
    assert_eq!(fault(&with(4, 0x21)), ("metainfo", 4));
    assert_eq!(fault(&with(4, 0x81)), ("metainfo", 4));
    for status in ["06000000", "ffffffff", "03000001", "00000080"] {
        assert_eq!(fault(&hex(&format!("cce7f30f {BODY} {status}"))), ("status", 73), "{status}");
    }
    assert_eq!(fault(&with(40, 5)), ("replica kind", 40));
    assert_eq!(fault(&with(40, 0xff)), ("replica kind", 40));
    for (hash, alternatives) in [("cce7f30f", 4), ("24dbb19c", 3)] {
        let mut bare = hex(&format!("{hash} {BODY} {STATUS}"));
        bare[37] = alternatives;
        assert_eq!(fault(&bare), ("replica kind", 37), "{hash}");
    }
    for (field, at) in [("group id", 80), ("data type", 84), ("hard pinned", 86), ("hard pinned", 87)] {
        assert_eq!(fault(&with(at, 2)), (field, at));
    }
    let error = SegmentMountPayload::decode(&hex("4404477b 01 61 01 65 0000004000000000 02 00")).unwrap_err();
    assert_eq!((error.field, error.offset), ("is memory", 16));
    let error = SegmentUnmountPayload::decode(&hex("6a5b783c 01 ff")).unwrap_err();
    assert_eq!((error.field, error.offset), ("endpoint", 4));
}

#[test]
fn a_type_literal_without_an_end_that_fits_is_refused() {
    let debug = |literal: &[u8], fields: &[u8]| {
        let mut bytes = [&hex("c33847c0 05 0000")[..], literal, fields].concat();
        let total = (bytes.len() as u16).to_le_bytes();
        bytes[5..7].copy_from_slice(&total);
        bytes
    };
    let fields = &five()[7..];
    MetadataPayload::decode(&debug(&literal(), fields)).unwrap();
    for wrong in [
        debug(&literal(), &fields[1..]),
        debug(&literal()[..60], &fields[..fields.len() - 1]),
        debug(&[0x2a; 60], fields),
        debug(&[], &[]),
    ] {
        assert_eq!(fault(&wrong), ("type literal", 7));
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_an_error_or_another_value() {
    let good = MetadataPayload::decode(&five()).unwrap();
    for len in 0..five().len() {
        refused(&five()[..len]);
    }
    for at in 0..five().len() {
        for bit in 0..8 {
            match MetadataPayload::decode(&with(at, five()[at] ^ (1 << bit))) {
                Ok(other) => assert_ne!(other, good, "byte {at} bit {bit}"),
                Err(error) => assert!(error.offset <= five().len(), "{error}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(hash in prop::sample::select(vec![
        0xc047_38c2_u32, 0xc047_38c3, 0x0ff3_e7cc, 0x0ff3_e7cd, 0x9cb1_db24, 0x9cb1_db25, 0x7b47_0444, 0x7b47_0445,
        0x3c78_5b6a, 0x3c78_5b6b, 1,
    ]), rest in proptest::collection::vec(prop_oneof![any::<u8>(), 0_u8..9], 0..200)) {
        let bytes = [&hash.to_le_bytes()[..], &rest].concat();
        let _ = MetadataPayload::decode(&bytes);
        let _ = SegmentMountPayload::decode(&bytes);
        let _ = SegmentUnmountPayload::decode(&bytes);
        let _ = MetadataPayload::decode(&rest);
    }
}
