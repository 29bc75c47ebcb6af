//! Tests of the table's bytes.

use ha_types::ObjectIncarnation;
use proptest::prelude::*;

use super::super::error::FormatError;
use super::super::names::BucketId;
use super::super::record::MAX_WRITE_NUMBER;
use super::super::test_bytes::{hex, refuses_every_cut_and_flip, refuses_more_in_the_body, unhex, with_crc};
use super::{RecordLayout, Slot, Table, Tombstone};

fn slot(key: &[u8], number: u8, offset: u64, value_len: u32) -> Slot {
    let incarnation = ObjectIncarnation::from_bytes([number; 16]);
    Slot { key: key.into(), incarnation, write_number: number.into(), offset, value_len, tombstone: None }
}

fn table() -> Table {
    let first = slot(b"t\0a", 1, 0, 10);
    let second = Slot { tombstone: Some(Tombstone::Replaced), ..slot(b"t\0b", 2, 57, 20) };
    Table { bucket: BucketId(9), layout: RecordLayout::Checksummed, age: 4, data_len: 124, slots: vec![first, second] }
}

fn decode(bytes: &[u8]) -> Result<Table, FormatError> {
    Table::decode(bytes, BucketId(9), 1 << 20)
}

/// The bytes of a table, checked by nobody.
fn unchecked(table: &Table) -> Vec<u8> {
    let mut out = b"PLBT\x02\0".to_vec();
    out.extend_from_slice(&[u8::from(table.layout == RecordLayout::Checksummed), 0]);
    for number in [table.bucket.0, table.age, table.data_len] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&(table.slots.len() as u32).to_le_bytes());
    for slot in &table.slots {
        out.extend_from_slice(&slot.offset.to_le_bytes());
        out.extend_from_slice(&slot.write_number.to_le_bytes());
        out.extend_from_slice(&slot.incarnation.to_bytes());
        out.extend_from_slice(&(slot.key.len() as u32).to_le_bytes());
        out.extend_from_slice(&slot.value_len.to_le_bytes());
        out.push(slot.tombstone.map_or(0, |it| if it == Tombstone::Deleted { 3 } else { 1 }));
        out.extend_from_slice(&slot.key);
    }
    with_crc(out)
}

const GOLDEN_1: &str = "504c425401000100090000000000000004000000000000007c0000000000000002000000000000000000000001000000\
    0000000001010101010101010101010101010101030000000a0000000074006139000000000000000200000000000000\
    02020202020202020202020202020202030000001400000001740062474a76f6";

#[test]
fn golden_bytes_of_version_1() {
    let bytes = unhex(GOLDEN_1);
    assert_eq!(decode(&bytes), Ok(table()), "its tombstone does not say why, so it says the less");
    refuses_every_cut_and_flip(&bytes, decode);
    refuses_more_in_the_body(&bytes, decode);
}

#[test]
fn golden_bytes_of_version_2() {
    let mut table = table();
    table.slots.push(Slot { tombstone: Some(Tombstone::Deleted), ..slot(b"t\0c", 3, 124, 5) });
    table.data_len = 176;
    let bytes = table.encode().unwrap();
    let golden = "504c42540200010009000000000000000400000000000000b00000000000000003000000000000000000000001000000\
        0000000001010101010101010101010101010101030000000a0000000074006139000000000000000200000000000000\
        020202020202020202020202020202020300000014000000017400627c00000000000000030000000000000003030303\
        030303030303030303030303030000000500000003740063c517e88e";
    assert_eq!(hex(&bytes), golden);
    assert_eq!(bytes.len() as u64, table.encoded_len());
    assert_eq!(decode(&bytes), Ok(table));
    refuses_every_cut_and_flip(&bytes, decode);
    refuses_more_in_the_body(&bytes, decode);
}

