//! Owns `bucket fsck`: what is checked, how far it is, what is repaired when told to, and how it ends.

use std::sync::Arc;

use bucket_store::format::names::MARKER;
use bucket_store::inspect::{FsckOptions, FsckReport, Look, MarkerLook, Repaired, fsck, look, repair};
use bucket_store::vfs::{Access, Vfs};
use clap::Args;
use ha_types::{ClusterId, SegmentId, SystemClock};

use super::{Place, Trouble, bytes, count, explain, json};
use crate::cli::bar::bar;
use crate::cli::exit::Exit;

/// Said below `--help`.
pub(super) const HELP: &str = "\
Everything is read once and judged: marker, high-water mark, intents of GC, every table, every record
with its header and each checksum of its value, data files without a table and the reverse, records
that overlap, one object live in two buckets, and names that do not belong. It goes on after every
fault, and says of each the file, the field, what had to be there, what is, and what to do about it.
Records of Mooncake's have no checksum: of them the key is compared, and that the value can be read.

--repair does what the next open of a store would do, and no more: it ends the rounds of GC that a
crash left, removes data files that no table names and temporary files, and writes the high-water mark
anew where it is below what was used. It deletes nothing that is live or that only cannot be read, and
leaves the directory as it is where a store would refuse to open it. Then it checks again.

Examples:
  plimsoll bucket fsck /mnt/ssd0/buckets
  plimsoll bucket fsck /mnt/ssd0/buckets --segment ssd-1 --cluster prod --json | jq .faults.by_kind
  plimsoll bucket fsck /mnt/ssd0/buckets --tables-only     # quick: reads no data file
  plimsoll bucket fsck /mnt/ssd0/buckets --repair

Exit codes:
  0 sound   1 faults (with --repair: that are left)   2 wrong usage, or the directory could not be
  read or is in use: nothing was judged";

/// What to check.
#[derive(Debug, Args)]
pub(in crate::cli) struct FsckArgs {
    #[command(flatten)]
    place: Place,
    /// Do what the next open would do about a crash, and check again
    #[arg(long)]
    repair: bool,
    /// Read the tables and other small files only, not the records
    #[arg(long)]
    tables_only: bool,
    /// The segment that the directory must be of
    #[arg(long, value_name = "ID")]
    segment: Option<SegmentId>,
    /// The cluster that it must be of
    #[arg(long, value_name = "ID")]
    cluster: Option<ClusterId>,
    /// List at most so many faults; all are counted
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_faults: usize,
}

pub(super) fn run(args: &FsckArgs) -> Exit {
    let place = &args.place;
    let access = if args.repair { Access::Store } else { Access::Inspect };
    let dir: Arc<dyn Vfs> = match place.open(access) {
        Ok(dir) => Arc::new(dir),
        Err(exit) => return exit,
    };
    let repaired = args.repair.then(|| repair_as_told(args, &dir));
    let seen = match look(&*dir) {
        Ok(seen) => seen,
        Err(error) => return place.unread(error),
    };
    let report = judge(args, &*dir, &seen);
    // Before anything is printed: whoever reads slowly keeps no store from opening it.
    drop(dir);
    if place.json {
        outln!("{}", json::fsck(place, &seen, &report, repaired.as_ref()));
    } else {
        print(&report, repaired.as_ref());
    }
    let refused = repaired.as_ref().is_some_and(Result::is_err);
    if report.is_sound() && !refused { Exit::Done } else { Exit::Refused }
}

/// Repairs, if the directory is of the storage that was named, where one was.
fn repair_as_told(args: &FsckArgs, dir: &Arc<dyn Vfs>) -> Result<Repaired, Trouble> {
    let seen = look(&**dir)?;
    if let MarkerLook::Ours(marker) = &seen.marker {
        let other = |code, what: &str, expected: &str, found: &str| {
            let said = format!("the directory is of {what} {found}, not of {expected}: nothing was changed");
            let remedy = "name the directory of that storage, or the storage of this directory";
            Err(Trouble::new(code, format!("{MARKER}: {what}"), said, remedy))
        };
        match (&args.segment, &args.cluster) {
            (Some(segment), _) if *segment != marker.segment => {
                return other("OTHER_SEGMENT", "segment", segment.as_str(), marker.segment.as_str());
            }
            (_, Some(cluster)) if *cluster != marker.cluster => {
                return other("OTHER_CLUSTER", "cluster", cluster.as_str(), marker.cluster.as_str());
            }
            _ => {}
        }
    }
    Ok(repair(Arc::clone(dir), Arc::new(SystemClock::new()))?)
}

fn judge(args: &FsckArgs, dir: &dyn Vfs, seen: &Look) -> FsckReport {
    let options = FsckOptions {
        max_faults: args.max_faults,
        tables_only: args.tables_only,
        segment: args.segment.clone(),
        cluster: args.cluster.clone(),
    };
    let template = "checking {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    let bar = bar(template, args.place.json || args.tables_only);
    let report = fsck(dir, seen, &options, &mut |progress| {
        bar.set_length(progress.expected_bytes);
        bar.set_position(progress.bytes);
        if progress.faults > 0 {
            bar.set_message(count(progress.faults, "fault", "faults"));
        }
    });
    bar.finish_and_clear();
    report
}

fn print(report: &FsckReport, repaired: Option<&Result<Repaired, Trouble>>) {
    match repaired {
        None => {}
        Some(Ok(repaired)) => print_repaired(repaired),
        Some(Err(error)) => outln!("not repaired: {error}"),
    }
    for note in &report.notes {
        outln!("note: {note}");
    }
    for fault in report.faults.listed() {
        outln!("FAULT {fault}");
    }
    if report.faults.unlisted() > 0 {
        outln!("{} more faults are counted and not listed (--max-faults)", report.faults.unlisted());
    }
    let looked_at = format!(
        "{} in {}, {} read",
        count(report.records, "record", "records"),
        count(report.buckets, "bucket", "buckets"),
        bytes(report.read_bytes),
    );
    let unverifiable = match report.unverifiable_records {
        0 => String::new(),
        records => format!(", {records} of them Mooncake's, which have no checksum"),
    };
    if report.is_sound() {
        outln!("sound: {looked_at}{unverifiable}, and no fault was found");
    } else {
        let kinds = report.faults.by_kind().iter().map(|(kind, count)| format!("{count} {kind}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        outln!("{} in {looked_at}{unverifiable}: {kinds}", count(report.faults.total(), "fault", "faults"));
    }
}

fn print_repaired(repaired: &Repaired) {
    for decision in &repaired.rounds {
        outln!("repaired: {}", explain::decision(decision));
    }
    let (files, freed) = repaired.orphans;
    if files > 0 {
        outln!(
            "repaired: {} without a table removed, {}",
            count(files as u64, "data file", "data files"),
            bytes(freed)
        );
    }
    if repaired.temporaries > 0 {
        outln!("repaired: {} removed", count(repaired.temporaries as u64, "temporary file", "temporary files"));
    }
    if let Some(high) = repaired.high_water {
        outln!(
            "repaired: high-water mark written: buckets below {}, writes below {}",
            high.next_bucket,
            high.next_write_number
        );
    }
    if repaired.is_nothing() {
        outln!("there was nothing to repair");
    }
    for (id, reason) in &repaired.quarantined {
        outln!("left alone: bucket {id}: {reason}");
    }
}
