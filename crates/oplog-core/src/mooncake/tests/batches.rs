//! Owns the tests of batch arrays.

use proptest::prelude::*;

use super::super::encode::{self, sealed};
use super::super::{MAX_BATCH_ENTRIES, MAX_KEY_BYTES, MooncakeBatch};
use crate::record::{MAX_PAYLOAD_BYTES, RecordError, RecordErrorKind};

/// The original's records, as they are.
const FIRST: &str = r#"[1,1,1,2,[[1,"default","key1","dmFsdWUx"],[3,"default","key1",""]],966717365]"#;
const SECOND: &str = r#"[1,2,3,4,[[5,"default","10.0.0.1:12345","RARHewVzZWctYQ4xMC4wLjAuMToxMjM0NQAAAEAAAAAAAQA="],[1,"tenant-a","obj/\u00e9","wzhHwAFYAIh3ZlVEMyIRAP/u3cy7qpkAEAAAAAAAAAEHAAAAAAAAAAAAEAAAAAAAAAAQAAAAfwAAA3RjcA4xMC4wLjAuMToxMjM0NQMAAAABAmcxAQEBAQ=="]],4132844728]"#;

fn refused(record: &[u8]) -> RecordError {
    MooncakeBatch::decode(record).expect_err("the record was accepted")
}

/// What is wrong with the array `head`, its checksum being right.
fn fault(head: &str) -> (RecordErrorKind, &'static str, usize) {
    let error = refused(&sealed(head));
    (error.kind, error.field, error.offset)
}

#[test]
fn the_originals_records_are_read() {
    let first = MooncakeBatch::decode(FIRST.as_bytes()).unwrap();
    assert_eq!((first.batch_id.get(), first.first_seq.get(), first.last_seq.get()), (1, 1, 2));
    let seen: Vec<_> =
        first.entries.iter().map(|e| (e.op_type, e.tenant.as_str(), e.key.as_slice(), e.payload.as_slice())).collect();
    assert_eq!(seen, [(1, "default", &b"key1"[..], &b"value1"[..]), (3, "default", b"key1", b"")]);
    let second = MooncakeBatch::decode(SECOND.as_bytes()).unwrap();
    assert_eq!((second.batch_id.get(), second.first_seq.get(), second.last_seq.get()), (2, 3, 4));
    assert_eq!(second.entries[1].tenant.as_str(), "tenant-a");
    assert_eq!(second.entries[1].key, "obj/\u{e9}".as_bytes());
    assert_eq!(second.entries[0].payload[..4], [0x44, 0x04, 0x47, 0x7b]);
}

#[test]
fn the_test_encoder_writes_the_originals_bytes() {
    let first = encode::batch(1, 1, &[(1, "default", "key1", b"value1"), (3, "default", "key1", b"")]);
    assert_eq!(first, FIRST.as_bytes());
    let second = MooncakeBatch::decode(SECOND.as_bytes()).unwrap();
    let [mount, put] = &second.entries[..] else { unreachable!("it has two") };
    let again = encode::batch(
        2,
        3,
        &[(5, "default", "10.0.0.1:12345", &mount.payload), (1, "tenant-a", "obj/\u{e9}", &put.payload)],
    );
    assert_eq!(again, SECOND.as_bytes());
    for (text, sum) in [("", 0x02cc_5d05), ("value1", 2_631_246_273), ("key1", 133_378_825)] {
        assert_eq!(encode::xxh32(text.as_bytes()), sum, "{text}");
    }
    assert_eq!(encode::string("a/\u{7f}\"\\\u{1}"), "\"a/\u{7f}\\\"\\\\\\u0001\"");
    assert_eq!(encode::string("\u{e9}\u{1f600}"), "\"\\u00e9\\ud83d\\ude00\"");
}

#[test]
fn s10_every_changed_byte_of_a_record_is_found() {
    for record in [FIRST, SECOND] {
        for at in 0..record.len() {
            for bit in 0..8 {
                let mut changed = record.as_bytes().to_vec();
                changed[at] ^= 1 << bit;
                let error = refused(&changed);
                assert!(error.offset <= changed.len(), "byte {at} bit {bit}: {error}");
            }
        }
        for len in 0..record.len() {
            refused(&record.as_bytes()[..len]);
        }
    }
}

#[test]
fn the_checksum_is_over_the_text_as_it_is_written() {
    // The same array to any JSON reader; another text, so another checksum.
    let escaped = FIRST.replacen("key1", "\\u006bey1", 1);
    let error = refused(escaped.as_bytes());
    assert_eq!((error.kind, error.field, error.offset), (RecordErrorKind::Checksum, "checksum", 72));
    let (head, _) = escaped.rsplit_once(',').unwrap();
    let batch = MooncakeBatch::decode(&sealed(head)).unwrap();
    assert_eq!(batch.entries[0].key, b"key1");
    let error = refused(FIRST.replace("966717365", "966717366").as_bytes());
    assert_eq!((error.kind, error.field, error.offset), (RecordErrorKind::Checksum, "checksum", 67));
    assert!(error.expected.starts_with("966717365"), "{error}");
}

