//! Owns the tests of the entry codec: the vectors of existing clusters, every kind of damage, and round trips.

use ha_types::{ClusterId, Seq};
use proptest::prelude::*;

use super::*;
use crate::{FaultKind, LogKeys, ReplayFault};

/// Keys and values as existing clusters hold them.
const VECTORS: [(&str, &str); 5] = [
    (
        "/oplog/c1/00000000000000000001",
        r#"{"checksum":2631246273,"object_key":"key1","op_type":1,"payload":"dmFsdWUx","prefix_hash":133378825,"sequence_id":1,"tenant_id":"default","timestamp_ms":1234567890}"#,
    ),
    (
        "/oplog/c1/00000000000000000002",
        r#"{"checksum":46947589,"object_key":"key1","op_type":3,"payload":"","prefix_hash":133378825,"sequence_id":2,"tenant_id":"default","timestamp_ms":1234567891}"#,
    ),
    (
        "/oplog/c1/00000000000000000003",
        r#"{"checksum":2631246273,"object_key":"key1","op_type":1,"payload":"dmFsdWUx","prefix_hash":133378825,"sequence_id":3,"timestamp_ms":1234567892}"#,
    ),
    (
        "/oplog/c1/00000000000000000004",
        r#"{"checksum":1341734200,"object_key":"obj/\u00e9\"q\"\u0001","op_type":1,"payload":"wzhHwAFYAIh3ZlVEMyIRAP/u3cy7qpkAEAAAAAAAAAEHAAAAAAAAAAAAEAAAAAAAAAAQAAAAfwAAA3RjcA4xMC4wLjAuMToxMjM0NQMAAAABAmcxAQEBAQ==","prefix_hash":3666982410,"sequence_id":4,"tenant_id":"tenant-a","timestamp_ms":1234567893}"#,
    ),
    (
        "/oplog/c1/00000000000000000005",
        r#"{"checksum":2775656506,"object_key":"10.0.0.1:12345","op_type":5,"payload":"RARHewVzZWctYQ4xMC4wLjAuMToxMjM0NQAAAEAAAAAAAQA=","prefix_hash":3965606232,"sequence_id":5,"tenant_id":"default","timestamp_ms":1234567894}"#,
    ),
];

fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c1").unwrap())
}

fn decode(key: &str, value: &str) -> Result<LegacyEntry, LegacyEntryError> {
    LegacyEntry::decode(&keys(), key.as_bytes(), value.as_bytes())
}

