//! Owns the tests of what a delete answers and how little it does for it.

use bucket_store::vfs::sim::SimDisk;
use bucket_store::{DeleteRequest, StoreErrorKind};

use crate::kit::{changes, delete, image, incarnation, open, open_heard, table, with_bucket};

#[test]
fn d3_removed_then_already_removed_also_after_a_restart() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 2, 2)])]));
    let store = open(&disk);
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    assert_eq!(table(&disk.image(), 1), [("a".into(), true), ("b".into(), false)]);
    assert_eq!(delete(&store, &[("a", 1), ("b", 1), ("c", 1)]), ["AlreadyRemoved", "StaleVersion", "StaleVersion"]);
    drop(store);
    let store = open(&disk);
    assert_eq!(delete(&store, &[("a", 1), ("b", 2), ("b", 2)]), ["AlreadyRemoved", "Removed", "Removed"]);
    assert_eq!(table(&disk.image(), 1), [("a".into(), true), ("b".into(), true)]);
}

#[test]
fn one_tombstone_or_many_of_a_bucket_cost_one_write_of_its_table() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1), ("b", 1, 2), ("c", 1, 3)]), (2, &[("d", 1, 4), ("e", 1, 5)])]));
    let (store, heard) = open_heard(&disk);
    let publish = |id| {
        let temporary = format!(".{id}.meta.0.tmp");
        let steps = ["Create", "Write", "SyncData"].map(|step| format!("{step} {temporary}"));
        steps.into_iter().chain([format!("Rename {temporary}{id}.meta"), "SyncDir".into()]).collect::<Vec<_>>()
    };
    disk.record();
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    assert_eq!(changes(&disk.log()), publish(1));
    assert_eq!(disk.log().len(), 5, "and nothing is read for it: {:?}", disk.log());
    disk.record();
    assert_eq!(delete(&store, &[("e", 1), ("b", 1), ("d", 1), ("c", 1)]), ["Removed"; 4]);
    assert_eq!(changes(&disk.log()), [publish(1), publish(2)].concat(), "in the order of ids");
    assert_eq!(heard.count("TombstonesPublished"), 3);
    disk.record();
    assert_eq!(delete(&store, &[("a", 1), ("x", 1)]), ["AlreadyRemoved", "StaleVersion"]);
    assert!(disk.log().is_empty(), "what changes nothing touches nothing");
}

#[test]
fn d5_an_incarnation_that_is_not_named_stays() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2)])]));
    let store = open(&disk);
    assert_eq!(delete(&store, &[("a", 1)]), ["Removed"]);
    assert_eq!(table(&disk.image(), 1), [("a".into(), true)]);
    assert_eq!(table(&disk.image(), 2), [("a".into(), false)]);
    assert_eq!(delete(&store, &[("a", 3)]), ["StaleVersion"]);
    assert_eq!(table(&disk.image(), 2), [("a".into(), false)]);
}

#[test]
fn an_older_record_is_tombstoned_before_the_newest() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2)]), (3, &[("a", 3, 3)])]));
    let store = open(&disk);
    disk.record();
    assert_eq!(delete(&store, &[("a", 3)]), ["Removed"]);
    let renamed: Vec<_> = changes(&disk.log()).into_iter().filter(|change| change.starts_with("Rename")).collect();
    let publish = |id| format!("Rename .{id}.meta.0.tmp{id}.meta");
    assert_eq!(renamed, [publish(1), publish(2), publish(3)]);
}

#[test]
fn d5_incarnation_0_takes_all_records_of_before_incarnations_or_none() {
    let two = image(&[(1, &[("a", 0, 0)]), (2, &[("a", 0, 0)])]);
    let disk = SimDisk::of(&two);
    assert_eq!(delete(&open(&disk), &[("a", 0)]), ["Removed"]);
    assert_eq!(
        (table(&disk.image(), 1), table(&disk.image(), 2)),
        (vec![("a".into(), true)], vec![("a".into(), true)])
    );
    let disk = SimDisk::of(&with_bucket(two, 3, &[("a", 7, 9)]));
    let store = open(&disk);
    let before = disk.image();
    assert_eq!(delete(&store, &[("a", 0)]), ["StaleVersion"]);
    assert_eq!(disk.image(), before);
}

#[test]
fn d4_absent_is_not_certain_while_a_bucket_is_not_served() {
    let whole = image(&[(1, &[("a", 1, 1)]), (2, &[("b", 1, 2)])]);
    let unreadable = SimDisk::of(&whole.clone().with_bit_flipped("2.meta", 20, 3));
    let store = open(&unreadable);
    assert_eq!(
        delete(&store, &[("a", 1), ("a", 2), ("b", 1), ("z", 1)]),
        ["Removed", "Retryable IN_QUARANTINE", "Retryable IN_QUARANTINE", "Retryable IN_QUARANTINE"]
    );
    let without_data = SimDisk::of(&whole.without("2.bucket"));
    let store = open(&without_data);
    assert_eq!(
        delete(&store, &[("b", 1), ("b", 2), ("z", 1)]),
        ["Retryable IN_QUARANTINE", "StaleVersion", "StaleVersion"],
        "its table says what it may hold"
    );
}

#[test]
fn a_request_that_is_wrong_is_answered_alone_and_changes_nothing() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
    let store = open(&disk);
    let before = disk.image();
    let bad: [&[u8]; 5] = [b"", b"a", b"\0a", b"tenant\0", b"\xff\0a"];
    let requests = bad.map(|key| DeleteRequest { key, incarnation: incarnation(1) });
    for (outcome, key) in store.delete(&requests).unwrap().iter().zip(bad) {
        let bucket_store::DeleteOutcome::Invalid(error) = outcome else { panic!("{outcome:?}") };
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Invalid, "BAD_KEY"));
        assert!(error.to_string().starts_with(&format!("key \"{}\" is no storage key", key.escape_ascii())), "{error}");
    }
    let unknown = delete(&store, &[("unknown", 1), ("unknown", 0)]);
    assert_eq!(unknown, ["StaleVersion", "StaleVersion"]);
    assert_eq!(disk.image(), before);
    assert!(store.delete(&[]).unwrap().is_empty());

    let good = b"tenant\0a";
    let mixed = [bad[1], good].map(|key| DeleteRequest { key, incarnation: incarnation(1) });
    let words: Vec<_> = store.delete(&mixed).unwrap().iter().map(crate::kit::word).collect();
    assert_eq!(words, ["Invalid BAD_KEY", "Removed"]);
}

#[test]
fn more_requests_than_allowed_are_refused_as_a_whole() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
    let store = open(&disk);
    let before = disk.image();
    let many = vec![DeleteRequest { key: b"tenant\0a", incarnation: incarnation(1) }; store.config().max_batch + 1];
    let error = store.delete(&many).unwrap_err();
    assert_eq!(error.to_string(), "requests is 10001; give at most max_batch, which is 10000");
    assert_eq!((error.kind(), disk.image()), (StoreErrorKind::Invalid, before));
    assert_eq!(store.delete(&many[1..]).unwrap().len(), store.config().max_batch);
}
