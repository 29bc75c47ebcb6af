//! Owns `bucket adopt`: it says what adoption means, asks, and opens the directory once with that permission.

use std::io::IsTerminal as _;
use std::sync::Arc;

use bucket_store::format::marker::Marker;
use bucket_store::format::names::{BucketId, MARKER};
use bucket_store::inspect::{Adopting, Amount, Look, MarkerLook, adopting, look};
use bucket_store::vfs::{Access, Vfs};
use bucket_store::{Adoption, Store, StoreErrorKind};
use clap::Args;
use ha_types::{ClusterId, SegmentId, SystemClock};
use serde_json::{Map, Value};

use super::{Place, SCHEMA, Trouble, bytes, count, explain, json};
use crate::cli::exit::Exit;
use crate::out;

/// Said below `--help`.
pub(super) const HELP: &str = "\
Adoption marks a directory that Mooncake wrote as the one of this segment and cluster. Its objects are
served from then on as incarnation 0; of a key that is in several buckets the one in the bucket with
the highest id counts, and the others are given up. Tables are rewritten in this program's format then,
and as deletes and GC touch them.

What becomes of everything is said before. Nothing is removed but temporary files: with a data file that
no table names, or a bucket that cannot be read, adoption is refused until it is restored or moved away.

It is one-way: Mooncake cannot use the directory any more. Stop it before, and keep it stopped. On a
terminal you are asked; a script says --one-way.

Examples:
  plimsoll bucket fsck /mnt/ssd0/buckets                                    # look first
  plimsoll bucket adopt /mnt/ssd0/buckets --segment ssd-1 --cluster prod
  plimsoll bucket adopt /mnt/ssd0/buckets --segment ssd-1 --cluster prod --one-way --json

Exit codes:
  0 adopted   1 refused, nothing was changed   2 wrong usage, or not asked for in words: nothing was tried
  4 the disk failed on the way: it may be marked already, and nothing is lost";

/// What to adopt, and as what.
#[derive(Debug, Args)]
pub(in crate::cli) struct AdoptArgs {
    #[command(flatten)]
    place: Place,
    /// The segment id of this storage, for all time
    #[arg(long, value_name = "ID")]
    segment: SegmentId,
    /// The cluster that it belongs to
    #[arg(long, value_name = "ID")]
    cluster: ClusterId,
    /// Do not ask: there is no way back, and that is known
    #[arg(long)]
    one_way: bool,
}

pub(super) fn run(args: AdoptArgs) -> Exit {
    let place = &args.place;
    let dir: Arc<dyn Vfs> = match place.open(Access::Store) {
        Ok(dir) => Arc::new(dir),
        Err(exit) => return exit,
    };
    let seen = match look(&*dir) {
        Ok(seen) => seen,
        Err(error) => return place.unread(error),
    };
    if let Some(why) = not_adoptable(&args, &seen) {
        return place.ended("refused", why, Exit::Refused);
    }
    let told = adopting(&seen, &seen.contents());
    let ended = |verdict, why: Trouble, exit| place.ended_with(verdict, &why, plan(&told), exit);
    if let Some(why) = in_the_way(place, &told) {
        if !place.json {
            told.refused.iter().for_each(|fault| outln!("FAULT {fault}"));
        }
        return ended("refused", why, Exit::Refused);
    }
    if !args.one_way
        && let Err(why) = ask(&args, &told)
    {
        return ended("refused", why, Exit::Usage);
    }
    let identity = Marker { segment: args.segment.clone(), cluster: args.cluster.clone() };
    let opened =
        Store::builder(identity, Arc::new(SystemClock::new())).adoption(Adoption::OneWay).open(Arc::clone(&dir));
    let left_alone: Vec<_> = match opened {
        Ok(store) => store.quarantined().map(|(id, reason)| (id, reason.to_owned())).collect(),
        Err(error) if matches!(error.kind(), StoreErrorKind::Refused | StoreErrorKind::Invalid) => {
            return ended("refused", error.into(), Exit::Refused);
        }
        Err(error) => {
            let more = "run it again: the directory may be marked already, and nothing is lost";
            return ended("unknown", Trouble::from(error).and(more), Exit::Unknown);
        }
    };
    // Before anything is printed: whoever reads slowly keeps no store from opening it.
    drop(dir);
    report(&args, &told, &left_alone);
    Exit::Done
}

