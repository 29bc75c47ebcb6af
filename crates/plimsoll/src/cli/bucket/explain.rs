//! Owns `bucket explain`: the settings that a store is supposed to have, and the forecast for people.

use bucket_store::Config;
use bucket_store::format::intent::Round;
use bucket_store::format::names::BucketId;
use bucket_store::gc::plan::{Idle, Plan};
use bucket_store::inspect::{BucketExplained, Explanation, explain};
use bucket_store::recovery::{Action, Decision};
use clap::Args;

use super::{Place, bytes, count, json, percent};
use crate::cli::exit::Exit;
use crate::cli::{output, size};

/// Said below `--help`.
pub(super) const HELP: &str = "\
First what the next open would do: what a crash left of GC and how each round of it ends, what is
removed, what is left alone, or why the open would refuse. Then what GC would do: for each bucket
whether it is a candidate and why, and which step comes first. Recovery and the planner of the store
answer themselves; nothing is guessed.

GC works in this order: buckets in which nothing is alive go at once, without a copy. From the high
watermark on, down to the low one, the deadest buckets are merged, eight at most into one; below 5 %
dead a copy costs more than it frees. Below the watermark a bucket is copied only if --dead-ratio is
set. If nothing helps, the oldest bucket is evicted with what is alive in it, if anybody agrees.
What is in quarantine is not touched: the watermarks are shares of the rest of the capacity.

Give the settings of the store that you ask about; what is not given has its default.

Examples:
  plimsoll bucket explain /mnt/ssd0/buckets
  plimsoll bucket explain /mnt/ssd0/buckets --capacity 1TiB --high-watermark 0.85 --dead-ratio 0.5
  plimsoll bucket explain /mnt/ssd0/buckets 42 43 --json | jq .gc.buckets

Exit codes:
  0 said   2 wrong usage, or the directory could not be read or is in use";

/// What to explain.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    #[command(flatten)]
    place: Place,
    /// Only these buckets
    #[arg(value_name = "BUCKET")]
    buckets: Vec<u64>,
    /// Bytes that the buckets may occupy: bytes, or with KiB, MiB, GiB, TiB
    #[arg(long, value_parser = size::parse)]
    capacity: Option<u64>,
    /// The share of the capacity at which GC begins to make room
    #[arg(long, value_name = "SHARE")]
    high_watermark: Option<f64>,
    /// The share at which it stops
    #[arg(long, value_name = "SHARE")]
    low_watermark: Option<f64>,
    /// The dead share from which a bucket is copied without pressure; without it none is
    #[arg(long, value_name = "SHARE")]
    dead_ratio: Option<f64>,
    /// The dead share below which a bucket is never copied
    #[arg(long, value_name = "SHARE")]
    floor: Option<f64>,
    /// The largest bucket
    #[arg(long, value_parser = size::parse)]
    bucket_size: Option<u64>,
    /// The most objects of a bucket
    #[arg(long, value_name = "N")]
    bucket_keys: Option<usize>,
    /// Nobody agrees to evictions
    #[arg(long)]
    no_evict: bool,
}

impl ExplainArgs {
    fn config(&self) -> Config {
        let default = Config::default();
        let capacity_bytes = self.capacity.unwrap_or(default.capacity_bytes);
        Config {
            capacity_bytes,
            high_watermark: self.high_watermark.unwrap_or(default.high_watermark),
            low_watermark: self.low_watermark.unwrap_or(default.low_watermark),
            normal_dead_ratio: self.dead_ratio.or(default.normal_dead_ratio),
            dead_ratio_floor: self.floor.unwrap_or(default.dead_ratio_floor),
            // A capacity below the default bucket is meant as it is typed.
            bucket_size_bytes: self.bucket_size.unwrap_or_else(|| default.bucket_size_bytes.min(capacity_bytes)),
            bucket_keys: self.bucket_keys.unwrap_or(default.bucket_keys),
            ..default
        }
    }
}

pub(super) fn run(args: &ExplainArgs) -> Exit {
    let config = args.config();
    if let Err(error) = config.validate() {
        return args.place.usage(error);
    }
    let seen = match args.place.look() {
        Ok(seen) => seen,
        Err(exit) => return exit,
    };
    if let Some(unknown) = args.buckets.iter().find(|id| !seen.buckets.contains_key(&BucketId(**id))) {
        return args.place.has_no_bucket(*unknown);
    }
    let told = match explain(&seen, &seen.contents(), &config, !args.no_evict) {
        Ok(told) => told,
        Err(error) => return args.place.usage(error),
    };
    let asked = |bucket: &&BucketExplained| args.buckets.is_empty() || args.buckets.contains(&bucket.facts.id.0);
    let shown: Vec<_> = told.buckets.iter().filter(asked).collect();
    if args.place.json {
        outln!("{}", json::explanation(&args.place, &seen, &told, &shown));
    } else {
        print_open(&told);
        outln!();
        print_gc(&told, &config, &shown);
    }
    Exit::Done
}

