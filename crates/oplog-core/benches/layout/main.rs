//! Owns the measurement of batch records against the per-entry layout, on the same store and with the same entries: plain puts, our grouped
//! writer of the per-entry layout, and the batch writer.
//!
//! `cargo bench -p oplog-core --bench layout --features legacy,test-kit[,bench-etcd,bench-redis] -- [--quick] [--json] [--only sqlite|etcd|redis]`.
//! A round runs every case once; figures are medians of the rounds, ratios are taken within a round. What `PLIMSOLL_ETCD_ENDPOINT` and
//! `PLIMSOLL_REDIS_ENDPOINT` name is measured beside SQLite.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks, the command line and the environment")]

mod case;
mod entries;
mod report;
#[path = "../kit/rounds.rs"]
#[allow(dead_code, reason = "the codec's benchmark uses more of it")]
mod rounds;
#[path = "../writer/slow.rs"]
mod slow;
mod space;
#[allow(dead_code, reason = "the writer's benchmark uses more of it")]
#[path = "../writer/store.rs"]
mod store;

use std::time::Duration;

use crate::case::Case;
use crate::entries::Entries;
use crate::store::{Opened, Store};

/// How long one run lasts.
const SLICE: Duration = Duration::from_millis(500);

fn flag(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

fn only(backend: &str) -> bool {
    let mut args = std::env::args().skip_while(|arg| arg != "--only").skip(1);
    args.next().is_none_or(|wanted| wanted == backend)
}

fn main() {
    let rounds = if flag("--quick") { 1 } else { 5 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let entries = Entries::new();
    for store in [Store::Sqlite, Store::Etcd, Store::Redis].into_iter().filter(|store| only(store.backend())) {
        match runtime.block_on(store.open()) {
            Ok(opened) => runtime.block_on(measure(&opened, &entries, rounds)),
            Err(why) => eprintln!("SKIPPED {}: {why}", store.backend()),
        }
    }
}

async fn measure(store: &Opened, entries: &Entries, rounds: usize) {
    let (cases, json) = (Case::all(), flag("--json"));
    let spaces = space::measure(store, entries).await;
    let mut rates: Vec<Vec<f64>> = Vec::new();
    for _ in 0..rounds {
        let mut round = Vec::new();
        for case in &cases {
            round.push(case.run(store, entries, SLICE).await);
        }
        rates.push(round);
    }
    report::print(store.store.backend(), &cases, &rates, &spaces, json);
}
