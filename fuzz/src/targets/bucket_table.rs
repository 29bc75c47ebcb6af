//! Owns our bucket tables: what decodes encodes to the same bytes, its records do not overlap, and it is the table of one bucket and of
//! a data file that is long enough only.

use bucket_store::format::names::BucketId;
use bucket_store::format::table::{RecordLayout, Slot, Table, Tombstone};
use ha_types::ObjectIncarnation;

use super::{refused_file, with_last_crc};
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_table", run, seeds };

fn run(data: &[u8]) -> Verdict {
    if let Some(repaired) = with_last_crc(data) {
        one(&repaired);
    }
    one(data)
}

fn one(data: &[u8]) -> Verdict {
    let claimed = data.get(8..).and_then(|rest| rest.first_chunk()).copied().map_or(1, u64::from_le_bytes);
    // Slots, keys of their own and the set that finds one twice stand against 44 bytes of the smallest slot.
    let table = match bound::within(data.len(), 32, || Table::decode(data, BucketId(claimed), u64::MAX)) {
        Ok(table) => table,
        Err(e) => return refused_file(&e, data),
    };
    if Table::is_ours(data) {
        let written = table.encode().expect("what decodes may be");
        if data[4] == 1 {
            // Version 1 is not written any more; the version and the checksum are all that differs.
            assert_eq!((&written[..4], &written[5..written.len() - 4]), (&data[..4], &data[5..data.len() - 4]));
        } else {
            assert_eq!(written, data, "one table, one file");
        }
        assert!(Table::decode(data, BucketId(claimed ^ 1), u64::MAX).is_err(), "another bucket's");
    }
    holds_together(&table, data);
    Verdict::Accepted
}

pub(super) fn holds_together(table: &Table, data: &[u8]) {
    let mut end = 0;
    for slot in &table.slots {
        assert!(slot.offset >= end && slot.value_len > 0);
        end = slot.value_offset(table.layout) + u64::from(slot.value_len);
    }
    assert!(end <= table.data_len && (1..=table.bucket.0).contains(&table.age) && table.bucket.is_valid());
    assert_eq!(table.encode().map(|bytes| bytes.len() as u64), Ok(table.encoded_len()));
    assert!(Table::decode(data, table.bucket, table.data_len).is_ok());
    if let Some(short) = table.data_len.checked_sub(1) {
        assert!(Table::decode(data, table.bucket, short).is_err(), "the data file is too short");
    }
}

fn seeds() -> Vec<Seed> {
    let slot = |key: &[u8], number, offset| {
        let incarnation = ObjectIncarnation::from_bytes([number as u8; 16]);
        let tombstone = [None, None, Some(Tombstone::Replaced), Some(Tombstone::Deleted)][number as usize];
        Slot { key: key.into(), incarnation, write_number: number, offset, value_len: 10, tombstone }
    };
    let slots = vec![slot(b"t\0a", 1, 0), slot(b"t\0b", 2, 57), slot(b"t\0a", 3, 200)];
    let table = Table { bucket: BucketId(9), layout: RecordLayout::Checksummed, age: 4, data_len: 1000, slots };
    let bytes = table.encode().expect("a table that may be");
    let raw = |key: &[u8], offset| Slot { incarnation: ObjectIncarnation::LEGACY, ..slot(key, 0, offset) };
    let slots = vec![raw(b"t\0a", 0), raw(b"t\0b", 13)];
    let raw = Table { layout: RecordLayout::MooncakeRaw, data_len: 26, slots, ..table };
    let change = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        with_last_crc(&bytes).expect("long enough")
    };
    let mut oldest = bytes.clone();
    oldest[4] = 1;
    let version_1_with_a_new_flag = with_last_crc(&oldest).expect("long enough");
    oldest[164] = 1;
    let version_1 = with_last_crc(&oldest).expect("long enough");
    let mut twice = bytes.clone();
    twice[140..156].fill(1);
    vec![
        Seed::good("raw", raw.encode().expect("a table that may be")),
        Seed::good("version_1", version_1),
        Seed::bad("version_1_with_a_new_flag", version_1_with_a_new_flag),
        Seed::bad("unknown_version", change(4, 3)),
        Seed::bad("unknown_layout", change(6, 2)),
        Seed::bad("unknown_flag", change(76, 2)),
        Seed::bad("overlap", change(80, 56)),
        Seed::bad("same_twice", with_last_crc(&twice).expect("long enough")),
        Seed::bad("many_slots", change(35, 0xff)),
        Seed::bad("too_young", change(16, 10)),
        Seed::bad("past_the_end", change(25, 0)),
        Seed::bad("cut", &bytes[..bytes.len() - 1]),
        Seed::good("three", bytes),
    ]
}
