//! Owns the test of a file system that is really full: deletes go on, GC gives room, writes come back.

use bucket_store::gc::GcStep;
use bucket_store::{Config, DeleteOutcome, Durability, Store, StoreErrorKind};
use plimsoll_tests::bucket_kit::{self, KEYS};
use plimsoll_tests::missing;

use crate::small_mount::{SmallMount, fill};

const MEBIBYTES: u64 = 12;

fn collect(store: &Store) {
    for _ in 0..10_000 {
        if store.gc_step() != GcStep::Again {
            return;
        }
    }
    panic!("GC does not come to an end");
}

#[test]
fn b7_a_full_file_system_takes_deletes_and_gives_the_room_back() {
    let Some((mount, kind)) = SmallMount::new(MEBIBYTES) else {
        missing("mount", "b7_a_full_file_system_takes_deletes_and_gives_the_room_back");
        return;
    };
    let path = mount.path().join("buckets");
    std::fs::create_dir(&path).unwrap();
    // More capacity than the file system has: it is the disk that says no, not the setting.
    let config = || Config { capacity_bytes: 1 << 40, ..bucket_kit::config(Durability::Sync) };
    let store = bucket_kit::open(&path, config()).unwrap();
    let mut served: Vec<u64> = (KEYS..2 * KEYS).collect();
    served.chunks(5).for_each(|numbers| bucket_kit::write(&store, numbers).unwrap());

    let ballast = fill(&mount.path());
    let refused = bucket_kit::write(&store, &[1000]).unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::NoSpace, "{kind}: {refused}");
    assert_eq!(bucket_kit::served(&store, 1000), served.iter().copied().find(|n| n % KEYS == 1000 % KEYS));

    // Everything of some buckets and something of others, one by one and in groups.
    let doomed: Vec<u64> = served.extract_if(.., |number| *number < KEYS + 20 || *number % 2 == 0).collect();
    for numbers in doomed.chunks(3) {
        let outcomes = bucket_kit::delete(&store, numbers).unwrap();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed)), "{kind}: {outcomes:?}");
    }
    assert!(store.read_only().is_none());
    collect(&store);
    for number in KEYS..2 * KEYS {
        let expected = served.contains(&number).then_some(number);
        assert_eq!(bucket_kit::served(&store, number), expected, "{kind}");
    }
    drop(store);

    // Also after a restart on the disk that was full.
    let store = bucket_kit::open(&path, config()).unwrap();
    assert_eq!(bucket_kit::left_over(&path).unwrap(), Vec::<String>::new(), "{kind}");
    let again = bucket_kit::delete(&store, &doomed).unwrap();
    let known =
        |outcome: &DeleteOutcome| matches!(outcome, DeleteOutcome::AlreadyRemoved | DeleteOutcome::StaleVersion);
    assert!(again.iter().all(known), "{kind}: {again:?}");

    std::fs::remove_file(ballast).unwrap();
    collect(&store);
    bucket_kit::write(&store, &[1000]).unwrap();
    assert_eq!(bucket_kit::served(&store, 1000), Some(1000));
}