#[test]
fn arrays_too_short_or_too_long_are_refused() {
    use RecordErrorKind::Malformed;
    for (text, offset) in [("", 0), ("[", 0), ("[]", 0), ("[1,1,1,2]", 0), ("{}", 0), ("7", 0), ("\"[1]\"", 0)] {
        let error = refused(text.as_bytes());
        assert_eq!((error.kind, error.field, error.offset), (Malformed, "batch", offset), "{text}: {error}");
    }
    let entry = r#"[3,"t","k",""]"#;
    assert_eq!(fault(&format!("[1,1,1,1,[{entry}],9")), (Malformed, "batch", 0), "seven elements");
    assert_eq!(fault("[1,1,1,1"), (Malformed, "batch", 0), "five elements");
    assert_eq!(fault(r#"[1,1,1,1,[[3,"t","k"]]"#), (Malformed, "entry", 10));
    assert_eq!(fault(r#"[1,1,1,1,[[3,"t","k","",0]]"#), (Malformed, "entry", 10));
    assert_eq!(fault(r#"[1,1,1,1,[3]"#), (Malformed, "entry", 10));
    assert_eq!(fault(r#"[1,1,1,1,{}"#), (Malformed, "entries", 9));
    let mut long = FIRST.as_bytes().to_vec();
    long.push(b'x');
    assert_eq!(refused(&long).field, "batch");
}

#[test]
fn ten_thousand_levels_cost_no_stack() {
    use RecordErrorKind::{Checksum, Malformed};
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let nested = format!("{open}1{close}");
    for (head, expected) in [
        (format!("[{nested},1,1,1,[]"), (Malformed, "schema version", 1)),
        (format!("[1,{nested},1,1,[]"), (Malformed, "batch_id", 3)),
        (format!("[1,1,1,1,{nested}"), (Malformed, "entry", 10)),
        (format!("[1,1,1,1,[[{nested},\"t\",\"k\",\"\"]]"), (Malformed, "op type", 11)),
        (format!("[1,1,1,1,[[3,\"t\",\"k\",{nested}]]"), (Malformed, "payload", 21)),
    ] {
        assert_eq!(fault(&head), expected);
    }
    let error = refused(nested.as_bytes());
    assert_eq!((error.kind, error.field), (Malformed, "batch"));
    refused(open.as_bytes());
    refused("[{\"a\":".repeat(10_000).as_bytes());
    let error = refused(format!("[1,1,1,1,{nested},0]").as_bytes());
    assert_eq!(error.kind, Checksum);
}

#[test]
fn numbers_are_whole_and_in_range() {
    use RecordErrorKind::{Constraint, Malformed, Version};
    let entries = r#"[[3,"t","k",""]]"#;
    for (head, expected) in [
        (format!("[2,1,1,1,{entries}"), (Version, "schema version", 1)),
        (format!("[1.0,1,1,1,{entries}"), (Malformed, "schema version", 1)),
        (format!("[1,1.0,1,1,{entries}"), (Malformed, "batch_id", 3)),
        (format!("[1,\"1\",1,1,{entries}"), (Malformed, "batch_id", 3)),
        (format!("[1,0,1,1,{entries}"), (Constraint, "batch_id", 3)),
        (format!("[1,-1,1,1,{entries}"), (Malformed, "batch_id", 3)),
        (format!("[1,18446744073709551616,1,1,{entries}"), (Malformed, "batch_id", 3)),
        (format!("[1,18446744073709551615,1,1,{entries}"), (Malformed, "batch_id", 3)),
        (format!("[1,1,0,0,{entries}"), (Constraint, "first_seq", 5)),
        (format!("[1,2,1,1,{entries}"), (Constraint, "first_seq", 5)),
        (format!("[1,1,1,2,{entries}"), (Constraint, "last_seq", 7)),
        (format!("[1,1,2,1,{entries}"), (Constraint, "last_seq", 7)),
        (format!("[1,1,1,1e0,{entries}"), (Malformed, "last_seq", 7)),
        ("[1,1,1,1,[]".into(), (Constraint, "entries", 9)),
        (r#"[1,1,1,1,[[256,"t","k",""]]"#.into(), (Malformed, "op type", 11)),
        (r#"[1,1,1,1,[["3","t","k",""]]"#.into(), (Malformed, "op type", 11)),
        (r#"[1,1,1,1,[[3.0,"t","k",""]]"#.into(), (Malformed, "op type", 11)),
    ] {
        assert_eq!(fault(&head), expected, "{head}");
    }
    for last in ["-1", "1.5", "4294967296", "\"1\"", "null"] {
        let error = refused(format!("[1,1,1,1,{entries},{last}]").as_bytes());
        assert_eq!((error.kind, error.field, error.offset), (Malformed, "checksum", 26), "{last}");
    }
}

#[test]
fn strings_keep_their_limits_and_payloads_their_padding() {
    use RecordErrorKind::{Constraint, Malformed};
    let entry = |tenant: &str, key: &str, payload: &str| format!("[1,1,1,1,[[3,{tenant},{key},{payload}]]");
    let long_key = |len| format!("\"{}\"", "k".repeat(len));
    for (head, expected) in [
        (entry("7", "\"k\"", "\"\""), (Malformed, "tenant", 13)),
        (entry("\"\"", "\"k\"", "\"\""), (Constraint, "tenant", 13)),
        (entry("\"_t\"", "\"k\"", "\"\""), (Constraint, "tenant", 13)),
        (entry("\"a\\u001f\"", "\"k\"", "\"\""), (Constraint, "tenant", 13)),
        (entry("\"a\u{7f}\"", "\"k\"", "\"\""), (Constraint, "tenant", 13)),
        (entry("\"t\"", "null", "\"\""), (Malformed, "key", 17)),
        (entry("\"t\"", "\"\\ud800\"", "\"\""), (Malformed, "key", 24)),
        (entry("\"t\"", &long_key(MAX_KEY_BYTES + 1), "\"\""), (Constraint, "key", 17)),
        (entry("\"t\"", "\"k\"", "7"), (Malformed, "payload", 21)),
        (entry("\"t\"", "\"k\"", "\"dmFsdWU\""), (Malformed, "payload", 21)),
        (entry("\"t\"", "\"k\"", "\"dg\""), (Malformed, "payload", 21)),
        (entry("\"t\"", "\"k\"", "\"dm=s\""), (Malformed, "payload", 21)),
        (entry("\"t\"", "\"k\"", "\"dm-_\""), (Malformed, "payload", 21)),
        (entry("\"t\"", "\"k\"", "\"dh==\""), (Malformed, "payload", 21)),
        (entry("\"t\"", "\"k\"", "\"dg==\\n\""), (Malformed, "payload", 21)),
    ] {
        assert_eq!(fault(&head), expected, "{head}");
    }
    MooncakeBatch::decode(&sealed(&entry("\"t\"", &long_key(MAX_KEY_BYTES), "\"dg==\""))).unwrap();
    MooncakeBatch::decode(&sealed(&entry("\"t\"", "\"\"", "\"\""))).unwrap();
}

#[test]
fn payloads_and_entries_are_counted_before_they_are_decoded() {
    let largest = vec![7; MAX_PAYLOAD_BYTES];
    let batch = MooncakeBatch::decode(&encode::batch(1, 1, &[(1, "t", "k", &largest)])).unwrap();
    assert_eq!(batch.entries[0].payload, largest);
    for more in [1, 4] {
        let error = refused(&encode::batch(1, 1, &[(1, "t", "k", &vec![7; MAX_PAYLOAD_BYTES + more])]));
        assert_eq!((error.field, error.offset), ("payload", 21), "{error}");
    }
    let entries = vec![(3, "t", "k", &b""[..]); MAX_BATCH_ENTRIES + 1];
    let full = MooncakeBatch::decode(&encode::batch(1, 1, &entries[1..])).unwrap();
    assert_eq!(full.last_seq.get(), MAX_BATCH_ENTRIES as u64);
    let error = refused(&encode::batch(1, 1, &entries));
    assert_eq!((error.field, error.offset, error.found.as_str()), ("entries", 12, "1025"));
}

#[test]
fn white_space_is_not_compact() {
    let entries = r#"[[3,"t","k",""]]"#;
    for (head, field) in [
        (format!("[ 1,1,1,1,{entries}"), "batch"),
        (format!("[1, 1,1,1,{entries}"), "batch"),
        (format!("[1,1,1,1,{entries} "), "batch"),
        (format!("[1,1,1,1,[ {}", &entries[1..]), "entries"),
        (r#"[1,1,1,1,[[3,"t", "k",""]]"#.into(), "entry"),
    ] {
        assert_eq!(fault(&head).1, field, "{head}");
    }
    assert_eq!(refused(format!(" {FIRST}").as_bytes()).field, "batch");
    assert_eq!(refused(format!("{FIRST}\n").as_bytes()).field, "batch");
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        id in 1_u64..1000,
        skip in 0_u64..1000,
        entries in proptest::collection::vec(
            (1_u8..8, "[a-z]{1,8}", any::<String>(), proptest::collection::vec(any::<u8>(), 0..40)), 1..8),
    ) {
        let entries: Vec<_> = entries.iter().map(|(op, t, k, p)| (*op, t.as_str(), k.as_str(), p.as_slice())).collect();
        let batch = MooncakeBatch::decode(&encode::batch(id, id + skip, &entries)).unwrap();
        prop_assert_eq!((batch.batch_id.get(), batch.first_seq.get()), (id, id + skip));
        let read: Vec<_> = batch.entries.iter()
            .map(|e| (e.op_type, e.tenant.as_str(), std::str::from_utf8(&e.key).unwrap(), e.payload.as_slice()))
            .collect();
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = MooncakeBatch::decode(&bytes);
    }

    #[test]
    fn no_json_like_text_makes_the_decoder_panic(text in r#"[\[\]{},:"\\u0-9a-e. ]{0,80}"#) {
        let _ = MooncakeBatch::decode(text.as_bytes());
        let _ = MooncakeBatch::decode(&sealed(&text));
    }
}
