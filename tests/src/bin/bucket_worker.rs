//! Owns a process that works on a bucket directory until it is killed, and tells every step before and after it.
//!
//! `bucket-worker DIR SEED FIRST sync|relaxed` writes, deletes and collects at random; FIRST is the first number that no object ever had.
//! On standard output, one line each, with the numbers of objects: `w` a write begins, `W` it was answered; `d` a delete begins, `D` what of
//! it is acknowledged; `s` everything that was answered before is durable; `g` GC has ended a step.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use bucket_store::gc::GcStep;
use bucket_store::{Durability, Store, StoreErrorKind};
use ha_types::{Entropy as _, SeededEntropy};
use plimsoll_tests::bucket_kit::{self, KEYS};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().context("give a directory")?);
    let entropy = SeededEntropy::new(arguments.next().context("give a seed")?.parse()?);
    let mut next: u64 = arguments.next().context("give the first number")?.parse()?;
    let durability = match arguments.next().as_deref() {
        Some("sync") => Durability::Sync,
        Some("relaxed") => Durability::Relaxed,
        other => bail!("give sync or relaxed, not {other:?}"),
    };
    let store = bucket_kit::open(&path, bucket_kit::config(durability))?;
    let below = |bound: u64| entropy.next_u64() % bound;
    loop {
        match below(10) {
            0..4 => {
                let numbers = new_numbers(&mut next, 1 + below(6), below(KEYS));
                tell("w", &numbers)?;
                match bucket_kit::write(&store, &numbers) {
                    Ok(()) => tell("W", &numbers)?,
                    Err(error) if error.kind() == StoreErrorKind::NoSpace => {}
                    Err(error) => return Err(error.into()),
                }
            }
            4..7 => {
                let served: Vec<_> = (0..1 + below(6)).filter_map(|_| served(&store, below(KEYS))).collect();
                tell("d", &served)?;
                let outcomes = bucket_kit::delete(&store, &served)?;
                let acknowledged = served.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_terminal());
                tell("D", &acknowledged.map(|(number, _)| *number).collect::<Vec<_>>())?;
            }
            7 => {
                store.publish_pending()?;
                tell("s", &[])?;
            }
            _ => {
                for _ in 0..1 + below(8) {
                    if store.gc_step() != GcStep::Again {
                        break;
                    }
                    tell("g", &[])?;
                }
            }
        }
    }
}

/// Numbers that no object had, each of another key.
fn new_numbers(next: &mut u64, count: u64, skip: u64) -> Vec<u64> {
    let first = *next + skip;
    *next = first + count;
    (first..*next).collect()
}

fn served(store: &Store, key: u64) -> Option<u64> {
    store.find(&bucket_kit::key(key)).map(|found| bucket_kit::number_of(found.incarnation))
}

/// One write to the pipe, so that a kill leaves whole lines.
fn tell(what: &str, numbers: &[u64]) -> Result<()> {
    let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
    let line = format!("{what} {}\n", numbers.join(" "));
    Ok(std::io::stdout().lock().write_all(line.as_bytes())?)
}
