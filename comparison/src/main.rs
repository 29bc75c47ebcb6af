//! Deletes half of a store and reclaims the space, with our bucket store and with RocksDB's blob files: the same objects,
//! the same deletes in the same groups, each group durable before the next, on the same disk.

mod figures;
mod ours;
mod rocks;
mod theirs;
mod workload;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use figures::Figures;
use workload::{Pattern, Workload};

#[derive(Parser)]
#[command(about)]
struct Args {
    /// Objects that are written
    #[arg(long, default_value_t = 200_000)]
    objects: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 64 << 10)]
    value_bytes: usize,
    /// Which half dies
    #[arg(long, value_enum, default_value = "alternate")]
    pattern: Pattern,
    /// Deletes that become durable together
    #[arg(long, default_value_t = 1_000)]
    group: usize,
    /// Rounds of each side, in turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where both sides keep their files
    #[arg(long)]
    directory: PathBuf,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.objects > 1 && args.value_bytes > 0 && args.group > 0 && args.rounds > 0, "nothing to compare");
    let work = Workload { objects: args.objects, value_bytes: args.value_bytes, pattern: args.pattern };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        // Taking turns at being first, so that neither always meets the disk as the other left it.
        for first in [round % 2 == 0, round % 2 != 0] {
            let folder = tempfile::tempdir_in(&args.directory)?;
            if first {
                ours.push(ours::run(folder.path(), work, args.group)?);
            } else {
                theirs.push(theirs::run(folder.path(), work, args.group)?);
            }
            drop(folder);
            std::process::Command::new("sync").status()?;
        }
        eprintln!("round {} of {}: ours {:?}, RocksDB {:?}", round + 1, args.rounds, ours[round], theirs[round]);
    }
    report(&args, &ours, &theirs);
    Ok(())
}

fn report(args: &Args, ours: &[Figures], theirs: &[Figures]) {
    let case =
        format!("{} x {} KiB, {:?}, groups of {}", args.objects, args.value_bytes >> 10, args.pattern, args.group);
    type Figure = fn(&Figures) -> f64;
    let rows: [(&str, Figure); 3] =
        [("seconds", |f| f.seconds()), ("bytes written", |f| f.written as f64), ("bytes left", |f| f.left as f64)];
    for (name, figure) in rows {
        let (us, them) = (median(ours, figure), median(theirs, figure));
        if args.json {
            let line = serde_json::json!({
                "case": format!("{case}: {name}"), "ratio": them / us, "ours": us, "rocksdb": them,
            });
            println!("{line}");
        } else {
            println!("{case}: {name:<14} ours {us:>16.2}  RocksDB {them:>16.2}  x {:.2} (higher is better)", them / us);
        }
    }
}

fn median(rounds: &[Figures], figure: fn(&Figures) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
