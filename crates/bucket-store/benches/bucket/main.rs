//! Owns the measurement of the bucket store against plain files on the same disk: same bytes, same sizes of reads and writes, a sync
//! where the store syncs. `cargo bench -p bucket-store --bench bucket -- [--quick] [--json] [--only CASE] [--directory PATH]`.
//!
//! Ratios are of the medians of interleaved rounds, higher is better; p99 ratios are with GC over without, lower is better.

mod foreground;
mod gc;
mod kit;
mod memory;
mod place;
mod read;
mod report;
mod tombstones;
mod write;

use kit::Args;
use report::Report;

/// A group of cases by its name for `--only`, and how it is measured.
type Suite = (&'static str, fn(&Args, &mut Report));

const SUITES: [Suite; 5] = [
    ("write", write::run),
    ("read", read::run),
    ("tombstones", tombstones::run),
    ("gc", gc::run),
    ("foreground", foreground::run),
];

fn main() {
    let args = Args::read();
    kit::allow_many_files();
    let mut report = Report::new(args.json);
    let wanted = |name: &str| args.only.as_ref().is_none_or(|only| only == name);
    assert!(SUITES.iter().any(|(name, _)| wanted(name)), "--only is one of write, read, tombstones, gc, foreground");
    for (name, run) in SUITES {
        if wanted(name) {
            run(&args, &mut report);
        }
    }
    report.close();
}