#[test]
fn the_vectors_are_read_and_written_byte_for_byte() {
    for (seq, (key, value)) in (1..).zip(VECTORS) {
        let entry = decode(key, value).unwrap();
        assert_eq!(entry.seq, Seq::new(seq));
        assert_eq!(keys().legacy_entry(entry.seq), key);
        assert_eq!((entry.timestamp_ms, entry.key_sequence_id), (1_234_567_889 + seq, None));
        // The third is of an older writer, which named no tenant; one of today names it.
        let written = value.replace(r#""sequence_id":3,"t"#, r#""sequence_id":3,"tenant_id":"default","t"#);
        assert_eq!(entry.encode(), written);
    }
    let entries: Vec<_> = VECTORS.iter().map(|(key, value)| decode(key, value).unwrap()).collect();
    let [put, remove, older, odd, mount] = &entries[..] else { unreachable!("five vectors") };
    assert_eq!((put.op_type, &put.payload[..], put.tenant.as_str()), (1, &b"value1"[..], "default"));
    assert_eq!((remove.op_type, remove.payload.len()), (3, 0));
    assert_eq!(older.tenant, "default");
    assert_eq!((odd.key.as_str(), odd.tenant.as_str(), odd.payload.len()), ("obj/\u{e9}\"q\"\u{1}", "tenant-a", 88));
    assert_eq!((mount.op_type, mount.key.as_str()), (5, "10.0.0.1:12345"));
    assert_eq!((mount.as_ref().epoch.get(), mount.as_ref().timestamp_ms), (0, 0), "no claim and no time of day");
}

#[test]
fn a_key_sequence_id_is_read_and_written_in_its_place() {
    let (key, value) = VECTORS[0];
    let with = value.replace(r#","object_key""#, r#","key_sequence_id":7,"object_key""#);
    let entry = decode(key, &with).unwrap();
    assert_eq!(entry.key_sequence_id, Some(7));
    assert_eq!(entry.encode(), with);
}

#[test]
fn order_and_blanks_do_not_matter_and_a_prefix_hash_of_zero_is_not_checked() {
    let (key, value) = VECTORS[0];
    let expected = decode(key, value).unwrap();
    let mut fields: Vec<&str> = value[1..value.len() - 1].split(',').collect();
    fields.reverse();
    let turned = format!("  {{ {} }}\n", fields.join(" ,\t")).replace("133378825", "0");
    assert_eq!(decode(key, &turned).unwrap(), expected);
}

#[test]
fn a_key_that_was_lost_as_u_fffd_is_read_as_it_is() {
    let (key, value) = VECTORS[0];
    let entry = decode(key, &value.replace("key1", "k\\ufffd").replace("133378825", "0")).unwrap();
    assert_eq!(entry.key, "k\u{fffd}");
}

/// The first vector with one thing wrong, what of it is said to be wrong, and words that the error must have.
#[test]
fn every_kind_of_damage_names_key_field_expected_and_found() {
    use LegacyProblem as P;
    let (key, value) = VECTORS[0];
    let swap = |from: &str, to: &str| {
        assert!(value.contains(from), "{from}");
        value.replace(from, to)
    };
    let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let cases: Vec<(String, P, &str, &str)> = vec![
        (swap(r#""op_type":1"#, r#""op_type":1,"op_type":1"#), P::Duplicate, "op_type", "a second time"),
        (swap(r#""op_type""#, r#""op_\u0074ype":1,"op_type""#), P::Duplicate, "op_type", "a second time"),
        (swap(r#""op_type":1,"#, ""), P::Missing, "op_type", "no such field"),
        (swap(r#","timestamp_ms":1234567890"#, ""), P::Missing, "timestamp_ms", "no such field"),
        (swap(r#""prefix_hash":133378825,"#, ""), P::Missing, "prefix_hash", "no such field"),
        (swap(r#""checksum":2631246273,"#, ""), P::Missing, "checksum", "no such field"),
        (swap(r#""object_key":"key1","#, ""), P::Missing, "object_key", "no such field"),
        (swap(r#""payload":"dmFsdWUx","#, ""), P::Missing, "payload", "no such field"),
        (swap(r#""sequence_id":1,"#, ""), P::Missing, "sequence_id", "no such field"),
        (swap("timestamp_ms", "timestamp"), P::Unknown, "timestamp", "as well"),
        (swap("object_key", "key"), P::Unknown, "key", "as well"),
        (swap(r#""op_type":1"#, r#""op_type":"PUT_END""#), P::Type, "op_type", r#"\"PUT_END\""#),
        (swap(r#""op_type":1"#, r#""op_type":1.0"#), P::Type, "op_type", "1.0"),
        (swap(r#""op_type":1"#, r#""op_type":true"#), P::Type, "op_type", "true"),
        (swap(r#""op_type":1"#, r#""op_type":0"#), P::Value, "op_type", "0"),
        (swap(r#""op_type":1"#, r#""op_type":8"#), P::Value, "op_type", "8"),
        (swap(r#""op_type":1"#, r#""op_type":256"#), P::Type, "op_type", "256"),
        (swap("_ms\":1234567890", "_ms\":1234567890e0"), P::Type, "timestamp_ms", "1234567890e0"),
        (swap("1234567890", "18446744073709551616"), P::Type, "timestamp_ms", "18446744073709551616"),
        (swap("1234567890", "-1"), P::Type, "timestamp_ms", "-1"),
        (swap("1234567890", "null"), P::Type, "timestamp_ms", "null"),
        (swap("2631246273", "4294967296"), P::Type, "checksum", "4294967296"),
        (swap("2631246273", "2631246274"), P::Checksum, "checksum", "2631246274"),
        (swap("dmFsdWUx", "dmFsdWUy"), P::Checksum, "checksum", "2631246273"),
        (swap("133378825", "3666982410"), P::PrefixHash, "prefix_hash", "3666982410"),
        (swap("dmFsdWUx", "dmFsdWU"), P::Base64, "payload", "dmFsdWU"),
        (swap("dmFsdWUx", "dmFsdW=="), P::Base64, "payload", "dmFsdW=="),
        (swap("dmFsdWUx", "dmFs_-Ux"), P::Base64, "payload", "dmFs_-Ux"),
        (swap("dmFsdWUx", "dmFs dWUx"), P::Base64, "payload", "dmFs dWUx"),
        (swap(r#""dmFsdWUx""#, "7"), P::Type, "payload", "7"),
        (swap(r#""key1""#, r#""\ud800""#), P::Type, "object_key", "ud800"),
        (swap(r#""key1""#, r#"["key1"]"#), P::Type, "object_key", "key1"),
        (swap(r#""default""#, r#""_system""#), P::Value, "tenant_id", "_system"),
        (swap(r#""default""#, r#""""#), P::Value, "tenant_id", r#"\"\""#),
        (swap(r#""default""#, "null"), P::Type, "tenant_id", "null"),
        (swap(r#""default""#, &deep), P::Type, "tenant_id", "[[[["),
        (swap(r#""sequence_id":1"#, r#""sequence_id":2"#), P::WrongSequence, "sequence_id", "2"),
        (swap(r#""op_type""#, r#""key_sequence_id":"5","op_type""#), P::Type, "key_sequence_id", "5"),
        (swap(r#""op_type""#, r#""extra":1,"op_type""#), P::Unknown, "extra", "as well"),
        (format!("{value}{value}"), P::Json, "the value", "trailing"),
        (value[..value.len() - 1].to_owned(), P::Json, "the value", "EOF"),
        (format!("[{value}]"), P::Json, "the value", "sequence"),
        (deep.clone(), P::Json, "the value", "sequence"),
        (String::new(), P::Json, "the value", "EOF"),
        ("null".to_owned(), P::Json, "the value", "null"),
    ];
    for (value, problem, field, found) in cases {
        let error = decode(key, &value).unwrap_err();
        assert_eq!((error.problem, error.field.as_str(), error.key.as_str()), (problem, field, key), "{error}");
        assert!(error.found.contains(found), "{error} should show {found}");
        assert!(!error.expected.is_empty() && error.found.len() < 200, "{error}");
        let fault = ReplayFault::from(error);
        assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::LegacyUndecodable, key));
        assert!(fault.expected.starts_with(field), "{fault}");
    }
    let broken = [&value.as_bytes()[..40], b"\xff", &value.as_bytes()[40..]].concat();
    let error = LegacyEntry::decode(&keys(), key.as_bytes(), &broken).unwrap_err();
    assert_eq!(error.problem, LegacyProblem::Json);
}

#[test]
fn only_a_suffix_of_twenty_digits_that_fit_is_an_entry() {
    let value = VECTORS[0].1;
    for suffix in [
        "0000000000000000001",
        "000000000000000000001",
        "18446744073709551616",
        "+0000000000000000001",
        "0000000000000000000a",
        "latest",
        "snapshot/00000000000000000001",
        "batches/00000000000000000001",
    ] {
        let error = decode(&format!("/oplog/c1/{suffix}"), value).unwrap_err();
        assert_eq!((error.problem, error.field.as_str()), (LegacyProblem::Key, "the key"), "{error}");
        assert!(suffix.ends_with(&error.found), "{error}");
    }
    for other in ["/oplog/c2/", "/oplog/c1", "/oplog/c1.b/", "/oplog/c12/"] {
        assert!(decode(&format!("{other}00000000000000000001"), value).is_err());
    }
    let error = decode("/oplog/c1/00000000000000000002", value).unwrap_err();
    assert_eq!(error.problem, LegacyProblem::WrongSequence);
    let last = decode("/oplog/c1/18446744073709551615", &value.replace("_id\":1", "_id\":18446744073709551615"));
    assert_eq!(last.unwrap().seq, Seq::new(u64::MAX));
}

#[test]
fn what_the_format_cannot_carry_is_refused_by_name() {
    let fine = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: b"" };
    let seq = Seq::new(1);
    assert!(LegacyEntry::new(seq, 0, &fine).is_ok());
    for (entry, field) in [
        (NewEntry { op_type: 0, ..fine }, "op_type"),
        (NewEntry { op_type: 8, ..fine }, "op_type"),
        (NewEntry { tenant: "_x", ..fine }, "tenant_id"),
        (NewEntry { key: b"", ..fine }, "object_key"),
        (NewEntry { key: &[b'k'; 4097], ..fine }, "object_key"),
        (NewEntry { key: b"k\xff", ..fine }, "object_key"),
    ] {
        let refusal = LegacyEntry::new(seq, 0, &entry).unwrap_err();
        assert_eq!(refusal.field, field, "{refusal}");
    }
    let refusal = LegacyEntry::new(seq, 0, &NewEntry { key: b"k\xff", ..fine }).unwrap_err();
    assert!(refusal.to_string().contains("k\\xff") && refusal.expected == "UTF-8", "{refusal}");
}

fn entry() -> impl Strategy<Value = LegacyEntry> {
    let (numbers, op) = ((any::<u64>(), any::<u64>()), 1..=LegacyEntry::MAX_OP_TYPE);
    let (tenant, key) = ("[a-zA-Z0-9\u{e9}\u{1F600}]{1,20}", any::<String>());
    (numbers, op, tenant, key, proptest::collection::vec(any::<u8>(), 0..200), any::<Option<u64>>()).prop_map(
        |((seq, timestamp_ms), op_type, tenant, key, payload, key_sequence_id)| LegacyEntry {
            seq: Seq::new(seq),
            timestamp_ms,
            op_type,
            tenant,
            key,
            payload: payload.into(),
            key_sequence_id,
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_back_and_is_ascii(entry in entry()) {
        let value = entry.encode();
        prop_assert!(value.is_ascii());
        let key = keys().legacy_entry(entry.seq);
        prop_assert_eq!(LegacyEntry::decode(&keys(), &key, &value).unwrap(), entry);
    }

    #[test]
    fn no_bytes_panic(value: Vec<u8>, at in 0_usize..160, with: u8) {
        let _ = LegacyEntry::decode(&keys(), b"/oplog/c1/00000000000000000001", &value);
        let mut damaged = VECTORS[0].1.as_bytes().to_vec();
        if let Some(byte) = damaged.get_mut(at) { *byte = with; }
        let _ = LegacyEntry::decode(&keys(), b"/oplog/c1/00000000000000000001", &damaged);
    }

    /// A changed byte is found out, or the entry says the same but for what no sum covers: time and tenant.
    #[test]
    fn a_flipped_bit_never_changes_key_payload_or_place(at in 0_usize..160, bit in 0_u8..8) {
        let (key, value) = VECTORS[0];
        let mut damaged = value.as_bytes().to_vec();
        prop_assume!(at < damaged.len());
        damaged[at] ^= 1 << bit;
        let original = decode(key, value).unwrap();
        if let Ok(read) = LegacyEntry::decode(&keys(), key.as_bytes(), &damaged) {
            prop_assert_eq!(read.payload, original.payload);
            prop_assert_eq!(read.key, original.key);
            prop_assert_eq!(read.seq, original.seq);
        }
    }
}

#[test]
fn the_document_holds_the_vectors() {
    let document = include_str!("../../../../../docs/formats/legacy-entry.md");
    for (key, value) in VECTORS {
        assert!(document.contains(&format!("{key}\n{value}\n")), "{key}");
    }
}
