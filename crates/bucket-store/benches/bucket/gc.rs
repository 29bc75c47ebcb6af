//! Owns the case *GC, unthrottled*: buckets of which half is dead, against `pread` of the same live ranges in the same order, a write of
//! them through a buffer of the same size, and a sync for each target.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bucket_store::format::names::BucketId;
use bucket_store::gc::GcStep;
use bucket_store::{Config, DeleteRequest, Store};

use crate::kit::{Args, KIB, MIB, Objects, fill, incarnation, interleaved, median, open, sleep, timed};
use crate::memory;
use crate::place::{self, Place};
use crate::report::{Aim, Report, Row};

/// For each target, where its records came from, in its order.
type Copies = Vec<Vec<Place>>;

pub(crate) fn run(args: &Args, report: &mut Report) {
    for (size, per_bucket) in [(64 * KIB, 500), (MIB, 250)] {
        let objects = Objects::new((args.data_bytes() / size).next_multiple_of(2 * per_bucket), size);
        // The same objects in fresh directories make the same plan: one round before tells the baseline what to copy.
        let (_, copies, _) = ours(args, &objects, per_bucket);
        let live: usize = copies.iter().flatten().map(|place| place.record.1).sum();
        let mut growth: Option<f64> = None;
        let mut written = 0;
        let ours = || {
            let (seconds, again, round) = ours(args, &objects, per_bucket);
            assert_eq!(again, copies, "the plan of every round is the same");
            growth = round.growth.map(|grown| grown.max(growth.unwrap_or(0.0)));
            written = round.written;
            seconds
        };
        let theirs = || theirs(args, &objects, per_bucket, &copies);
        let (us, them) = interleaved(args.rounds(), ours, theirs);
        let (us, them) = (median(us), median(them));
        assert_eq!(written, live as u64, "both sides write the same bytes");
        report.add(&Row {
            case: format!("gc of half-dead buckets, {} KiB, unthrottled", size >> 10),
            ratio: Some(them / us),
            amplification: Some(live as f64 / dead_bytes(&objects) as f64),
            mb_per_s: Some(dead_bytes(&objects) as f64 / us / 1e6),
            rss_growth_mb: growth.map(|bytes| bytes / 1e6),
            // Half of every bucket is dead: 1 / dead ratio is 2. Flat is what is far below a bucket, whatever is copied.
            aims: &[Aim::AtLeast("ratio", 0.8), Aim::AtMost("amplification", 2.0), Aim::AtMost("rss_growth_mb", 16.0)],
            ..Row::default()
        });
    }
}

fn dead_bytes(objects: &Objects) -> usize {
    objects.len() / 2 * objects.value_bytes
}

struct Round {
    /// Bytes of the targets.
    written: u64,
    /// Growth of the peak of resident memory, in bytes; `None` where the system does not tell.
    growth: Option<f64>,
}

/// A store whose every second object is deleted.
fn half_dead(args: &Args, objects: &Objects, per_bucket: usize, config: Config) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
    let store = open(folder.path(), config);
    fill(&store, objects, per_bucket);
    delete_every_second(&store, objects);
    (folder, store)
}

pub(crate) fn delete_every_second(store: &Store, objects: &Objects) {
    let dead: Vec<_> = (0..objects.len())
        .step_by(2)
        .map(|n| DeleteRequest { key: objects.key(n), incarnation: incarnation(n) })
        .collect();
    for group in dead.chunks(10_000) {
        let outcomes = store.delete(group).unwrap_or_else(|e| panic!("{e}"));
        assert!(outcomes.iter().all(|outcome| outcome.is_terminal()), "every delete is done");
    }
}

fn ours(args: &Args, objects: &Objects, per_bucket: usize) -> (f64, Copies, Round) {
    let config = Config { gc_copy_share: 1.0, normal_dead_ratio: Some(0.4), ..Config::default() };
    let (folder, store) = half_dead(args, objects, per_bucket, config);
    let (before, tables) = place::places(folder.path());
    place::make_cold(&place::data_files(folder.path()));
    let resident = memory::resident();
    let counted = memory::reset_peak();
    let seconds = timed(|| run_to_the_end(&store)).as_secs_f64();
    let growth = counted.then(|| memory::peak().saturating_sub(resident) as f64);
    let (_, after) = place::places(folder.path());
    let targets = after.iter().filter(|(id, _)| !tables.contains_key(id));
    let copies =
        targets.clone().map(|(_, table)| table.slots.iter().map(|slot| before[&*slot.key]).collect()).collect();
    (seconds, copies, Round { written: targets.map(|(_, table)| table.data_len).sum(), growth })
}

pub(crate) fn run_to_the_end(store: &Store) {
    loop {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(time) => sleep(time),
            GcStep::Idle(_) => return,
            other => panic!("GC is {other:?}"),
        }
    }
}

fn theirs(args: &Args, objects: &Objects, per_bucket: usize, copies: &Copies) -> f64 {
    let (folder, store) = half_dead(args, objects, per_bucket, Config::default());
    let buffer_bytes = store.config().copy_buffer_bytes;
    drop(store);
    let files = place::data_files(folder.path());
    place::make_cold(&files);
    let targets = tempfile::tempdir_in(&args.directory).expect("a directory");
    let mut buffer = vec![0; buffer_bytes];
    let took = timed(|| {
        for (n, places) in copies.iter().enumerate() {
            copy(&files, places, &targets.path().join(n.to_string()), &mut buffer);
        }
    });
    took.as_secs_f64()
}

/// Copies as the store does: reads of records, or of as much of one as there is room for; a write whenever the buffer is full.
fn copy(files: &BTreeMap<BucketId, File>, places: &[Place], path: &Path, buffer: &mut [u8]) {
    let target = File::create_new(path).expect("a file");
    let (mut filled, mut at) = (0, 0);
    for place in places {
        let (mut offset, mut left) = place.record;
        while left > 0 {
            if filled == buffer.len() {
                target.write_all_at(buffer, at).expect("a write");
                at += filled as u64;
                filled = 0;
            }
            let len = left.min(buffer.len() - filled);
            files[&place.bucket].read_exact_at(&mut buffer[filled..filled + len], offset).expect("a read");
            (offset, left, filled) = (offset + len as u64, left - len, filled + len);
        }
    }
    target.write_all_at(&buffer[..filled], at).expect("a write");
    target.sync_data().expect("a sync");
}
