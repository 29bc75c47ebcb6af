//! Owns what must be so before a directory of another writer is marked as ours for good: nothing in it is lost by that, and which object of
//! a key counts is settled on disk. It marks nothing itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use crate::crashsafe;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::MAX_FILE_BYTES;
use crate::format::names::BucketId;
use crate::format::table::{Slot, Table, Tombstone};
use crate::recovery::{Decision, Survey};
use crate::vfs::Vfs;

/// Refuses what an adoption would have to guess about. Pure.
///
/// A data file without a table may be what a crash left, or objects whose table was lost: an open of ours removes it, an adoption must not. And of a
/// key that is in several buckets the highest one counts; were one of them left out because it cannot be read, another object could be
/// served now and a third one after it can be read again.
///
/// # Errors
/// `ADOPTS_ORPHAN`, `ADOPTS_UNREADABLE`, with the first such file.
pub(super) fn check(survey: &Survey, decisions: &[Decision]) -> Result<(), StoreError> {
    let gone = gone(decisions);
    let no_such_file = || "no such file".to_owned();
    let refused = |code, file, field, expected: String, found: String, remedy| {
        Err(Problem::Refused { code, file, field, expected, found, remedy }.into())
    };
    if let Some(id) = survey.data.keys().find(|id| !gone.contains(id) && !survey.tables.contains_key(id)) {
        let expected = format!("to be there beside {}", id.data_name());
        let remedy =
            "restore it, or move the data file out of the directory; an adoption removes nothing that it does not know";
        return refused("ADOPTS_ORPHAN", id.table_name(), "the file", expected, no_such_file(), remedy);
    }
    for (id, table) in survey.tables.iter().filter(|(id, _)| !gone.contains(id)) {
        let (file, field, expected, found) = match (table, survey.data.get(id)) {
            (Ok(_), Some(Ok(_))) => continue,
            (Err(error), _) => {
                let expected = "a table that can be read".to_owned();
                (id.table_name(), "the content", expected, error.without_remedy().to_string())
            }
            (Ok(_), data) => {
                let found = data.and_then(|data| data.as_ref().err()).map(|unmeasured| unmeasured.reason.clone());
                let expected = format!("to be there beside {}, and to be readable", id.table_name());
                (id.data_name(), "the file", expected, found.unwrap_or_else(no_such_file))
            }
        };
        let remedy = "restore it, or move the bucket's files out of the directory; which object of a key counts is settled once, by all buckets";
        return refused("ADOPTS_UNREADABLE", file, field, expected, found, remedy);
    }
    Ok(())
}

/// Makes everything durable that is taken over, which its writer may never have done, and tombstones what the highest bucket has another object
/// for. Then a bucket that cannot be read later changes nothing about which one counts. May be interrupted anywhere and begun again.
///
/// # Errors
/// `ADOPTS_TOO_LARGE`: a table would be larger than any may be; nothing was changed. As the disk says.
pub(super) fn settle(vfs: &dyn Vfs, survey: &mut Survey, decisions: &[Decision]) -> Result<(), StoreError> {
    let gone = gone(decisions);
    let tables =
        || survey.tables.iter().filter(|(id, _)| !gone.contains(id)).filter_map(|(_, table)| table.as_ref().ok());
    let settled: Vec<_> = settled(tables());
    if let Some(table) = settled.iter().find(|table| table.encoded_len() > MAX_FILE_BYTES) {
        return Err(Problem::Refused {
            code: "ADOPTS_TOO_LARGE",
            file: table.bucket.table_name(),
            field: "the file",
            expected: format!("at most {MAX_FILE_BYTES} bytes when it is rewritten"),
            found: format!("{} bytes", table.encoded_len()),
            remedy: "remove objects with the program that wrote them, until it is smaller",
        }
        .into());
    }
    for table in tables() {
        for name in [table.bucket.data_name(), table.bucket.table_name()] {
            let file = vfs.open(&name).map_err(|error| StoreError::io(DiskOp::Open, &*name, error))?;
            file.sync_data().map_err(|error| StoreError::io(DiskOp::Sync, name, error))?;
        }
    }
    if tables().next().is_some() {
        vfs.sync_dir().map_err(|error| StoreError::io(DiskOp::SyncDir, "the directory", error))?;
    }
    for table in settled {
        let name = table.bucket.table_name();
        let bytes = table.encode().map_err(|error| StoreError::unwritable(&*name, error))?;
        crashsafe::publish(vfs, &name, &bytes)?;
        survey.tables.insert(table.bucket, Ok(table));
    }
    Ok(())
}

fn gone(decisions: &[Decision]) -> BTreeSet<BucketId> {
    decisions.iter().flat_map(Decision::gone).copied().collect()
}

/// The tables that change: with a tombstone in each record of incarnation 0 that a later record of incarnation 0 stands for.
fn settled<'a>(tables: impl Iterator<Item = &'a Table> + Clone) -> Vec<Table> {
    let mut last: HashMap<Arc<[u8]>, (u64, BucketId)> = HashMap::new();
    let counts = |slot: &Slot| slot.incarnation == ObjectIncarnation::LEGACY && slot.tombstone.is_none();
    for table in tables.clone() {
        for slot in table.slots.iter().filter(|slot| counts(slot)) {
            let rank = (slot.write_number, table.bucket);
            last.entry(Arc::clone(&slot.key)).and_modify(|last| *last = rank.max(*last)).or_insert(rank);
        }
    }
    let loses =
        |table: &Table, slot: &Slot| counts(slot) && last.get(&slot.key) != Some(&(slot.write_number, table.bucket));
    let with_losers = tables.filter(|table| table.slots.iter().any(|slot| loses(table, slot)));
    let settle = |table: &Table| {
        let mut settled = table.clone();
        settled
            .slots
            .iter_mut()
            .filter(|slot| loses(table, slot))
            .for_each(|slot| slot.tombstone = Some(Tombstone::Replaced));
        settled
    };
    with_losers.map(settle).collect()
}
