//! Owns the tests of power losses around deletes: at every operation, every state that may be left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use bucket_store::vfs::sim::{CrashPoint, CrashStates, Image, SimDisk};

use crate::kit::{delete, image, open, table};

/// Every crash point of what `run` does.
fn points(disk: &SimDisk, run: impl FnOnce()) -> Vec<CrashPoint> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let points = Arc::clone(&seen);
    disk.watch(move |_, point| points.lock().unwrap().push(point));
    run();
    disk.unwatch();
    std::mem::take(&mut seen.lock().unwrap())
}

fn images(points: &[CrashPoint]) -> impl Iterator<Item = Image> + '_ {
    points.iter().flat_map(|point| point.images(CrashStates::default()).collect::<Vec<_>>())
}

fn tombstoned(image: &Image, ids: &[u64]) -> Vec<String> {
    ids.iter().flat_map(|id| table(image, *id)).filter(|(_, dead)| *dead).map(|(name, _)| name).collect()
}

#[test]
fn b1_d3_a_group_delete_is_old_or_new_per_bucket_and_durable_when_answered() {
    let buckets: &[(u64, &[_])] = &[(1, &[("a", 1, 1), ("b", 1, 2), ("c", 1, 3)]), (2, &[("d", 1, 4), ("e", 1, 5)])];
    let disk = SimDisk::of(&image(buckets));
    let store = open(&disk);
    let during = points(&disk, || assert_eq!(delete(&store, &[("a", 1), ("d", 1), ("c", 1)]), ["Removed"; 3]));
    let answered = [disk.crash_point()];
    let mut seen = std::collections::BTreeSet::new();
    for image in images(&during) {
        seen.insert(tombstoned(&image, &[1, 2]));
        // The next life ends what was begun, and what it answers holds too.
        let disk = SimDisk::of(&image);
        let store = open(&disk);
        let again = delete(&store, &[("a", 1), ("d", 1), ("c", 1)]);
        assert!(again.iter().all(|word| word == "Removed" || word == "AlreadyRemoved"), "{again:?}");
        for image in images(&[disk.crash_point()]) {
            assert_eq!(tombstoned(&image, &[1, 2]), ["a", "c", "d"]);
        }
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [names(&[]), names(&["a", "c"]), names(&["a", "c", "d"])]);
    let mut count = 0;
    for image in images(&answered) {
        assert_eq!(tombstoned(&image, &[1, 2]), ["a", "c", "d"]);
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn d3_no_power_loss_brings_an_older_record_back_for_the_newest() {
    let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)]), (2, &[("a", 2, 2), ("b", 1, 3)])]));
    let store = open(&disk);
    let during = points(&disk, || assert_eq!(delete(&store, &[("a", 2), ("b", 1)]), ["Removed"; 2]));
    let (mut both, mut buried, mut neither) = (0, 0, 0);
    for image in images(&during) {
        let (older, newest) = (table(&image, 1)[0].1, table(&image, 2)[0].1);
        assert!(older || !newest, "incarnation 1 would be live again");
        *match (older, newest) {
            (true, true) => &mut both,
            (true, false) => &mut buried,
            _ => &mut neither,
        } += 1;
    }
    assert!(both > 0 && buried > 0 && neither > 0, "{both} {buried} {neither}");
}

#[test]
fn d3_a_killed_process_whose_rename_was_seen_has_not_made_it_durable() {
    // The process dies anywhere, between rename and sync of the directory too. The next one finds in the cache what the disk does not
    // have, and answers; then the power goes.
    let mut words = std::collections::BTreeSet::new();
    for killed_before in 1..=5 {
        let disk = SimDisk::of(&image(&[(1, &[("a", 1, 1)])]));
        let store = open(&disk);
        let number = disk.operations() + killed_before;
        disk.when(move |op| op.number == number, || std::panic::resume_unwind(Box::new("killed")));
        catch_unwind(AssertUnwindSafe(|| delete(&store, &[("a", 1)]))).unwrap_err();
        drop(store);
        let store = open(&disk);
        let word = delete(&store, &[("a", 1)]).remove(0);
        for image in images(&[disk.crash_point()]) {
            assert_eq!(tombstoned(&image, &[1]), ["a"], "killed before operation {killed_before}, then {word}");
        }
        words.insert(word);
    }
    assert_eq!(words.into_iter().collect::<Vec<_>>(), ["AlreadyRemoved", "Removed"]);
}