fn print_open(told: &Explanation) {
    if !told.refused.is_empty() {
        outln!("The next open refuses, and changes nothing:");
        told.refused.iter().for_each(|fault| outln!("  {fault}"));
        return;
    }
    outln!("The next open:");
    if !told.adoption_refused.is_empty() {
        outln!("  refuses, as nothing marks the directory as ours, and so does an adoption:");
        told.adoption_refused.iter().for_each(|fault| outln!("  {fault}"));
        return;
    }
    if told.needs_adoption {
        outln!("  refuses, unless the directory is adopted: plimsoll bucket adopt. If it is:");
    }
    for decided in &told.recovery {
        outln!("  {}", decision(decided));
    }
    if !told.orphans.is_empty() {
        let files = count(told.orphans.len() as u64, "data file that no table names", "data files that no table names");
        outln!("  removes {files}: {}", list(&told.orphans));
    }
    if !told.temporaries.is_empty() {
        outln!("  removes {}", count(told.temporaries.len() as u64, "temporary file", "temporary files"));
    }
    for (id, reason) in &told.quarantined {
        outln!("  leaves bucket {id} alone and serves nothing of it: {reason}");
    }
    let served = count(told.buckets.len() as u64, "bucket", "buckets");
    outln!("  serves {served}");
}

/// What becomes of a round, in a sentence.
pub(super) fn decision(decision: &Decision) -> String {
    let (sources, gone) = (list(decision.round.sources()), list(decision.gone()));
    match (&decision.round, decision.action) {
        (Round::Prepared { target, .. }, Action::RollBack) => {
            format!("a copy of {sources} into {target} was not committed: {sources} stay, {target} goes")
        }
        (Round::Committed { target: Some(target), .. }, _) => {
            format!("{target} has replaced {sources}: {target} stays, {gone} go")
        }
        _ => format!("{gone} were given up: they go"),
    }
}

fn list(ids: &[BucketId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn print_gc(told: &Explanation, config: &Config, shown: &[&BucketExplained]) {
    let (room, limits) = (told.room, told.limits);
    outln!(
        "GC: {} used of {} ({}); it makes room from {} on, down to {}: {}",
        bytes(room.physical_bytes),
        bytes(config.capacity_bytes),
        percent(room.physical_bytes, config.capacity_bytes),
        bytes(limits.high_bytes),
        bytes(limits.low_bytes),
        if room.pressure { "it is under pressure" } else { "there is no pressure" },
    );
    if room.out_of_reach_bytes > 0 {
        let left_alone = bytes(room.out_of_reach_bytes);
        outln!("  {left_alone} of it are in quarantine, and no GC gives them back: mend or remove those buckets.");
        outln!("  Until then it works as in a store that is smaller by as much");
    }
    outln!("  first it would {}", plan(&told.plan));
    if shown.is_empty() {
        return;
    }
    let mut table = output::table(["bucket", "age", "live", "", "dead", "", "on disk", "verdict"]);
    for bucket in shown {
        let facts = &bucket.facts;
        table.add_row([
            facts.id.to_string(),
            facts.age.to_string(),
            facts.live_records.to_string(),
            bytes(facts.live_bytes),
            bytes(facts.dead_bytes),
            percent(facts.dead_bytes, facts.dead_bytes + facts.live_bytes),
            bytes(facts.allocated_bytes),
            bucket.verdict.to_string(),
        ]);
    }
    outln!("\n{table}");
}

fn plan(plan: &Plan) -> String {
    match plan {
        Plan::Nothing(Idle::EnoughRoom) => "do nothing: there is room, and no bucket asks for a copy".to_owned(),
        Plan::Nothing(Idle::WaitsForRelease) => "wait: what is retired already is enough".to_owned(),
        Plan::Nothing(Idle::SetAside { .. }) => "wait: the only candidates failed lately".to_owned(),
        Plan::Nothing(Idle::NoRoomToCopy) => {
            "do nothing: there are candidates, and no room on the disk for the copy of any".to_owned()
        }
        Plan::Nothing(Idle::NoCandidate) => {
            "do nothing, although it should: no bucket is dead enough, and none may be evicted".to_owned()
        }
        Plan::RemoveDead(dead) => format!("remove {}, in which nothing is alive", list(dead)),
        Plan::Merge { sources, copy_bytes, records, .. } => {
            let records = count(u64::from(*records), "record", "records");
            format!("merge {} into one bucket: {records}, {} to copy", list(sources), bytes(*copy_bytes))
        }
        Plan::Evict(bucket) => format!("evict {bucket} with what is alive in it, if anybody agrees"),
    }
}
