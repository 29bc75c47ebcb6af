//! Owns `bucket ls`: which part of a directory is shown, and the tables for people.

use bucket_store::format::names::BucketId;
use bucket_store::format::table::RecordLayout;
use bucket_store::inspect::{BucketContents, Contents, Look, MarkerLook, RecordLook, RecordState, Standing};
use clap::Args;

use super::{Place, Trouble, bytes, count, json, percent, picture};
use crate::cli::exit::Exit;
use crate::cli::output;

/// Said below `--help`.
pub(super) const HELP: &str = "\
Without --objects, one line per bucket: how much of it is live and dead, the blocks that it takes on
the disk, and a strip that shows from its first byte to its last where live and dead records lie.
With --objects, one line per live object, by key; with --all the dead ones too, and what they are:
superseded (a newer record of the key is served), tombstoned (deleted), unserved (its bucket is).

The filters choose objects, and buckets by the objects in them. Nothing is read but the tables.

Examples:
  plimsoll bucket ls /mnt/ssd0/buckets
  plimsoll bucket ls /mnt/ssd0/buckets --objects --tenant default --prefix model/
  plimsoll bucket ls /mnt/ssd0/buckets --objects --all --bucket 42 --json

Exit codes:
  0 shown   2 wrong usage, or the directory could not be read";

/// What to show.
#[derive(Debug, Args)]
pub(in crate::cli) struct LsArgs {
    #[command(flatten)]
    place: Place,
    /// List objects instead of buckets
    #[arg(long)]
    objects: bool,
    /// With --objects: dead records too
    #[arg(long, requires = "objects")]
    all: bool,
    /// Only what this tenant has
    #[arg(long)]
    tenant: Option<String>,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY")]
    prefix: Option<String>,
    /// --prefix is typed as hexadecimal digits, so that any bytes can be
    #[arg(long, requires = "prefix")]
    hex: bool,
    /// Only this bucket; may be given several times
    #[arg(long = "bucket", value_name = "ID")]
    buckets: Vec<u64>,
    /// At most so many lines; without it all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Cells of a bucket's picture
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    width: u16,
}

/// Which records are meant.
pub(super) struct Filter {
    tenant: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
    buckets: Vec<u64>,
}

impl Filter {
    fn of(args: &LsArgs) -> Result<Self, Trouble> {
        let prefix = match &args.prefix {
            Some(typed) if args.hex => Some(output::unhex(typed).ok_or_else(|| {
                let what = format!("the prefix {typed:?} is not hexadecimal");
                let remedy = "give an even number of the digits 0-9 and a-f, or leave out --hex";
                Trouble::new("BAD_PREFIX", "--prefix", what, remedy)
            })?),
            typed => typed.as_ref().map(|typed| typed.clone().into_bytes()),
        };
        let tenant = args.tenant.as_ref().map(|tenant| tenant.clone().into_bytes());
        Ok(Self { tenant, prefix, buckets: args.buckets.clone() })
    }

    fn asks_for_keys(&self) -> bool {
        self.tenant.is_some() || self.prefix.is_some()
    }

    fn has_bucket(&self, id: BucketId) -> bool {
        self.buckets.is_empty() || self.buckets.contains(&id.0)
    }

    fn has(&self, record: &RecordLook) -> bool {
        let (tenant, key) = split(&record.key);
        self.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
            && self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    }
}

/// Tenant and key of a storage key; every key of a table has both.
pub(super) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    bucket_store::StorageKey::split(key).unwrap_or((&[], key))
}

pub(super) fn run(args: &LsArgs) -> Exit {
    let filter = match Filter::of(args) {
        Ok(filter) => filter,
        Err(error) => return args.place.usage(error),
    };
    let seen = match args.place.look() {
        Ok(seen) => seen,
        Err(exit) => return exit,
    };
    if let Some(unknown) = args.buckets.iter().find(|id| !seen.buckets.contains_key(&BucketId(**id))) {
        return args.place.has_no_bucket(*unknown);
    }
    let contents = seen.contents();
    let buckets: Vec<_> = contents
        .buckets
        .iter()
        .filter(|bucket| filter.has_bucket(bucket.id))
        .filter(|bucket| !filter.asks_for_keys() || bucket.records.iter().any(|record| filter.has(record)))
        .collect();
    let limit = args.limit.unwrap_or(usize::MAX);
    if args.objects {
        let mut records: Vec<_> = buckets.iter().flat_map(|bucket| &bucket.records).filter(|r| filter.has(r)).collect();
        records.retain(|record| args.all || record.state == RecordState::Live);
        records.sort_by(|a, b| (&a.key, a.write_number, a.bucket).cmp(&(&b.key, b.write_number, b.bucket)));
        let more = records.len().saturating_sub(limit);
        records.truncate(limit);
        if args.place.json {
            outln!("{}", json::objects(&args.place, &seen, &records, more));
        } else {
            print_objects(&records, more);
        }
        return Exit::Done;
    }
    let more = buckets.len().saturating_sub(limit);
    let shown = &buckets[..buckets.len() - more];
    if args.place.json {
        outln!("{}", json::buckets(&args.place, &seen, &contents, shown, more, args.width.into()));
    } else {
        print_head(&args.place, &seen);
        print_buckets(&seen, shown, more, args.width.into());
        outln!("{}", totals(&seen, &contents));
    }
    Exit::Done
}

