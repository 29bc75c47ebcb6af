//! Owns RocksDB's side of a round.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::figures::{Figures, blocks, measured};
use crate::rocks::Rocks;
use crate::workload::Workload;

pub fn run(folder: &Path, work: Workload, group: usize) -> Result<Figures> {
    let db = Rocks::open(folder)?;
    for first in (0..work.objects).step_by(500) {
        let objects: Vec<_> = (first..work.objects.min(first + 500)).map(|n| (work.key(n), work.value(n))).collect();
        db.put(&objects)?;
    }
    db.flush()?;
    let dead = work.dead();
    let groups: Vec<Vec<Vec<u8>>> =
        dead.chunks(group).map(|group| group.iter().map(|n| work.key(*n)).collect()).collect();
    let ((), delete, deleted) = measured(|| groups.iter().try_for_each(|group| db.delete(group)))?;
    let ((), reclaim, reclaimed) = measured(|| {
        db.reclaim();
        Ok(())
    })?;
    let left = blocks(folder)?;
    let dead: std::collections::HashSet<u64> = dead.into_iter().collect();
    for n in (0..work.objects).step_by(997) {
        let expected = (!dead.contains(&n)).then(|| work.value(n));
        ensure!(db.get(&work.key(n))? == expected, "RocksDB: object {n} is not what was written");
    }
    Ok(Figures { delete, reclaim, written: deleted + reclaimed, left })
}
