//! Directories that nobody wrote: whatever their bytes claim, looking ends, says so and changes nothing, and a repair loses nothing live.

use proptest::prelude::*;

use super::*;
use crate::format::graves::{Graves, Rank};
use crate::format::names::GRAVES;
use crate::format::table::Table;

const FILES: [&str; 8] = ["1.meta", "2.meta", "9.meta", "2.bucket", MARKER, GC_INTENT, ID_HIGH_WATER, GRAVES];

/// Two buckets, one half made, one without a table, and a round.
fn place() -> Place {
    let place = Place::usual();
    place.put(9, &[TestRecord::live(b"t\0a", 3, 300), TestRecord::live(b"t\0c", 4, 70_000)]);
    put(&*place.dir, "7.bucket", &[0; 5000]).unwrap();
    place.intents(&[Round::Prepared { sources: ids(&[2]), target: BucketId(9) }]);
    let mut graves = Graves::default();
    graves.add(&Arc::from(*b"t\0z"), Rank { write_number: 1, bucket: BucketId(1) }, Some(ObjectIncarnation::LEGACY));
    put(&*place.dir, GRAVES, &graves.encode().unwrap()).unwrap();
    place
}

/// Puts the checksum right that ends a binary file.
fn sign(bytes: &mut Vec<u8>) {
    let body = bytes.len().saturating_sub(4);
    bytes.truncate(body);
    let crc = ::crc32c::crc32c(bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

fn live(look: &Look) -> Vec<(Vec<u8>, ObjectIncarnation)> {
    let contents = look.contents();
    let records = contents.buckets.iter().flat_map(|bucket| &bucket.records);
    let mut live: Vec<_> =
        records.filter(|r| r.state == RecordState::Live).map(|r| (r.key.to_vec(), r.incarnation)).collect();
    live.sort();
    live
}

#[test]
fn a_table_without_a_data_file_may_claim_anything() {
    let place = Place::usual();
    for id in [5, 6] {
        let (_, mut table) = bucket(id, id, &[TestRecord::live(b"t\0z", 9, 10)]);
        table.data_len = u64::MAX;
        table.slots[0].offset = u64::MAX - 57;
        put(&*place.dir, &BucketId(id).table_name(), &table.encode().unwrap()).unwrap();
        let fits: Result<Table, _> = Table::decode(&place.bytes(&BucketId(id).table_name()), BucketId(id), u64::MAX);
        assert!(fits.is_ok());
    }
    assert_eq!(place.faults(), ["data_missing 5.bucket the file", "data_missing 6.bucket the file"]);
    let contents = place.look().contents();
    assert_eq!((contents.data_bytes(), contents.dead_bytes()), (u64::MAX, u64::MAX));
    assert_eq!(contents.live().records, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn looking_ends_and_changes_nothing_and_a_repair_loses_nothing_live(
        changes in proptest::collection::vec((0..FILES.len(), any::<proptest::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
        gone in proptest::option::of(0..FILES.len()),
    ) {
        let place = place();
        for (file, at, byte, signed) in changes {
            place.change(FILES[file], |bytes| {
                let at = at.index(bytes.len());
                bytes[at] = byte;
                if signed && FILES[file] != MARKER && !FILES[file].ends_with(".bucket") {
                    sign(bytes);
                }
            });
        }
        if let Some(file) = gone {
            place.dir.unlink(FILES[file]).unwrap();
        }
        let before = place.image();
        let seen = place.look();
        let report = fsck(&*place.dir, &seen, &FsckOptions::default(), &mut |_| {});
        let told = explain(&seen, &seen.contents(), &Config::default(), true).unwrap();
        prop_assert_eq!(&place.image(), &before, "looking changes nothing");
        match repair(Arc::clone(&place.dir) as _, Arc::new(ManualClock::new())) {
            Ok(done) => {
                prop_assert!(told.refused.is_empty(), "foretold to be refused: {:?}", told.refused);
                prop_assert_eq!(done.rounds, told.recovery);
                prop_assert_eq!(done.quarantined, told.quarantined);
                prop_assert_eq!(live(&place.look()), live(&seen));
                let again = repair(Arc::clone(&place.dir) as _, Arc::new(ManualClock::new())).unwrap();
                prop_assert!(again.is_nothing(), "{:?}", again);
            }
            Err(error) => {
                prop_assert!(!report.is_sound(), "{}", error);
                prop_assert!(!told.refused.is_empty(), "not foretold: {}", error);
                prop_assert_eq!(&place.image(), &before, "what is refused changes nothing: {}", error);
            }
        }
    }
}
