//! Owns Mooncake's bucket tables: what decodes becomes a table of ours that says the same, and no truncation of one decodes.

use bucket_store::format::names::BucketId;
use bucket_store::format::table::{RecordLayout, Table};
use ha_types::ObjectIncarnation;

use super::bucket_table::holds_together;
use super::refused_file;
use crate::{Seed, Target, Verdict, bound};

pub(crate) const TARGET: Target = Target { name: "bucket_table_of_mooncake", run, seeds };

const BUCKET: BucketId = BucketId(77);

fn run(data: &[u8]) -> Verdict {
    if Table::is_ours(data) {
        return Verdict::Refused("a table of ours is another target's".into());
    }
    // Vectors that grow by doubling stand against two bytes of an empty key or record.
    let table = match bound::within(data.len(), 128, || Table::decode(data, BUCKET, u64::MAX)) {
        Ok(table) => table,
        Err(e) => return refused_file(&e, data),
    };
    assert_eq!((table.bucket, table.layout, table.age), (BUCKET, RecordLayout::MooncakeRaw, BUCKET.0));
    let legacy = (ObjectIncarnation::LEGACY, 0, None);
    assert!(table.slots.iter().all(|slot| (slot.incarnation, slot.write_number, slot.tombstone) == legacy));
    assert!(!table.slots.is_empty());
    holds_together(&table, data);
    let ours = table.encode().expect("it can be kept as one of ours");
    assert_eq!(Table::decode(&ours, BUCKET, table.data_len).as_ref(), Ok(&table));
    for cut in (0..data.len()).rev().take(64) {
        assert!(Table::decode(&data[..cut], BUCKET, u64::MAX).is_err(), "{cut} of {} bytes decode", data.len());
    }
    Verdict::Accepted
}

/// The table of the description of Mooncake's bytes.
const VECTOR: &[u8] =
    b"\x08\xbf\x02\x12\x09default\0a\x12\x0adefault\0bb\x1a\x04\x10\x09\x18\x64\x1a\x07\x08\x6d\x10\x0a\x18\xc8\x01";

fn seeds() -> Vec<Seed> {
    let change = |at: usize, byte: u8| {
        let mut bytes = VECTOR.to_vec();
        bytes[at] = byte;
        bytes
    };
    vec![
        Seed::good("vector", VECTOR),
        Seed::good("one", *b"\x08\x0d\x12\x03t\0a\x1a\x04\x10\x03\x18\x0a"),
        Seed::bad("empty", ""),
        Seed::bad("size_only", &VECTOR[..3]),
        Seed::bad("two_keys_one_record", &VECTOR[..32]),
        Seed::bad("unknown_field", [VECTOR, b"\x20\x01"].concat()),
        Seed::bad("tombstoned_in_a_record", *b"\x08\x0d\x12\x03t\0a\x1a\x06\x10\x03\x18\x0a\x20\x01"),
        Seed::bad("overlap", change(35, 0x6c)),
        Seed::bad("longer_data", change(1, 0xc0)),
        Seed::bad("no_separator", change(12, b'-')),
        Seed::bad("negative", *b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x03t\0a\x1a\x04\x10\x03\x18\x0a"),
    ]
}
