//! Owns the first look at a directory: every name and every small file, read once and checked before anything is changed.

use std::collections::BTreeMap;
use std::io;

use crate::error::{DiskOp, Problem, StoreError};
use crate::format::graves::Graves;
use crate::format::high_water::HighWater;
use crate::format::intent::Intents;
use crate::format::names::{BucketId, GC_INTENT, GRAVES, ID_HIGH_WATER, LOST_AND_FOUND, NameKind};
use crate::format::table::Table;
use crate::format::{FormatError, MAX_FILE_BYTES};
use crate::vfs::{EntryKind, Space, Vfs};

/// What is in a directory. Everything in it decodes, but tables that are damaged.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The rounds that were under way; none where there is no intent file.
    pub intents: Intents,
    /// Whether there is an intent file.
    pub has_intents: bool,
    /// The high-water mark; `None` where there is no such file.
    pub high_water: Option<HighWater>,
    /// What must not come back with a bucket that could not be read; `None` where there is no such file.
    pub graves: Option<Graves>,
    /// Every `<id>.meta`, decoded, or why it does not decode.
    pub tables: BTreeMap<BucketId, Result<Table, FormatError>>,
    /// Every `<id>.bucket`, measured, or why it is not.
    pub data: BTreeMap<BucketId, Result<DataFile, Unmeasured>>,
    /// Files that were to replace others and never did.
    pub temporaries: Vec<String>,
    /// Names that nobody of us gives, and names of ours that are no regular files; not a folder that is `lost+found`.
    pub strange: Vec<String>,
}

/// A data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Its length.
    pub len: u64,
    /// Bytes of the blocks it occupies.
    pub allocated_bytes: u64,
}

/// A data file that is there, and that a broken disk lets nobody open or measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmeasured {
    /// What the disk said.
    pub reason: String,
    /// Bytes that its blocks are taken for: what its table says, but no more than is in use on the file system.
    pub counted_bytes: u64,
}

/// Bytes that a data file counts with.
pub(crate) fn counted_bytes(data: &Result<DataFile, Unmeasured>) -> u64 {
    match data {
        Ok(file) => file.allocated_bytes,
        Err(unmeasured) => unmeasured.counted_bytes,
    }
}

/// What a data file that cannot be measured is taken to occupy: what its table says, since its blocks are not free, but never more than the
/// file system says is in use. Nothing where either is not known.
pub(crate) fn assumed_bytes(table: &Table, space: Option<Space>) -> u64 {
    let in_use = space.map_or(0, |space| space.total_bytes.saturating_sub(space.free_bytes));
    table.data_len.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX).min(in_use)
}

const BLOCK_BYTES: u64 = 4096;

/// Looks at a directory and changes nothing.
///
/// # Errors
/// `UNKNOWN_VERSION` for any file of a version that this program does not know; `Refused` for an intent file, a high-water mark or graves that
/// are damaged; as the disk says. A table that is damaged, and a table or a data file that a broken disk does not give, are no error here: the
/// bucket is not served, and everything else goes on.
pub fn survey(vfs: &dyn Vfs) -> Result<Survey, StoreError> {
    let mut found = Survey::default();
    let mut tables = Vec::new();
    for entry in vfs.list().map_err(|error| StoreError::io(DiskOp::List, "the directory", error))? {
        if entry.kind != EntryKind::File {
            if entry.kind != EntryKind::Directory || entry.name != LOST_AND_FOUND {
                found.strange.push(entry.name);
            }
            continue;
        }
        match NameKind::of(&entry.name) {
            NameKind::Data(id) => {
                found.data.insert(id, measured(vfs, &entry.name)?);
            }
            NameKind::Table(id) => tables.push(id),
            NameKind::GcIntent => {
                let intents = read_small(vfs, GC_INTENT)?.and_then(|bytes| Intents::decode(&bytes));
                found.intents = intact(GC_INTENT, "INTENT_DAMAGED", intents)?;
                found.has_intents = true;
            }
            NameKind::IdHighWater => {
                let high_water = read_small(vfs, ID_HIGH_WATER)?.and_then(|bytes| HighWater::decode(&bytes));
                found.high_water = Some(intact(ID_HIGH_WATER, "HIGH_WATER_DAMAGED", high_water)?);
            }
            NameKind::Graves => {
                let graves = read_small(vfs, GRAVES)?.and_then(|bytes| Graves::decode(&bytes));
                found.graves = Some(intact(GRAVES, "GRAVES_DAMAGED", graves)?);
            }
            NameKind::Temporary => found.temporaries.push(entry.name),
            NameKind::Marker | NameKind::Reserve => {}
            NameKind::Strange => found.strange.push(entry.name),
        }
    }
    for id in tables {
        // A table without a data file, or with one that cannot be measured, is told by that, not by what it says.
        let data_len = found.data.get(&id).and_then(|data| data.as_ref().ok()).map_or(u64::MAX, |file| file.len);
        let name = id.table_name();
        let table = match read_small(vfs, &name) {
            Ok(bytes) => bytes.and_then(|bytes| Table::decode(&bytes, id, data_len)),
            // One table that cannot be read is no reason not to serve the others.
            Err(error) if error.is_broken_disk() => Err(unreadable(&error)),
            Err(error) => return Err(error),
        };
        found.tables.insert(id, known(&name, table)?);
    }
    assume(vfs, &mut found);
    Ok(found)
}

