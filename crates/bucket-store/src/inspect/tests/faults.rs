//! Each thing that can be wrong is found by name, and nothing is changed by finding it.

use super::*;

#[test]
fn b2_a_data_file_without_a_table_and_the_reverse_are_told_apart() {
    let place = Place::usual();
    place.dir.unlink("1.meta").unwrap();
    place.dir.unlink("2.bucket").unwrap();
    assert_eq!(place.faults(), ["orphan_data 1.meta the file", "data_missing 2.bucket the file"]);
    let contents = place.look().contents();
    assert_eq!(contents.buckets[0].standing, Standing::Orphan);
    assert!(matches!(&contents.buckets[1].standing, Standing::Quarantined(why) if why.contains("2.bucket")));
    assert_eq!(contents.live().records, 0);
}

#[test]
fn b2_what_an_intent_names_is_no_orphan() {
    let place = Place::usual();
    place.put(9, &[TestRecord::live(b"t\0a", 3, 300)]);
    place.dir.unlink("9.meta").unwrap();
    place.intents(&[Round::Prepared { sources: ids(&[1, 2]), target: BucketId(9) }]);
    let report = place.fsck();
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.notes[0].contains("1 rounds of GC wait"), "{:?}", report.notes);
}

#[test]
fn b11_b16_a_record_that_does_not_verify_is_named_with_its_key_and_its_byte() {
    let place = Place::usual();
    // In the second chunk of `c`, the last record of bucket 2.
    place.change("2.bucket", |bytes| *bytes.last_mut().unwrap() ^= 1);
    let report = place.fsck();
    let [fault] = report.faults.listed() else { panic!("{:?}", report.faults) };
    assert_eq!((fault.kind, fault.file.as_str()), (FaultKind::RecordDamaged, "2.bucket"));
    assert_eq!(fault.key.as_deref(), Some(&b"t\0c"[..]));
    assert_eq!(fault.offset, Some(43 + 4 + 300 + 43 + 4), "where the second chunk's checksum is");
    assert_eq!(report.verified_records, 3);
    let said = fault.to_string();
    assert!(
        said.starts_with("record_damaged: 2.bucket: of a chunk of the value at byte 394 of \"t\\x00c\": expected "),
        "{said}"
    );

    // Bytes of another record at the right place.
    let place = Place::usual();
    let (other, _) = bucket(1, 1, &[TestRecord::live(b"t\0z", 1, 100)]);
    place.change("1.bucket", |bytes| bytes[..other.len()].copy_from_slice(&other));
    assert_eq!(place.faults(), ["record_damaged 1.bucket key"]);

    // Nothing but zeros, as some file systems leave after a power loss.
    let place = Place::usual();
    place.change("1.bucket", |bytes| bytes.fill(0));
    assert_eq!(place.faults(), ["record_damaged 1.bucket magic"; 2]);
}

#[test]
fn every_flipped_bit_of_a_bucket_is_found() {
    let place = Place::new();
    place.put(1, &[TestRecord::live(b"t\0a", 1, 40), TestRecord::dead(b"t\0b", 2, 20)]);
    for name in ["1.bucket", "1.meta"] {
        for byte in 0..place.bytes(name).len() as u64 {
            let bit = (byte % 8) as u8;
            place.disk.flip_bit(name, byte, bit).unwrap();
            assert!(!place.fsck().is_sound(), "{name} byte {byte}");
            place.disk.flip_bit(name, byte, bit).unwrap();
        }
    }
    assert!(place.fsck().is_sound());
}

#[test]
fn a_mooncake_record_is_known_by_its_key_and_its_length() {
    let place = Place::unmarked();
    put_mooncake_bucket(&*place.dir, 3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]).unwrap();
    place.change("3.bucket", |bytes| bytes[6] = b'x');
    assert_eq!(place.faults(), ["record_damaged 3.bucket key"]);
}

