//! Owns the tests with damaged records: whatever happened to the bytes is noticed and named.

use super::super::{BatchRecord, BatchRef, RecordErrorKind};
use super::{Mirror, framed, refused};

#[test]
fn s10_every_flipped_bit_is_detected() {
    let record = Mirror::sample().record();
    for at in 0..record.len() {
        for bit in 0..8 {
            let mut damaged = record.clone();
            damaged[at] ^= 1 << bit;
            let error = BatchRef::decode(&damaged).expect_err(&format!("bit {bit} of byte {at}"));
            let kind = match at {
                0..4 => RecordErrorKind::Foreign,
                4 => RecordErrorKind::Version,
                5 if bit == 0 => RecordErrorKind::Compressed,
                5 => RecordErrorKind::Flags,
                _ => RecordErrorKind::Checksum,
            };
            assert_eq!(error.kind, kind, "bit {bit} of byte {at}: {error}");
            assert!(BatchRecord::decode(damaged.into()).is_err());
        }
    }
}

#[test]
fn s10_every_cut_and_every_extension_is_detected() {
    let record = Mirror::sample().record();
    for len in 0..record.len() {
        let error = refused(&record[..len]);
        let kind = if len < 10 { RecordErrorKind::Truncated } else { RecordErrorKind::Checksum };
        assert_eq!(error.kind, kind, "cut to {len} bytes: {error}");
    }
    assert_eq!(refused(&[&record[..], b"\0"].concat()).kind, RecordErrorKind::Checksum);
}

#[test]
fn every_cut_of_the_body_is_detected_even_under_a_right_checksum() {
    let body = Mirror::sample().body();
    for len in 0..body.len() {
        let kind = refused(&framed(&body[..len])).kind;
        assert!(matches!(kind, RecordErrorKind::Truncated | RecordErrorKind::Malformed), "cut to {len}: {kind:?}");
    }
    let error = refused(&framed(&[&body[..], b"\0"].concat()));
    assert_eq!((error.kind, error.field), (RecordErrorKind::Malformed, "end"));
}

#[test]
fn s11_another_schema_or_an_unknown_flag_is_refused_by_name() {
    let mut record = Mirror::sample().record();
    record[4] = 2;
    let error = refused(&record);
    assert_eq!((error.kind, error.offset, &*error.found), (RecordErrorKind::Version, 4, "2"));
    record[4] = 1;
    for (flags, kind) in [
        (0b0000_0001, RecordErrorKind::Compressed),
        (0b0000_0010, RecordErrorKind::Flags),
        (0b1000_0001, RecordErrorKind::Flags),
    ] {
        record[5] = flags;
        assert_eq!(refused(&record).kind, kind, "flags {flags:#010b}");
    }
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_compressed_body_names_the_feature_that_reads_it() {
    let error = BatchRecord::decode(super::framed_zstd(b"\x28\xb5\x2f\xfd and so on").into()).expect_err("no zstd");
    assert_eq!((error.kind, error.field, error.offset), (RecordErrorKind::Compressed, "flags", 5));
    assert!(error.expected.contains("feature `zstd`"), "{error}");
}

#[test]
fn other_encodings_are_refused_by_name() {
    let mooncake = br#"[1,1,1,2,[[1,"default","key1","dmFsdWUx"],[3,"default","key1",""]],966717365]"#;
    let error = refused(mooncake);
    assert_eq!(error.kind, RecordErrorKind::Foreign);
    assert!(error.to_string().contains("Mooncake"), "{error}");
    assert_eq!(refused(b"PLB2 and so on").kind, RecordErrorKind::Foreign);
    assert_eq!(refused(b"").kind, RecordErrorKind::Truncated);
}

#[test]
fn a_body_above_64_mib_is_refused_before_it_is_read() {
    let body = vec![0; super::super::MAX_BODY_BYTES + 1];
    let record = [b"PLB1\x01\x00wrong"[..10].to_vec(), body].concat();
    let error = refused(&record);
    assert_eq!(error.kind, RecordErrorKind::TooLarge, "judged by its length, not by its checksum: {error}");
}