fn assume(vfs: &dyn Vfs, found: &mut Survey) {
    for (id, data) in &mut found.data {
        if let (Err(unmeasured), Some(Ok(table))) = (data, found.tables.get(id)) {
            unmeasured.counted_bytes = assumed_bytes(table, vfs.space().ok());
        }
    }
}

/// Length and blocks of a data file, or that the disk does not tell them.
pub(crate) fn measured(vfs: &dyn Vfs, name: &str) -> Result<Result<DataFile, Unmeasured>, StoreError> {
    match measure(vfs, name) {
        // One file that cannot be opened is no reason not to serve the others.
        Err(error) if error.is_broken_disk() => Ok(Err(Unmeasured { reason: error.to_string(), counted_bytes: 0 })),
        other => other.map(Ok),
    }
}

/// Length and blocks of a data file.
pub(crate) fn measure(vfs: &dyn Vfs, name: &str) -> Result<DataFile, StoreError> {
    let failed = |op| move |error| StoreError::io(op, name, error);
    let file = vfs.open(name).map_err(failed(DiskOp::Open))?;
    let len = file.len().map_err(failed(DiskOp::Stat))?;
    let allocated_bytes = file.allocated_bytes().map_err(failed(DiskOp::Stat))?;
    Ok(DataFile { len, allocated_bytes })
}

/// The whole of a small file. One that is too long is told by its length alone, before a byte of it is read.
pub(crate) fn read_small(vfs: &dyn Vfs, name: &str) -> Result<Result<Vec<u8>, FormatError>, StoreError> {
    let failed = |op| move |error| StoreError::io(op, name, error);
    let file = vfs.open(name).map_err(failed(DiskOp::Open))?;
    let len = file.len().map_err(failed(DiskOp::Stat))?;
    if len > MAX_FILE_BYTES {
        let (what, field, expected) = ("file", "the file", MAX_FILE_BYTES);
        return Ok(Err(FormatError::Length { what, field, offset: 0, expected, found: len }));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::io(DiskOp::Read, name, error)),
        }
    }
    bytes.truncate(filled);
    Ok(Ok(bytes))
}

/// A table that the disk does not give, in the words of one that is damaged: what becomes of its bucket is the same.
pub(crate) fn unreadable(error: &StoreError) -> FormatError {
    FormatError::in_field("bucket table", "the file", 0, "bytes that can be read", error.what())
}

/// Damage is handed on; an unknown version is not: a newer program has written to this directory.
fn known<T>(name: &str, decoded: Result<T, FormatError>) -> Result<Result<T, FormatError>, StoreError> {
    match decoded {
        Err(FormatError::UnknownVersion { known, found, .. }) => {
            Err(Problem::UnknownVersion { file: name.into(), found, known }.into())
        }
        other => Ok(other),
    }
}

fn intact<T>(name: &str, code: &'static str, decoded: Result<T, FormatError>) -> Result<T, StoreError> {
    known(name, decoded)?.map_err(|error| {
        Problem::Refused {
            code,
            file: name.into(),
            field: "the content",
            expected: "what was written".into(),
            found: error.without_remedy().to_string(),
            remedy: "restore the file; without it nobody can tell which buckets are authoritative",
        }
        .into()
    })
}
