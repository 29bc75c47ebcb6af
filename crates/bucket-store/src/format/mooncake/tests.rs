//! Tests of reading Mooncake's tables.

use ha_types::ObjectIncarnation;
use proptest::prelude::*;
use prost::Message;

use super::super::error::FormatError;
use super::super::names::BucketId;
use super::super::table::{RecordLayout, Table};
use super::super::test_bytes::unhex;
use super::{BucketMeta, ObjectMeta};

/// The vector of the wire page.
const VECTOR: &str = "08bf02 1209 64656661756c740061 120a 64656661756c74006262 1a04 10091864 1a07 086d100a18c801";

fn decode(bytes: &[u8]) -> Result<Table, FormatError> {
    Table::decode(bytes, BucketId(3), 1 << 20)
}

fn meta(data_size: i64, records: &[(&[u8], i64, i64, i64)]) -> Vec<u8> {
    let keys = records.iter().map(|(key, ..)| key.to_vec()).collect();
    let metadatas = records
        .iter()
        .map(|(_, offset, key_size, data_size)| ObjectMeta {
            offset: *offset,
            key_size: *key_size,
            data_size: *data_size,
        })
        .collect();
    BucketMeta { data_size, keys, metadatas }.encode_to_vec()
}

#[test]
fn the_wire_pages_vector_is_read() {
    let table = decode(&unhex(VECTOR)).unwrap();
    assert_eq!((table.bucket, table.layout), (BucketId(3), RecordLayout::MooncakeRaw));
    assert_eq!((table.age, table.data_len), (3, 319));
    let slots: Vec<_> =
        table.slots.iter().map(|s| (&*s.key, s.offset, s.value_len, s.value_offset(table.layout))).collect();
    assert_eq!(slots, [(&b"default\0a"[..], 0, 100, 9), (&b"default\0bb"[..], 109, 200, 119)]);
    assert!(
        table
            .slots
            .iter()
            .all(|s| s.incarnation == ObjectIncarnation::LEGACY && s.write_number == 0 && s.tombstone.is_none())
    );
    assert_eq!(Table::decode(&unhex(VECTOR), BucketId(3), 319).unwrap(), table);
    let again = Table::decode(&table.encode().unwrap(), BucketId(3), 319).unwrap();
    assert_eq!(again, table, "the first tombstone replaces it by a table of ours");
}

/// A reader that takes a tag at the end for a field that is not there parses 9 of the 41 truncations, 6 of them with other counts; a
/// strict one parses 5 and 3. Every one of either is refused here.
#[test]
fn all_41_truncations_of_the_vector_are_refused() {
    let whole = unhex(VECTOR);
    assert_eq!(whole.len(), 41);
    let mut parsed = Vec::new();
    for len in 0..whole.len() {
        let err = decode(&whole[..len]).unwrap_err();
        if let Ok(read) = BucketMeta::decode(&whole[..len]) {
            parsed.push((len, read.keys.len() == read.metadatas.len(), err.field().to_owned()));
        }
    }
    let counts = "count of metadatas";
    let expected = [
        (0, true, "end of the last record"),
        (3, true, "end of the last record"),
        (14, false, counts),
        (26, false, counts),
        (32, false, counts),
    ];
    assert_eq!(parsed, expected.map(|(len, equal, field)| (len, equal, field.to_owned())));
    let lenient = [0, 3, 4, 14, 15, 26, 27, 32, 33];
    assert!(lenient.iter().all(|len| decode(&whole[..*len]).is_err()));
}

#[test]
fn a_data_file_too_short_for_the_records_is_refused() {
    let err = Table::decode(&unhex(VECTOR), BucketId(3), 318).unwrap_err();
    assert_eq!((err.field(), err.found().as_str()), ("data_len", "319"));
}

