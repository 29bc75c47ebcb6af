//! Owns the measurement of compressed batches on realistic metadata: bytes and time of the codec by itself, and the writer on a store.
//!
//! `cargo bench -p oplog-core --bench compression --features zstd,test-kit[,bench-etcd] -- [--quick] [--json]`. Compressed and raw take turns in
//! every round, on the same entries; figures are medians. etcd is measured where `PLIMSOLL_ETCD_ENDPOINT` names one.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks, the command line and the environment")]

mod codec;
#[path = "../writer/cpu.rs"]
mod cpu;
#[path = "../kit/rounds.rs"]
mod rounds;
#[path = "../writer/slow.rs"]
mod slow;
#[allow(dead_code, reason = "the writer's benchmark uses more of it")]
#[path = "../writer/store.rs"]
mod store;
mod writer;

use crate::store::Store;

fn flag(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

fn main() {
    let (quick, json) = (flag("--quick"), flag("--json"));
    codec::run(if quick { 51 } else { 501 }, json);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    for store in [Store::Sqlite, Store::Etcd] {
        match runtime.block_on(store.open()) {
            Ok(opened) => runtime.block_on(writer::run(&opened, if quick { 5 } else { 9 }, json)),
            Err(why) => eprintln!("SKIPPED {}: {why}", store.backend()),
        }
    }
}
