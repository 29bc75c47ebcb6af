//! Owns the case *read*: whole objects in an order without a pattern, against `pread` of the same ranges into the same buffer.
//!
//! The store has no read that skips its checksums. What they cost shows against a `pread` that computes the same ones.

use std::os::unix::fs::FileExt as _;

use bucket_store::{Config, ReadRequest};

use crate::kit::{Args, KIB, MIB, Objects, Random, fill, interleaved, median, open, timed};
use crate::place;
use crate::report::{Aim, Report, Row};

/// Bytes of a value that have a checksum of their own.
const CHUNK_BYTES: usize = 64 * KIB;

pub(crate) fn run(args: &Args, report: &mut Report) {
    for (size, per_bucket) in [(64 * KIB, 500), (MIB, 250)] {
        let objects = Objects::new(args.data_bytes() / size, size);
        let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
        let store = open(folder.path(), Config::default());
        fill(&store, &objects, per_bucket);
        let (places, _) = place::places(folder.path());
        let ranges: Vec<_> = (0..objects.len()).map(|n| places[objects.key(n)]).collect();
        let files = place::data_files(folder.path());
        let order = Random::new(size as u64).order(objects.len());
        let (mut buf, mut plain_buf) = (vec![0; size], vec![0; size]);
        // Whole and the same, before anything is timed: what is timed are the same calls.
        for n in &order {
            let read = store.read_into(&ReadRequest::whole(objects.key(*n)), &mut buf);
            assert_eq!(read.unwrap_or_else(|e| panic!("{e}")), size);
            let range = ranges[*n];
            files[&range.bucket].read_exact_at(&mut plain_buf, range.value.0).expect("a read");
            assert!(buf == plain_buf && buf == objects.value(*n), "both sides read the same bytes");
        }
        let cases: [(&str, bool, bool, &[Aim]); 3] = [
            ("cold", true, false, &[Aim::AtLeast("ratio", 0.9)]),
            ("cached", false, false, &[Aim::AtLeast("ratio", 0.6)]),
            ("cached, against pread with the same checksums", false, true, &[]),
        ];
        for (name, cold, summed, aims) in cases {
            let ours = || {
                if cold {
                    place::make_cold(&files);
                }
                let took = timed(|| {
                    for n in &order {
                        let read = store.read_into(&ReadRequest::whole(objects.key(*n)), &mut buf);
                        assert_eq!(read.unwrap_or_else(|e| panic!("{e}")), size);
                    }
                });
                took.as_secs_f64()
            };
            let theirs = || {
                if cold {
                    place::make_cold(&files);
                }
                let took = timed(|| {
                    for n in &order {
                        let range = ranges[*n];
                        files[&range.bucket].read_exact_at(&mut plain_buf, range.value.0).expect("a read");
                        if summed {
                            for chunk in plain_buf.chunks(CHUNK_BYTES) {
                                std::hint::black_box(crc_fast::crc32_iscsi(chunk));
                            }
                        }
                    }
                });
                took.as_secs_f64()
            };
            let (us, them) = interleaved(args.rounds(), ours, theirs);
            let (us, them) = (median(us), median(them));
            report.add(&Row {
                case: format!("read {} KiB, {name}", size >> 10),
                ratio: Some(them / us),
                mb_per_s: Some((objects.len() * size) as f64 / us / 1e6),
                aims,
                ..Row::default()
            });
        }
        assert_eq!(buf, plain_buf, "the last object of both sides");
    }
}
