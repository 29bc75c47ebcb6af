//! Owns the measurement of the ordered writer against a bare loop that sends prebuilt full records, one in flight, through the
//! same transaction on the same connection.
//!
//! `cargo bench -p oplog-core --bench writer -- [--quick] [--json] [--only memory|sqlite|etcd|redis|waiting]`. A round runs the bare loop and
//! every case once; figures are medians of the rounds, ratios are taken within a round. `--quick` runs fewer rounds of the same. etcd is measured where
//! `PLIMSOLL_ETCD_ENDPOINT` names one and the feature `bench-etcd` is on, Redis likewise with `PLIMSOLL_REDIS_ENDPOINT` and `bench-redis`.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks, the command line and the environment")]

mod bare;
mod case;
mod cpu;
mod entries;
mod report;
mod slow;
mod store;
mod waiting;
mod waiting_report;

use crate::bare::Bare;
use crate::case::Case;
use crate::report::{Report, Row};
use crate::store::Store;

fn flag(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

fn only(backend: &str) -> bool {
    let mut args = std::env::args().skip_while(|arg| arg != "--only").skip(1);
    args.next().is_none_or(|wanted| wanted == backend)
}

fn main() {
    let rounds = if flag("--quick") { 3 } else { 9 };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut report = Report::new(flag("--json"));
    for store in Store::all() {
        if !only(store.backend()) {
            continue;
        }
        match runtime.block_on(store.open()) {
            Ok(opened) => runtime.block_on(measure(&opened, rounds, &mut report)),
            Err(why) => eprintln!("SKIPPED {}: {why}", store.backend()),
        }
    }
    if only("waiting") {
        runtime.block_on(waiting::measure(flag("--quick"), flag("--json")));
    }
}

/// All cases on one store, interleaved.
async fn measure(store: &store::Opened, rounds: usize, report: &mut Report) {
    let (cases, slice) = (Case::on(store), store.store.slice());
    let mut bares = Vec::new();
    let mut rows: Vec<Vec<Row>> = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        let bare = Bare::run(store, 1024, slice).await;
        bares.push(bare);
        for (case, rows) in cases.iter().zip(&mut rows) {
            let against = match case.max_entries {
                1024 => bare,
                entries => Bare::run(store, entries, slice).await,
            };
            rows.push(case.run(store, slice, against).await);
        }
    }
    report.bare(store, &bares);
    for (case, rows) in cases.iter().zip(&rows) {
        report.case(store, case, rows);
    }
}
