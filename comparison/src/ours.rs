//! Owns the bucket store's side of a round.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bucket_store::format::marker::Marker;
use bucket_store::gc::GcStep;
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Config, DeleteRequest, Durability, ReadRequest, Store, StoreErrorKind, WriteObject};
use ha_types::{ObjectIncarnation, SystemClock};

use crate::figures::{Figures, blocks, measured};
use crate::workload::Workload;

pub fn run(folder: &Path, work: Workload, group: usize) -> Result<Figures> {
    let store = open(folder)?;
    for first in (0..work.objects).step_by(500) {
        let objects: Vec<_> = (first..work.objects.min(first + 500)).map(|n| (n, work.key(n), work.value(n))).collect();
        let batch = objects.iter().map(|(n, key, value)| WriteObject {
            key,
            incarnation: incarnation(*n),
            value,
            placement: None,
        });
        store.write(&batch.collect::<Vec<_>>())?;
    }
    store.publish_pending()?;
    let dead = work.dead();
    let keys: Vec<_> = dead.iter().map(|n| (*n, work.key(*n))).collect();
    let ((), delete, deleted) = measured(|| keys.chunks(group).try_for_each(|group| delete(&store, group)))?;
    let ((), reclaim, reclaimed) = measured(|| reclaim(&store))?;
    let left = blocks(folder)?;
    let dead: std::collections::HashSet<u64> = dead.into_iter().collect();
    for n in (0..work.objects).step_by(997) {
        match store.read(&ReadRequest::whole(&work.key(n))) {
            Ok(value) => {
                ensure!(!dead.contains(&n) && value == work.value(n), "ours: object {n} is not what was written")
            }
            Err(error) if error.kind() == StoreErrorKind::NotFound && dead.contains(&n) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Figures { delete, reclaim, written: deleted + reclaimed, left })
}

fn open(folder: &Path) -> Result<Store> {
    // Everything that is more than the floor dead is reclaimed, as fast as the disk allows: what the other side does too.
    let config = Config {
        normal_dead_ratio: Some(0.05),
        gc_copy_share: 1.0,
        durability: Durability::Relaxed,
        max_batch: 1_000_000,
        ..Config::default()
    };
    let marker = Marker { segment: "comparison".parse()?, cluster: "comparison".parse()? };
    let builder = Store::builder(marker, Arc::new(SystemClock::new())).config(config);
    Ok(builder.open(Arc::new(DiskDir::open(folder, Access::Store)?))?)
}

fn incarnation(n: u64) -> ObjectIncarnation {
    ObjectIncarnation::without_log(7, n + 1).expect("a counter from 1")
}

fn delete(store: &Store, group: &[(u64, Vec<u8>)]) -> Result<()> {
    let requests: Vec<_> = group.iter().map(|(n, key)| DeleteRequest { key, incarnation: incarnation(*n) }).collect();
    let outcomes = store.delete(&requests)?;
    ensure!(outcomes.iter().all(|outcome| outcome.is_terminal()), "a delete was not done: {outcomes:?}");
    Ok(())
}

fn reclaim(store: &Store) -> Result<()> {
    loop {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(time) => std::thread::sleep(time),
            GcStep::Idle(_) => return Ok(()),
            other => anyhow::bail!("GC is {other:?}"),
        }
    }
}