fn not_adoptable(args: &AdoptArgs, seen: &Look) -> Option<Trouble> {
    let dir = args.place.path().display();
    let trouble = |code, what: String, remedy: String| Some(Trouble::new(code, MARKER, what, remedy));
    match &seen.marker {
        MarkerLook::Ours(marker) => trouble(
            "ADOPTED_ALREADY",
            format!("{dir} is adopted already: it is of segment {}, cluster {}", marker.segment, marker.cluster),
            "open it as that storage".to_owned(),
        ),
        MarkerLook::Mooncakes(segment) if *segment != args.segment => trouble(
            "OTHER_SEGMENT",
            format!("{dir} is of segment {segment}, and not of {}", args.segment),
            format!("adopt it as --segment {segment}, or name the directory of {}", args.segment),
        ),
        MarkerLook::Absent if seen.is_unused() => trouble(
            "NOTHING_TO_ADOPT",
            format!("{dir} is empty: there is nothing to adopt"),
            "open it as it is; a store marks it by itself".to_owned(),
        ),
        _ => None,
    }
}

/// What a person must decide about before.
fn in_the_way(place: &Place, told: &Adopting) -> Option<Trouble> {
    let first = told.refused.first()?;
    let faults = count(told.refused.len() as u64, "fault is", "faults are");
    let what =
        format!("{} is not adopted, {faults} in the way, the first one of {}", place.path().display(), first.file);
    let remedy = format!("{}; then run it again", first.kind.remedy());
    Some(Trouble::new("ADOPTION_REFUSED", format!("{}: {}", first.file, first.field), what, remedy))
}

fn ask(args: &AdoptArgs, told: &Adopting) -> Result<(), Trouble> {
    let (segment, cluster) = (&args.segment, &args.cluster);
    let not_asked = |what: &str| {
        Trouble::new(
            "NOT_CONFIRMED",
            "--one-way",
            what,
            "type the segment id when you are asked, or say so with --one-way",
        )
    };
    if args.place.json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(not_asked("adoption is one-way: Mooncake cannot use the directory after it"));
    }
    errln!("{} is adopted as segment {segment} of cluster {cluster}:", args.place.path().display());
    sentences(told).iter().for_each(|sentence| errln!("  {sentence}"));
    errln!("It is lost for Mooncake then. There is no way back.");
    out::complain(format_args!("Type the segment id to adopt it: "));
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(_) if line.trim() == segment.as_str() => Ok(()),
        Ok(_) => Err(not_asked("that is not the segment id: nothing was changed")),
        Err(error) => Err(not_asked(&format!("no answer could be read ({error}): nothing was changed"))),
    }
}

/// What becomes of all that is there.
fn sentences(told: &Adopting) -> Vec<String> {
    let records =
        |amount: Amount, one, several| format!("{} of {}", count(amount.records, one, several), bytes(amount.bytes));
    let buckets = count(told.buckets, "bucket", "buckets");
    let mut said = vec![format!("served: {buckets} with {}", records(told.live, "live object", "live objects"))];
    if told.superseded.records > 0 {
        let records = records(told.superseded, "older record", "older records");
        said.push(format!("given up: {records}, as a bucket with a higher id has another object of the same key"));
    }
    if told.tombstoned.records > 0 {
        said.push(format!("deleted before: {}", records(told.tombstoned, "record", "records")));
    }
    said.extend(told.rounds.iter().map(explain::decision));
    let temporaries = match told.temporaries.len() as u64 {
        0 => "nothing".to_owned(),
        some => format!("{} and nothing else", count(some, "temporary file", "temporary files")),
    };
    let rounds = if told.rounds.is_empty() { "" } else { "beside what these rounds remove, " };
    said.push(format!("removed: {rounds}{temporaries}"));
    said
}

/// The same for programs.
fn plan(told: &Adopting) -> Map<String, Value> {
    Map::from_iter([("plan".to_owned(), json::adopting(told))])
}

fn report(args: &AdoptArgs, told: &Adopting, left_alone: &[(BucketId, String)]) {
    if args.place.json {
        let left_alone: Vec<_> =
            left_alone.iter().map(|(id, reason)| json!({ "id": id.0, "reason": reason })).collect();
        let mut report = json!({
            "schema": SCHEMA,
            "verdict": "adopted",
            "dir": args.place.path_json(),
            "segment": args.segment.as_str(),
            "cluster": args.cluster.as_str(),
            "buckets": told.buckets,
            "live": { "records": told.live.records, "bytes": told.live.bytes },
            "quarantined": left_alone,
        });
        if let Some(report) = report.as_object_mut() {
            report.extend(plan(told));
        }
        outln!("{report}");
        return;
    }
    for (id, reason) in left_alone {
        outln!("left alone: bucket {id}: {reason}");
    }
    sentences(told).iter().for_each(|sentence| outln!("{sentence}"));
    let dir = args.place.path().display();
    outln!("adopted for good: {dir} is now segment {} of cluster {}", args.segment, args.cluster);
}
