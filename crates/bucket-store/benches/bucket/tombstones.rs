//! Owns the case *tombstones*: deletes of one and of many objects of a bucket, against the replacement of a file of the same length by
//! temporary file, write, sync, rename and sync of the directory.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use bucket_store::{Config, DeleteOutcome, DeleteRequest, Store};

use crate::kit::{Args, KIB, Objects, fill, incarnation, interleaved, median, open, timed};
use crate::report::{Aim, Report, Row};

/// Objects of a bucket: what the table's length depends on.
const PER_BUCKET: usize = 500;
/// Objects of one call, where it is not one.
const GROUP: usize = 64;

pub(crate) fn run(args: &Args, report: &mut Report) {
    for k in [1, GROUP] {
        let calls = if k == 1 { 100 } else { 7 };
        let rounds = args.rounds();
        // Every round deletes objects of a bucket of its own.
        let objects = Objects::new(PER_BUCKET * rounds, 4 * KIB);
        let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
        let plain = tempfile::tempdir_in(&args.directory).expect("a directory");
        let store = open(folder.path(), Config::default());
        fill(&store, &objects, PER_BUCKET);
        let table_bytes = std::fs::metadata(folder.path().join("1.meta")).expect("a table").len();
        let bytes = &objects.pool()[..table_bytes as usize];
        let mut round = 0;
        let ours = || {
            let first = round * PER_BUCKET;
            round += 1;
            let took = timed(|| (0..calls).for_each(|call| delete(&store, &objects, first + call * k, k)));
            took.as_secs_f64() / calls as f64
        };
        let theirs = || {
            let took = timed(|| (0..calls).for_each(|_| replace(plain.path(), bytes)));
            took.as_secs_f64() / calls as f64
        };
        let (us, them) = interleaved(rounds, ours, theirs);
        let after = std::fs::metadata(folder.path().join("1.meta")).expect("a table").len();
        assert_eq!(after, table_bytes, "both sides write the same bytes");
        // Objects for each second of ours over files for each second of theirs.
        let ratio = median(them) / median(us) * k as f64;
        let (case, aims): (String, &[Aim]) = if k == 1 {
            ("tombstone, single".into(), &[Aim::AtLeast("ratio", 0.9)])
        } else {
            (format!("tombstones, group of {k}"), &[Aim::AtLeast("ratio", 0.8 * GROUP as f64)])
        };
        report.add(&Row { case, ratio: Some(ratio), aims, ..Row::default() });
    }
}

fn delete(store: &Store, objects: &Objects, first: usize, count: usize) {
    let requests: Vec<_> =
        (first..first + count).map(|n| DeleteRequest { key: objects.key(n), incarnation: incarnation(n) }).collect();
    let outcomes = store.delete(&requests).unwrap_or_else(|e| panic!("{e}"));
    assert!(outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed)), "{outcomes:?}");
}

fn replace(directory: &Path, bytes: &[u8]) {
    let (temporary, name) = (directory.join("table.tmp"), directory.join("table"));
    let mut file = File::create_new(&temporary).expect("a file");
    file.write_all(bytes).expect("a write");
    file.sync_data().expect("a sync");
    std::fs::rename(&temporary, &name).expect("a rename");
    File::open(directory).and_then(|directory| directory.sync_all()).expect("a sync of the directory");
}
