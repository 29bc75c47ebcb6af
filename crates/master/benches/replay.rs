//! Replay of real put entries from memory, through decode, all checks, free space and registry, into the master's state; and
//! the live heap it takes per object.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and ends its process")]

mod kit;

use std::alloc::System;
use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use cap::Cap;
use ha_types::BatchId;
use kit::{Args, Log, median, report};
use master::MasterState;
use oplog_core::{DurablePrefix, Replica};

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// How many objects a state holds when its heap is weighed.
const WEIGHED: [u64; 3] = [900_000, 1_000_000, 1_100_000];
const TIMED: u64 = 1_000_000;

fn main() {
    let args = Args::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (records, prefix) = runtime.block_on(async {
        let log = Log::of_puts(WEIGHED[2] as usize).await;
        (log.records().await, log.prefix().await)
    });
    let (mut rates, mut cpu_rates) = (Vec::new(), Vec::new());
    let mut bytes_per_object = 0.0_f64;
    // Kept to the end: a node replays into a fresh heap, not into the holes of a state that was dropped.
    let mut kept = Vec::new();
    for _ in 0..if args.quick { 3 } else { 7 } {
        let busy = on_cpu_ns();
        let (entries, seconds, replica) = replay(&records, &prefix, TIMED);
        rates.push(entries as f64 / seconds);
        if let (Some(before), Some(after)) = (busy, on_cpu_ns()) {
            cpu_rates.push(entries as f64 * 1e9 / (after - before) as f64);
        }
        kept.push(replica);
    }
    for objects in WEIGHED {
        let before = HEAP.allocated();
        let (_, _, replica) = replay(&records, &prefix, objects);
        let weight = HEAP.allocated() - before;
        let held = replica.machine().objects();
        bytes_per_object = bytes_per_object.max(weight as f64 / held as f64);
        kept.push(replica);
    }
    let best = rates.iter().copied().fold(0.0, f64::max);
    let mut figures = BTreeMap::from([
        ("entries_per_s_best", best),
        ("entries_per_s", median(rates)),
        ("bytes_per_object", bytes_per_object),
        ("entries_per_batch", prefix.last_seq.get() as f64 / prefix.batch_id.get() as f64),
    ]);
    if !cpu_rates.is_empty() {
        figures.insert("entries_per_cpu_s", median(cpu_rates));
    }
    report(&args, "replay", &figures);
    // Freeing millions of objects takes longer than making them, and measures nothing.
    std::process::exit(0);
}

/// Nanoseconds this thread has run, where the system says: on a busy machine the rate by the clock says little.
fn on_cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Replays batches until the state holds `objects`, on this thread.
fn replay(records: &[(BatchId, Bytes)], prefix: &DurablePrefix, objects: u64) -> (u64, f64, Replica<MasterState>) {
    let mut replica = Replica::empty(MasterState::new());
    let mut entries = 0;
    let start = Instant::now();
    for (id, record) in records {
        entries += replica.apply_record(*id, record, prefix).expect("a log of a real master").entries;
        if entries >= objects {
            break;
        }
    }
    (entries, start.elapsed().as_secs_f64(), replica)
}