fn print_head(place: &Place, seen: &Look) {
    let whose = match &seen.marker {
        MarkerLook::Ours(marker) => format!("segment {}, cluster {}", marker.segment, marker.cluster),
        MarkerLook::Mooncakes(segment) => format!("Mooncake's, segment {segment}; not adopted: plimsoll bucket adopt"),
        MarkerLook::Absent if seen.is_unused() => "empty: nothing was ever stored".to_owned(),
        MarkerLook::Absent => "no marker says whose it is: plimsoll bucket fsck".to_owned(),
        MarkerLook::Unreadable(error) => format!("its marker cannot be read: {error}"),
    };
    outln!("{}: {whose}", place.path().display());
    if let Some(Ok(high)) = &seen.high_water {
        outln!("numbers given out: buckets below {}, writes below {}", high.next_bucket, high.next_write_number);
    }
    if let Some(Ok(intents)) = &seen.intents
        && !intents.rounds.is_empty()
    {
        let rounds = count(intents.rounds.len() as u64, "round of GC waits", "rounds of GC wait");
        outln!("{rounds} to be ended: plimsoll bucket explain");
    }
    if let Some(Ok(graves)) = &seen.graves {
        let keys = count(graves.keys.len() as u64, "key is", "keys are");
        let away = count(graves.away.len() as u64, "bucket", "buckets");
        outln!("{keys} kept in mind that must not come back with {away} that could not be read");
    }
    outln!();
}

fn print_buckets(seen: &Look, buckets: &[&BucketContents], more: usize, width: usize) {
    if buckets.is_empty() {
        return;
    }
    let mut table =
        output::table(["bucket", "age", "live", "", "dead", "", "on disk", "what it is", "from first to last byte"]);
    for bucket in buckets {
        let (live, dead) = (bucket.amount(RecordState::Live), bucket.dead_bytes());
        let records = bucket.records.len() as u64 - live.records;
        table.add_row([
            bucket.id.to_string(),
            bucket.age.map_or_else(|| "-".to_owned(), |age| age.to_string()),
            live.records.to_string(),
            bytes(live.bytes),
            records.to_string(),
            format!("{} ({})", bytes(dead), percent(dead, bucket.data_len)),
            bytes(bucket.allocated_bytes),
            what(seen, bucket),
            picture::strip(bucket, width),
        ]);
    }
    outln!("{table}\n\n{}", picture::LEGEND);
    if more > 0 {
        outln!("{more} more buckets are not listed (--limit)");
    }
}

fn what(seen: &Look, bucket: &BucketContents) -> String {
    match &bucket.standing {
        Standing::Served if bucket.layout == Some(RecordLayout::MooncakeRaw) => "served, Mooncake's".to_owned(),
        Standing::Served => "served".to_owned(),
        Standing::Retired => "replaced: goes at the next open".to_owned(),
        Standing::Uncommitted => "half made: goes at the next open".to_owned(),
        Standing::Orphan if matches!(seen.marker, MarkerLook::Ours(_)) => "no table: goes at the next open".to_owned(),
        Standing::Orphan => "no table: plimsoll bucket fsck".to_owned(),
        Standing::Quarantined(_) => "not served: plimsoll bucket fsck".to_owned(),
    }
}

fn totals(seen: &Look, contents: &Contents) -> String {
    let live = contents.live();
    let dead = contents.dead_bytes();
    let mut text = format!(
        "{} with {} of {}; {} dead ({}); {} on disk",
        count(contents.buckets.len() as u64, "bucket", "buckets"),
        count(live.records, "live object", "live objects"),
        bytes(live.bytes),
        bytes(dead),
        percent(dead, contents.data_bytes()),
        bytes(contents.allocated_bytes()),
    );
    if let Some(reserve) = seen.reserve_bytes {
        text.push_str(&format!(", {} in reserve", bytes(reserve)));
    }
    if let Some(space) = seen.space {
        text.push_str(&format!(", {} free", bytes(space.free_bytes)));
    }
    text
}

fn print_objects(records: &[&RecordLook], more: usize) {
    let mut table = output::table(["tenant", "key", "incarnation", "write", "bucket", "byte", "size", "what it is"]);
    for record in records {
        let (tenant, key) = split(&record.key);
        table.add_row([
            output::key_text(tenant),
            output::key_text(key),
            record.incarnation.to_string(),
            record.write_number.to_string(),
            record.bucket.to_string(),
            record.offset.to_string(),
            record.value_len.to_string(),
            record.state.name().to_owned(),
        ]);
    }
    if !records.is_empty() {
        outln!("{table}\n");
    }
    outln!("{}", count(records.len() as u64, "record", "records"));
    if more > 0 {
        outln!("{more} more are not listed (--limit)");
    }
}