#[test]
fn a_damaged_or_short_table_quarantines_its_bucket_alone() {
    let place = Place::usual();
    place.change("1.meta", |bytes| bytes[20] ^= 1);
    place.change("2.bucket", |bytes| bytes.truncate(1000));
    assert_eq!(place.faults(), ["table_damaged 1.meta crc", "data_short 2.meta data_len"]);
    assert_eq!(place.look().contents().live().records, 0);

    // Mooncake's: counts that differ, records that overlap.
    let place = Place::unmarked();
    put_mooncake_bucket(&*place.dir, 3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]).unwrap();
    let whole = place.bytes("3.meta");
    put(&*place.dir, "3.meta", &whole[..12]).unwrap();
    assert_eq!(place.faults(), ["table_damaged 3.meta count of metadatas"]);
    let overlap: Vec<u8> = [b"\x08\x0e", &whole[2..14], b"\x08\x05", &whole[16..]].concat();
    put(&*place.dir, "3.meta", &whole).unwrap();
    assert!(place.fsck().is_sound());
    put(&*place.dir, "3.meta", &overlap).unwrap();
    assert_eq!(place.faults().len(), 1, "{:?}", place.faults());
}

#[test]
fn b12_one_object_live_in_two_buckets_is_detected() {
    let place = Place::usual();
    place.put(5, &[TestRecord::live(b"t\0c", 4, 70_000)]);
    assert_eq!(place.faults(), ["live_twice 2.meta a live record"]);
    let contents = place.look().contents();
    let [(older, newer)] = &contents.twice[..] else { panic!("{:?}", contents.twice) };
    assert_eq!((older.bucket.0, newer.bucket.0, newer.state), (2, 5, RecordState::Live));

    // Inside of a round it is what a crash leaves, and no fault.
    place.intents(&[Round::Prepared { sources: ids(&[2]), target: BucketId(5) }]);
    assert_eq!(place.faults(), [""; 0]);
    place.intents(&[Round::Committed { sources: ids(&[2]), target: Some(BucketId(5)) }]);
    assert_eq!(place.faults(), [""; 0]);
}

#[test]
fn b15_a_version_that_is_not_known_is_told_from_damage_in_every_file() {
    for (name, at) in [("1.meta", 4), (ID_HIGH_WATER, 4), (GC_INTENT, 4), (MARKER, 20)] {
        let place = Place::usual();
        place.intents(&[]);
        place.change(name, |bytes| bytes[at] = b'9');
        let faults = place.fsck().faults;
        let [fault] = faults.listed() else { panic!("{name}: {faults:?}") };
        assert_eq!((fault.kind, fault.file.as_str(), fault.offset), (FaultKind::UnknownVersion, name, Some(at as u64)));
        assert!(fault.refuses());
    }
    // A round that rests on such a file is not called damaged: nobody here can tell.
    let place = Place::usual();
    place.intents(&[Round::Committed { sources: ids(&[1]), target: Some(BucketId(2)) }]);
    place.change("2.meta", |bytes| bytes[4] = 3);
    assert_eq!(place.faults(), ["unknown_version 2.meta version"]);
    // Nor is one passed over because its bucket goes: an open looks at it before.
    let place = Place::usual();
    place.intents(&[Round::Committed { sources: ids(&[1]), target: Some(BucketId(2)) }]);
    place.change("1.meta", |bytes| bytes[4] = 3);
    assert_eq!(place.faults(), ["unknown_version 1.meta version"]);
}

#[test]
fn a_marker_that_is_missing_malformed_or_another_s_is_named() {
    let place = Place::usual();
    let asked = FsckOptions {
        segment: Some("ssd-2".parse().unwrap()),
        cluster: Some("c2".parse().unwrap()),
        ..FsckOptions::default()
    };
    let report = fsck(&*place.dir, &place.look(), &asked, &mut |_| {});
    let fields: Vec<_> =
        report.faults.listed().iter().map(|f| (f.kind.name(), &*f.field, &*f.expected, &*f.found)).collect();
    assert_eq!(
        fields,
        [("marker_of_another", "segment", "ssd-2", "ssd-1"), ("marker_of_another", "cluster", "c2", "c1")]
    );
    place.change(MARKER, |bytes| bytes[30] ^= 1);
    assert_eq!(place.faults(), [format!("marker_damaged {MARKER} crc32c")]);
    place.dir.unlink(MARKER).unwrap();
    assert_eq!(place.faults(), [format!("marker_missing {MARKER} the file")]);
}