#[test]
fn each_fault_is_named() {
    let a: (&[u8], i64, i64, i64) = (b"t\0a", 0, 3, 10);
    let cases: [(&str, Vec<u8>, &str, &str); 13] = [
        ("negative size", meta(-1, &[a]), "data_size", "-1"),
        ("negative offset", meta(13, &[(b"t\0a", -5, 3, 10)]), "metadatas[0].offset", "-5"),
        ("negative key size", meta(13, &[(b"t\0a", 0, -3, 10)]), "metadatas[0].key_size", "-3"),
        ("negative value", meta(13, &[(b"t\0a", 0, 3, i64::MIN)]), "metadatas[0].data_size", "-9223372036854775808"),
        ("another key's length", meta(13, &[(b"t\0a", 0, 4, 9)]), "metadatas[0].key_size", "4"),
        ("empty value", meta(3, &[(b"t\0a", 0, 3, 0)]), "metadatas[0].data_size", "0"),
        ("over 4 GiB", meta(3 + (1 << 32), &[(b"t\0a", 0, 3, 1 << 32)]), "metadatas[0].data_size", "4294967296"),
        ("overlap", meta(26, &[a, (b"t\0b", 12, 3, 11)]), "offset of \"t\\x00b\"", "12"),
        ("gap", meta(27, &[a, (b"t\0b", 14, 3, 10)]), "offset of \"t\\x00b\"", "14"),
        ("past the end", meta(12, &[a]), "end of the last record", "13"),
        ("bytes without record", meta(14, &[a]), "end of the last record", "13"),
        ("no separator", meta(13, &[(b"abc", 0, 3, 10)]), "keys[0]", ""),
        ("far offset", meta(13, &[a, (b"t\0b", i64::MAX, 3, 10)]), "offset of \"t\\x00b\"", "9223372036854775807"),
    ];
    for (name, bytes, field, found) in cases {
        let err = decode(&bytes).unwrap_err();
        assert_eq!(err.field(), field, "{name}: {err}");
        assert!(err.found() == found || found.is_empty(), "{name}: {err}");
        assert!(!err.is_unknown_version(), "{name}: {err}");
    }
    let err = decode(&meta(26, &[a, (b"t\0a", 13, 3, 10)])).unwrap_err();
    assert!(err.found().contains("again"), "{err}");
    let second_negative = decode(&meta(26, &[a, (b"t\0b", 13, 3, -1)])).unwrap_err();
    assert_eq!(second_negative.offset(), 2 + 5 + 5 + 6, "where metadatas[1] begins");
}

#[test]
fn records_out_of_order_are_put_in_order() {
    let table = decode(&meta(26, &[(b"t\0b", 13, 3, 10), (b"t\0a", 0, 3, 10)])).unwrap();
    assert_eq!(table.slots.iter().map(|slot| slot.offset).collect::<Vec<_>>(), [0, 13]);
}

#[test]
fn b15_a_field_of_a_newer_mooncake_is_refused_not_skipped() {
    let mut bytes = meta(13, &[(b"t\0a", 0, 3, 10)]);
    bytes.extend_from_slice(&[0x20, 1]);
    let err = decode(&bytes).unwrap_err();
    assert!(err.is_unknown_version(), "{err}");
    assert_eq!((err.offset(), err.found().as_str()), (bytes.len() as u64 - 2, "32"));
    // in each record: say, tombstoned = 4
    let bytes = unhex("080d 1203740061 1a06 1003180a2001");
    assert!(decode(&bytes).unwrap_err().is_unknown_version());
}

proptest! {
    #[test]
    fn what_mooncake_writes_is_read(sizes in proptest::collection::vec((1_i64..40, 1_i64..100_000), 1..20)) {
        let mut at = 0;
        let keys: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, (len, _))| [b"t\0", &vec![b'k'; *len as usize][..], i.to_string().as_bytes()].concat()).collect();
        let mut records = Vec::new();
        for (key, (_, size)) in keys.iter().zip(&sizes) {
            records.push((&key[..], at, key.len() as i64, *size));
            at += key.len() as i64 + size;
        }
        let table = Table::decode(&meta(at, &records), BucketId(3), at as u64).unwrap();
        let read: Vec<_> = table.slots.iter().map(|s| (&*s.key, s.offset as i64, s.key.len() as i64, i64::from(s.value_len))).collect();
        prop_assert_eq!(read, records);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), at: proptest::sample::Index, byte: u8) {
        let _ = decode(&bytes);
        let mut vector = unhex(VECTOR);
        let at = at.index(vector.len());
        vector[at] = byte;
        if let Ok(table) = decode(&vector) {
            prop_assert_eq!(table.slots.len(), 2);
        }
    }
}