#[test]
fn a_raw_table_of_ours_keeps_mooncakes_layout() {
    let raw = |key: &[u8], offset| Slot {
        write_number: 0,
        incarnation: ObjectIncarnation::LEGACY,
        ..slot(key, 0, offset, 10)
    };
    let slots = vec![raw(b"t\0a", 0), raw(b"t\0b", 13)];
    let made = Table { layout: RecordLayout::MooncakeRaw, data_len: 26, slots, ..table() };
    let bytes = made.encode().unwrap();
    assert_eq!(bytes[6], 0);
    assert_eq!(decode(&bytes), Ok(made));
}

#[test]
fn each_fault_is_named_with_its_slot_and_byte_by_both_sides() {
    type Change = fn(&mut Table);
    let cases: [(Change, &str, u64, &str); 16] = [
        (|t| t.bucket = BucketId(0), "bucket", 8, "0"),
        (|t| t.age = 0, "age", 16, "0"),
        (|t| t.age = 10, "age", 16, "10"),
        (|t| t.data_len = 123, "slots[1].offset", 80, "57 and 67 bytes"),
        (|t| t.slots[1].offset = 56, "slots[1].offset", 80, "56"),
        (|t| t.slots[1].offset = u64::MAX, "slots[1].offset", 80, "18446744073709551615 and 67 bytes"),
        (|t| t.slots.swap(0, 1), "slots[1].offset", 80, "0"),
        (|t| t.slots[0].value_len = 0, "slots[0].value_len", 72, "0"),
        (|t| t.slots[0].value_len = u32::MAX, "slots[0].offset", 36, "0 and 4295229482 bytes"),
        (|t| t.slots[1].write_number = 1 << 63, "slots[1].write_number", 88, "9223372036854775808"),
        (|t| t.bucket = BucketId(1 << 63), "bucket", 8, "9223372036854775808"),
        (|t| t.slots[1].key = (*b"tbb").into(), "slots[1].key", 121, ""),
        (|t| t.slots[1].key = (*b"\0bb").into(), "slots[1].key", 121, ""),
        (|t| t.slots[1].key = (*b"tb\0").into(), "slots[1].key", 121, ""),
        (|t| t.layout = RecordLayout::MooncakeRaw, "slots[0].write_number", 44, "1"),
        (
            |t| {
                t.slots[1].key = t.slots[0].key.clone();
                t.slots[1].incarnation = t.slots[0].incarnation;
            },
            "slots[1].key",
            121,
            "\"t\\x00a\" with 01010101010101010101010101010101 again",
        ),
    ];
    for (change, field, offset, found) in cases {
        let mut table = table();
        change(&mut table);
        for err in [decode(&unchecked(&table)).unwrap_err(), table.encode().unwrap_err()] {
            assert_eq!((err.field(), err.offset()), (field, offset), "{err}");
            assert!(err.found() == found || found.is_empty(), "{err}");
            assert!(!err.is_unknown_version());
        }
    }
}

#[test]
fn one_key_with_two_incarnations_is_allowed() {
    let mut table = table();
    table.slots[1].key = table.slots[0].key.clone();
    assert_eq!(decode(&table.encode().unwrap()), Ok(table));
}

#[test]
fn a_table_of_another_bucket_or_beside_a_short_data_file_is_refused() {
    let bytes = table().encode().unwrap();
    let err = Table::decode(&bytes, BucketId(8), 124).unwrap_err();
    assert_eq!((err.field(), err.expected().as_str(), err.found().as_str()), ("bucket", "8", "9"));
    let err = Table::decode(&bytes, BucketId(9), 123).unwrap_err();
    assert_eq!((err.field(), err.offset(), err.found().as_str()), ("data_len", 24, "124"));
    assert!(Table::decode(&bytes, BucketId(9), 124).is_ok());
}

