//! Owns `bucket adopt`: it says what adoption means, asks, and opens the directory once with that permission.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use bucket_store::format::marker::Marker;
use bucket_store::inspect::{Contents, Look, MarkerLook, look};
use bucket_store::vfs::{Access, Vfs};
use bucket_store::{Adoption, Store, StoreErrorKind};
use clap::Args;
use ha_types::{ClusterId, SegmentId, SystemClock};
use serde_json::json;

use super::{Place, SCHEMA, bytes, count};
use crate::cli::exit::Exit;

/// Said below `--help`.
pub(super) const HELP: &str = "\
Adoption marks a directory that Mooncake wrote as the one of this segment and cluster. Its objects are
served from then on as incarnation 0; of a key that is in several buckets the one in the bucket with
the highest id counts. Tables are rewritten in this program's format as deletes and GC touch them.

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
        Err(error) => return place.unread(&error),
    };
    if let Some(reason) = not_adoptable(&seen) {
        return place.refused(&reason);
    }
    let contents = seen.contents();
    if !args.one_way
        && let Err(refusal) = ask(&args, &contents)
    {
        return place.ended("refused", &refusal, Exit::Usage);
    }
    let identity = Marker { segment: args.segment.clone(), cluster: args.cluster.clone() };
    let opened =
        Store::builder(identity, Arc::new(SystemClock::new())).adoption(Adoption::OneWay).open(Arc::clone(&dir));
    let store = match opened {
        Ok(store) => store,
        Err(error) if matches!(error.kind(), StoreErrorKind::Refused | StoreErrorKind::Invalid) => {
            return place.refused(&error);
        }
        Err(error) => {
            let text = format!("{error}; the directory may be marked already, and nothing is lost: run it again");
            return place.ended("unknown", &text, Exit::Unknown);
        }
    };
    let left_alone: Vec<_> = store.quarantined().map(|(id, reason)| (id, reason.to_owned())).collect();
    drop(store);
    report(&args, &contents, &left_alone);
    Exit::Done
}

fn not_adoptable(seen: &Look) -> Option<String> {
    match &seen.marker {
        MarkerLook::Ours(marker) => Some(format!(
            "the directory is adopted already: it is of segment {}, cluster {}",
            marker.segment, marker.cluster
        )),
        MarkerLook::Absent if seen.is_unused() => Some(
            "the directory is empty: there is nothing to adopt, and a store marks it by itself when it opens it"
                .to_owned(),
        ),
        _ => None,
    }
}

fn ask(args: &AdoptArgs, contents: &Contents) -> Result<(), String> {
    let (segment, cluster) = (&args.segment, &args.cluster);
    if args.place.json || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err("adoption is one-way: Mooncake cannot use the directory after it; say so with --one-way".to_owned());
    }
    eprintln!("{} holds {}.", args.place.path().display(), held(contents));
    eprintln!("As segment {segment} of cluster {cluster} it is lost for Mooncake. There is no way back.");
    eprint!("Type the segment id to adopt it: ");
    let mut line = String::new();
    let read = std::io::stderr().flush().and_then(|()| std::io::stdin().read_line(&mut line));
    match read {
        Ok(_) if line.trim() == segment.as_str() => Ok(()),
        Ok(_) => Err("that is not the segment id: nothing was changed".to_owned()),
        Err(error) => Err(format!("no answer could be read ({error}): nothing was changed")),
    }
}

fn held(contents: &Contents) -> String {
    let live = contents.live();
    let buckets = count(contents.buckets.len() as u64, "bucket", "buckets");
    format!("{buckets} with {} of {}", count(live.records, "live object", "live objects"), bytes(live.bytes))
}

fn report(args: &AdoptArgs, contents: &Contents, left_alone: &[(bucket_store::format::names::BucketId, String)]) {
    let live = contents.live();
    if args.place.json {
        let report = json!({
            "schema": SCHEMA,
            "verdict": "adopted",
            "dir": args.place.path_json(),
            "segment": args.segment.as_str(),
            "cluster": args.cluster.as_str(),
            "buckets": contents.buckets.len(),
            "live": { "records": live.records, "bytes": live.bytes },
            "quarantined": left_alone.iter().map(|(id, reason)| json!({ "id": id.0, "reason": reason })).collect::<Vec<_>>(),
        });
        println!("{report}");
        return;
    }
    for (id, reason) in left_alone {
        println!("left alone: bucket {id}: {reason}");
    }
    println!("adopted for good: {}, now segment {} of cluster {}", held(contents), args.segment, args.cluster);
}
