//! Owns the case *write*: whole buckets, against one plain file per bucket with the same write sizes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bucket_store::{Config, Durability};

use crate::kit::{Args, KIB, MIB, Objects, interleaved, median, open, timed};
use crate::place;
use crate::report::{Aim, Report, Row};

/// The store writes groups of records of at least this size.
const GROUP_BYTES: usize = MIB;

pub(crate) fn run(args: &Args, report: &mut Report) {
    for (size, per_bucket) in [(64 * KIB, 500), (MIB, 250)] {
        for durability in [Durability::Relaxed, Durability::Sync] {
            // A round of each side: a part of the data that leaves the page cache room to take it without waiting.
            let bytes = args.data_bytes() / 4;
            let objects = Objects::new((bytes / size).next_multiple_of(per_bucket), size);
            let case = Case { args, objects: &objects, per_bucket, durability };
            let mut file_bytes = 0;
            let ours = || {
                let (seconds, bytes) = case.ours();
                file_bytes = bytes;
                seconds
            };
            let bucket_bytes = case.bucket_bytes();
            let mut their_bytes = 0;
            let theirs = || {
                let (seconds, bytes) = case.theirs(bucket_bytes);
                their_bytes = bytes;
                seconds
            };
            let (us, them) = interleaved(args.rounds(), ours, theirs);
            assert_eq!(file_bytes, their_bytes, "both sides write the same bytes");
            let (us, them) = (median(us), median(them));
            report.add(&Row {
                case: format!("write {} KiB, {durability:?}", size >> 10).to_lowercase(),
                ratio: Some(them / us),
                mb_per_s: Some((objects.len() * size) as f64 / us / 1e6),
                aims: &[Aim::AtLeast("ratio", 0.9)],
                ..Row::default()
            });
        }
    }
}

struct Case<'a> {
    args: &'a Args,
    objects: &'a Objects,
    per_bucket: usize,
    durability: Durability,
}

impl Case<'_> {
    fn folder(&self) -> tempfile::TempDir {
        tempfile::tempdir_in(&self.args.directory).expect("a directory")
    }

    /// Seconds, and bytes of the data files.
    fn ours(&self) -> (f64, u64) {
        let folder = self.folder();
        let limit = 1 << 40;
        let config = Config { durability: self.durability, relaxed_limit_bytes: limit, ..Config::default() };
        let store = open(folder.path(), config);
        let batches: Vec<Vec<_>> = (0..self.objects.len())
            .step_by(self.per_bucket)
            .map(|first| (first..first + self.per_bucket).map(|n| self.objects.object(n)).collect())
            .collect();
        let seconds = timed(|| {
            for batch in &batches {
                store.write(batch).unwrap_or_else(|e| panic!("{e}"));
            }
        });
        store.publish_pending().unwrap_or_else(|e| panic!("{e}"));
        let bytes =
            place::data_files(folder.path()).values().map(|file| file.metadata().expect("a length").len()).sum();
        (seconds.as_secs_f64(), bytes)
    }

    /// Bytes of one data file of ours: the headers are few, and the baseline writes as many.
    fn bucket_bytes(&self) -> u64 {
        let folder = self.folder();
        let store = open(folder.path(), Config::default());
        let batch: Vec<_> = (0..self.per_bucket).map(|n| self.objects.object(n)).collect();
        store.write(&batch).unwrap_or_else(|e| panic!("{e}"));
        let files = place::data_files(folder.path());
        assert_eq!(files.len(), 1, "one call writes one bucket");
        files.values().map(|file| file.metadata().expect("a length").len()).sum()
    }

    fn theirs(&self, bucket_bytes: u64) -> (f64, u64) {
        let folder = self.folder();
        let buckets = self.objects.len() / self.per_bucket;
        let mut files = Vec::with_capacity(buckets);
        let seconds = timed(|| {
            for bucket in 0..buckets {
                files.push(self.plain(&folder.path().join(format!("{bucket}.plain")), bucket, bucket_bytes));
            }
        });
        for file in &files {
            file.sync_data().expect("a sync");
        }
        let bytes = files.iter().map(|file| file.metadata().expect("a length").len()).sum();
        (seconds.as_secs_f64(), bytes)
    }

    fn plain(&self, path: &Path, bucket: usize, bytes: u64) -> File {
        let file = File::create_new(path).expect("a file");
        let pool = self.objects.pool();
        let record_bytes = bytes as usize / self.per_bucket;
        let write_bytes = record_bytes * GROUP_BYTES.div_ceil(record_bytes);
        let mut at = 0;
        while at < bytes {
            let len = write_bytes.min((bytes - at) as usize);
            let from = (bucket * 7 * MIB + at as usize) % (pool.len() - len);
            file.write_all_at(&pool[from..from + len], at).expect("a write");
            at += len as u64;
        }
        if self.durability == Durability::Sync {
            file.sync_data().expect("a sync");
        }
        file
    }
}