#[test]
fn b15_unknown_version_layout_flag_and_reserved_byte_are_told_from_damage() {
    let (first, second) = (unhex(GOLDEN_1), unchecked(&table()));
    for (golden, at, byte, field, known) in [
        (&second, 4, 3, "version", "versions 1 and 2"),
        (&second, 4, 0, "version", "versions 1 and 2"),
        (&second, 6, 2, "layout", "0 (Mooncake's raw) and 1"),
        (&second, 7, 2, "reserved byte", "0"),
        (&second, 76, 2, "flags", "0, 1 (replaced) and 3 (deleted)"),
        (&second, 76, 7, "flags", "0, 1 (replaced) and 3 (deleted)"),
        (&first, 76, 2, "flags", "0 and 1 (tombstoned)"),
        (&first, 76, 3, "flags", "0 and 1 (tombstoned)"),
    ] {
        let mut bytes = golden[..golden.len() - 4].to_vec();
        bytes[at] = byte;
        let err = decode(&with_crc(bytes)).unwrap_err();
        assert!(err.is_unknown_version(), "{err}");
        assert_eq!(
            (err.field(), err.offset(), err.expected(), err.found()),
            (field, at as u64, known.to_owned(), byte.to_string())
        );
    }
}

#[test]
fn a_count_that_the_file_cannot_hold_is_refused_before_room_is_taken_for_it() {
    let golden = unchecked(&table());
    let mut bytes = golden[..golden.len() - 4].to_vec();
    bytes[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    let err = decode(&with_crc(bytes)).unwrap_err();
    assert_eq!((err.field(), err.found().as_str()), ("slots", "88 bytes"));
}

fn some_table() -> impl Strategy<Value = Table> {
    let slot = (
        "[a-c]{1,3}",
        proptest::collection::vec(any::<u8>(), 1..6),
        any::<[u8; 16]>(),
        0..=MAX_WRITE_NUMBER,
        1_u32..200_000,
        0_u64..3,
        proptest::sample::select(vec![None, Some(Tombstone::Replaced), Some(Tombstone::Deleted)]),
    );
    (1..u64::MAX >> 1, proptest::collection::vec(slot, 0..12)).prop_map(|(bucket, parts)| {
        let mut end = 0;
        let mut slots: Vec<Slot> = Vec::new();
        for (tenant, key, incarnation, write_number, value_len, gap, tombstone) in parts {
            let key = [tenant.as_bytes(), &[0], &key].concat().into();
            let incarnation = ObjectIncarnation::from_bytes(incarnation);
            let slot = Slot { key, incarnation, write_number, offset: end + gap, value_len, tombstone };
            end = slot.offset + slot.record_len(RecordLayout::Checksummed);
            if slots.iter().all(|other| (&other.key, other.incarnation) != (&slot.key, slot.incarnation)) {
                slots.push(slot);
            }
        }
        Table {
            bucket: BucketId(bucket),
            layout: RecordLayout::Checksummed,
            age: bucket.div_ceil(2),
            data_len: end,
            slots,
        }
    })
}

proptest! {
    #[test]
    fn round_trip_and_no_flipped_bit_passes(table in some_table(), bit: proptest::sample::Index) {
        let mut bytes = table.encode().unwrap();
        prop_assert_eq!(bytes.len() as u64, table.encoded_len());
        prop_assert_eq!(Table::decode(&bytes, table.bucket, table.data_len), Ok(table.clone()));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Table::decode(&bytes, table.bucket, table.data_len).is_err());
    }

    #[test]
    fn no_bytes_panic_and_what_decodes_encodes_to_the_same(at: proptest::sample::Index, byte: u8, bytes in proptest::collection::vec(any::<u8>(), 0..150)) {
        let _ = decode(&bytes);
        let _ = decode(&with_crc([&b"PLBT\x02\0\x01\0"[..], &bytes].concat()));
        let golden = unchecked(&table());
        let mut bytes = golden[..golden.len() - 4].to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = with_crc(bytes);
        if let Ok(table) = decode(&bytes) {
            // What version 1 says is written anew in the same places.
            let written = if bytes[4] == 1 { with_crc([b"PLBT\x02", &bytes[5..bytes.len() - 4]].concat()) } else { bytes };
            prop_assert_eq!(table.encode().unwrap(), written);
        }
    }
}
