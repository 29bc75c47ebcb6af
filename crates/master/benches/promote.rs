//! From a state that has caught up to the first answered get, remove and put start, with few objects and with many. The get reads
//! an object that nobody has touched since, the put start goes to a segment mounted since; nothing is left for a later pass.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and ends its process")]

mod kit;

use std::collections::BTreeMap;
use std::time::Instant;

use ha_types::TenantId;
use kit::{Args, Log, median, object_key, put, report, segment};
use master::Promise;

const OBJECTS: [usize; 2] = [10_000, 1_000_000];

/// Microseconds of the steps, from `applied == prefix` on.
#[derive(Clone, Copy)]
struct Round {
    /// Claim and verification, the master being served, and all calls answered.
    all_us: f64,
    /// The same without the claim, whose length is the store's.
    handover_us: f64,
}

fn main() {
    let args = Args::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rounds = if args.quick { 5 } else { 9 };
    let mut of_size: Vec<(Log, Vec<Round>)> =
        OBJECTS.iter().map(|objects| (runtime.block_on(Log::of_puts(*objects)), Vec::new())).collect();
    for round in 0..rounds {
        for (log, results) in &mut of_size {
            results.push(runtime.block_on(promote(log, round)));
        }
    }
    for (objects, (_, results)) in OBJECTS.iter().zip(of_size) {
        let middle = |of: fn(&Round) -> f64| median(results.iter().map(of).collect());
        let best = results.iter().map(|r| r.handover_us).fold(f64::INFINITY, f64::min);
        let figures = BTreeMap::from([
            ("objects", *objects as f64),
            ("handover_us", middle(|r| r.handover_us)),
            ("handover_best_us", best),
            ("with_claim_us", middle(|r| r.all_us)),
        ]);
        report(&args, "promote", &figures);
    }
}

async fn promote(log: &Log, round: usize) -> Round {
    let replica = log.follow().await;
    let tenant = TenantId::default_tenant();
    let (read, removed) = (object_key(2 * round), object_key(2 * round + 1));
    let fresh = segment(&format!("fresh-{round}"), (100 + round as u64) << 44);
    let start = Instant::now();
    let caught_up = log.claim(replica).await;
    let claimed = start.elapsed();
    let master = log.serve(caught_up);
    master.get(&tenant, &read, None).expect("an object");
    master.remove(&tenant, &removed, Promise::Durable).await.expect("an object");
    master.mount_segment(fresh).await.expect("a segment");
    let grant = master.put_start(&put(object_key(1 << 40))).expect("space in the segment just mounted");
    let all = start.elapsed();
    assert!(grant.replicas[0].segment.as_str().starts_with("fresh"));
    master.stop().await;
    Round { all_us: all.as_secs_f64() * 1e6, handover_us: (all - claimed).as_secs_f64() * 1e6 }
}
