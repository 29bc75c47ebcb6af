//! Owns the test that nothing is left over: no descriptor, no file, no slot, after long use of a real directory.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use bucket_store::gc::GcStep;
use bucket_store::{Config, DeleteOutcome, Durability, Store};
use ha_types::{Entropy as _, SeededEntropy};
use plimsoll_tests::bucket_kit::{self, KEYS};

/// Descriptors of this process that point into a directory, unlinked files too.
fn descriptors(directory: &Path) -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.unwrap().path().read_link().ok());
    links.filter(|link| link.starts_with(directory)).count()
}

/// Bytes of the blocks of all data files.
fn blocks_of_data(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let data = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".bucket"));
    data.map(|entry| entry.metadata().unwrap().blocks() * 512).sum()
}

fn collect(store: &Store) {
    let steps = (0..100_000).take_while(|_| store.gc_step() == GcStep::Again).count();
    assert!(steps < 100_000, "GC does not come to an end");
}

#[test]
fn v5_nothing_is_left_over_after_long_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let config =
        Config { capacity_bytes: 64 << 20, normal_dead_ratio: Some(0.05), ..bucket_kit::config(Durability::Sync) };
    let store = bucket_kit::open(&path, config.clone()).unwrap();
    let empty = store.figures();
    let entropy = SeededEntropy::new(5);
    let mut next = 1;
    for round in 0..60 {
        let count = 1 + entropy.next_u64() % 8;
        let numbers: Vec<u64> = (next..next + count).collect();
        next += count;
        bucket_kit::write(&store, &numbers).unwrap();
        let doomed: Vec<u64> = numbers.iter().copied().filter(|_| entropy.next_u64().is_multiple_of(3)).collect();
        bucket_kit::delete(&store, &doomed).unwrap();
        if round % 5 == 0 {
            collect(&store);
        }
        // Each bucket holds one descriptor, and the directory one.
        let figures = store.figures();
        assert_eq!(descriptors(&path) as u64, figures.buckets + 1, "in round {round}");
        assert_eq!(figures.physical_bytes, blocks_of_data(&path), "in round {round}");
    }
    let served: Vec<u64> = (0..KEYS).filter_map(|key| bucket_kit::served(&store, key)).collect();
    assert!(served.len() > 10, "{served:?}");
    let outcomes = bucket_kit::delete(&store, &served).unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed)), "{outcomes:?}");
    collect(&store);
    assert_eq!(store.figures(), empty, "every counter is as on the first day");
    assert_eq!(descriptors(&path), 1, "the directory's own");
    let mut names: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".bucket_id_high_water", ".bucket_reserve", ".mooncake_local_disk_segment_id"]);
    drop(store);
    assert_eq!(descriptors(&path), 0);
    assert_eq!(bucket_kit::open(&path, config).unwrap().figures(), empty);
}