#[test]
fn a_high_water_mark_that_is_below_missing_or_damaged_is_named() {
    let place = Place::usual();
    let low = HighWater { next_bucket: 2, next_write_number: 4 }.encode().unwrap();
    put(&*place.dir, ID_HIGH_WATER, &low).unwrap();
    let below =
        ["next bucket id", "next write number"].map(|field| format!("high_water_below {ID_HIGH_WATER} {field}"));
    assert_eq!(place.faults(), below);
    let exact = HighWater { next_bucket: 3, next_write_number: 5 }.encode().unwrap();
    put(&*place.dir, ID_HIGH_WATER, &exact).unwrap();
    assert_eq!(place.faults(), [""; 0]);
    place.change(ID_HIGH_WATER, |bytes| bytes[8] ^= 1);
    assert_eq!(place.faults(), [format!("high_water_damaged {ID_HIGH_WATER} crc")]);
    place.dir.unlink(ID_HIGH_WATER).unwrap();
    assert_eq!(place.faults(), [format!("high_water_missing {ID_HIGH_WATER} the file")]);
}

#[test]
fn intents_that_cannot_be_ended_are_named_by_recoverys_own_words() {
    let place = Place::usual();
    place.intents(&[Round::Committed { sources: ids(&[1]), target: Some(BucketId(9)) }]);
    assert_eq!(place.faults(), ["committed_target_damaged 9.meta the bucket"]);
    place.intents(&[Round::Prepared { sources: ids(&[1, 7]), target: BucketId(9) }]);
    assert_eq!(place.faults(), ["prepared_source_missing 7.bucket the file"]);
    place.intents(&[Round::Committed { sources: ids(&[1, 700]), target: None }]);
    assert!(place.faults().contains(&format!("intent_bucket_unknown {GC_INTENT} bucket id")), "{:?}", place.faults());
    place.change(GC_INTENT, |bytes| bytes[12] ^= 1);
    assert_eq!(place.faults(), [format!("intent_damaged {GC_INTENT} crc")]);
}

#[test]
fn strange_names_are_named_and_the_tools_own_are_not() {
    let place = Place::usual();
    for name in ["notes.txt", "07.bucket", ".2.meta.5.tmp"] {
        put(&*place.dir, name, b"x").unwrap();
    }
    assert_eq!(place.faults(), ["strange_name 07.bucket the name", "strange_name notes.txt the name"]);
    assert!(place.fsck().notes[0].contains("1 temporary"));
}

#[test]
fn what_the_disk_does_not_give_is_a_fault_and_not_damage() {
    let place = Place::usual();
    place.disk.make_unreadable("2.bucket", 400..500);
    assert_eq!(place.faults(), ["read_failed 2.bucket the bytes"]);
    place.disk.mend();
    place.disk.inject(1, SimFault::Errno(EIO), on(OpKind::Read, "1.meta"));
    assert_eq!(place.faults(), ["read_failed 1.meta the bytes"]);
}

#[test]
fn all_faults_are_counted_and_the_first_are_kept() {
    let place = Place::usual();
    place.change("1.bucket", |bytes| bytes.fill(0));
    let options = FsckOptions { max_faults: 1, ..FsckOptions::default() };
    let report = fsck(&*place.dir, &place.look(), &options, &mut |_| {});
    assert_eq!((report.faults.total(), report.faults.listed().len(), report.faults.unlisted()), (2, 1, 1));
    let options = FsckOptions { tables_only: true, ..FsckOptions::default() };
    assert!(fsck(&*place.dir, &place.look(), &options, &mut |_| {}).is_sound(), "the tables are");
}

#[test]
fn every_kind_has_a_name_and_a_remedy_of_its_own_words() {
    let names: std::collections::BTreeSet<_> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(names.len(), FaultKind::ALL.len());
    assert!(FaultKind::ALL.iter().all(|kind| kind.remedy().len() > 10));
}
