//! Owns the look at a directory: every name and every small file, whatever is wrong with them. It judges nothing.

use std::collections::BTreeMap;

use ha_types::SegmentId;

use super::contents::{Contents, contents};
use crate::error::{DiskOp, StoreError};
use crate::format::FormatError;
use crate::format::graves::Graves;
use crate::format::high_water::HighWater;
use crate::format::intent::{Intents, Round};
use crate::format::marker::Marker;
use crate::format::names::{BucketId, GC_INTENT, GRAVES, ID_HIGH_WATER, MARKER, NameKind, RESERVE};
use crate::format::table::{RecordLayout, Table};
use crate::recovery::{DataFile, Survey, Unmeasured, assumed_bytes, measure, read_small, unreadable};
use crate::store::{STILL_AWAY, still_away};
use crate::vfs::{DirEntry, EntryKind, Space, Vfs};

/// What is in a directory.
#[derive(Debug, Default)]
pub struct Look {
    /// Whose directory it says it is.
    pub marker: MarkerLook,
    /// The high-water mark.
    pub high_water: Content<HighWater>,
    /// The rounds that were under way.
    pub intents: Content<Intents>,
    /// What must not come back with a bucket that could not be read.
    pub graves: Content<Graves>,
    /// Bytes of the blocks set aside for deletes on a full disk.
    pub reserve_bytes: Option<u64>,
    /// Every bucket that has a file of the two.
    pub buckets: BTreeMap<BucketId, BucketLook>,
    /// Files that were to replace others and never did.
    pub temporaries: Vec<String>,
    /// Names that nobody of us gives, and names of ours that are no regular files.
    pub strange: Vec<DirEntry>,
    /// The room of the file system, where it says.
    pub space: Option<Space>,
}

/// The content of a file: `None` if there is no such file.
pub type Content<T> = Option<Result<T, Unreadable>>;

/// Why a file says nothing.
#[derive(Clone, Debug)]
pub enum Unreadable {
    /// Its bytes are wrong.
    Bytes(FormatError),
    /// The disk does not give them.
    Disk(StoreError),
}

/// What the marker says.
#[derive(Debug, Default)]
pub enum MarkerLook {
    /// There is none.
    #[default]
    Absent,
    /// One of ours.
    Ours(Marker),
    /// One of Mooncake's, which has the segment id and nothing else.
    Mooncakes(SegmentId),
    /// Neither.
    Unreadable(Unreadable),
}

/// The files of one bucket.
#[derive(Debug, Default)]
pub struct BucketLook {
    /// `<id>.bucket`.
    pub data: Content<DataFile>,
    /// `<id>.meta`.
    pub table: Content<Table>,
    /// The layout of a table that is whole, and only the data file too short for it.
    pub(super) short: Option<RecordLayout>,
    /// Bytes that a data file counts with which the disk does not let anybody measure.
    assumed_bytes: u64,
    role: Role,
}

/// What a round that was under way makes of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Plain,
    Uncommitted,
    Retired,
    /// It was away when others changed, and some cannot be read.
    StillAway,
}

/// What a store that opens the directory makes of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its objects are served.
    Served,
    /// A committed round has replaced or removed it: its files go.
    Retired,
    /// The target of a round that was not committed: its files go.
    Uncommitted,
    /// A data file without a table: it goes.
    Orphan,
    /// Neither served nor touched, and why.
    Quarantined(String),
}

/// Looks at every name and reads every small file of a directory.
///
/// # Errors
/// If the names cannot be listed. Whatever else cannot be read says so in its place.
pub fn look(vfs: &dyn Vfs) -> Result<Look, StoreError> {
    let mut seen = Look { space: vfs.space().ok(), ..Look::default() };
    let mut entries = vfs.list().map_err(|error| StoreError::io(DiskOp::List, "the directory", error))?;
    entries.sort();
    for entry in entries {
        match NameKind::of(&entry.name) {
            _ if entry.kind != EntryKind::File => seen.strange.push(entry),
            NameKind::Strange => seen.strange.push(entry),
            NameKind::Temporary => seen.temporaries.push(entry.name),
            NameKind::Data(id) => {
                let data = measure(vfs, &entry.name).map_err(Unreadable::Disk);
                seen.buckets.entry(id).or_default().data = Some(data);
            }
            NameKind::Table(id) => {
                let table = read(vfs, &entry.name, |bytes| Table::decode(bytes, id, u64::MAX));
                seen.buckets.entry(id).or_default().table = Some(table);
            }
            NameKind::Marker => seen.marker = read_marker(vfs),
            NameKind::GcIntent => seen.intents = Some(read(vfs, GC_INTENT, Intents::decode)),
            NameKind::IdHighWater => seen.high_water = Some(read(vfs, ID_HIGH_WATER, HighWater::decode)),
            NameKind::Graves => seen.graves = Some(read(vfs, GRAVES, Graves::decode)),
            NameKind::Reserve => seen.reserve_bytes = measure(vfs, RESERVE).ok().map(|file| file.allocated_bytes),
        }
    }
    for bucket in seen.buckets.values_mut() {
        let (Some(data), Some(Ok(table))) = (&bucket.data, &bucket.table) else { continue };
        match data {
            Ok(data) => {
                if let Err(short) = table.fits(data.len) {
                    bucket.short = Some(table.layout);
                    bucket.table = Some(Err(Unreadable::Bytes(short)));
                }
            }
            Err(_) => bucket.assumed_bytes = assumed_bytes(table, seen.space),
        }
    }
    if let Some(Ok(intents)) = &seen.intents {
        for round in &intents.rounds {
            let (gone, role) = match round {
                Round::Prepared { target, .. } => (std::slice::from_ref(target), Role::Uncommitted),
                Round::Committed { sources, .. } => (&sources[..], Role::Retired),
            };
            for id in gone {
                if let Some(bucket) = seen.buckets.get_mut(id) {
                    bucket.role = role;
                }
            }
        }
    }
    seen.keep_away();
    Ok(seen)
}

fn read<T>(vfs: &dyn Vfs, name: &str, decode: impl FnOnce(&[u8]) -> Result<T, FormatError>) -> Result<T, Unreadable> {
    let bytes = read_small(vfs, name).map_err(Unreadable::Disk)?;
    bytes.and_then(|bytes| decode(&bytes)).map_err(Unreadable::Bytes)
}

fn read_marker(vfs: &dyn Vfs) -> MarkerLook {
    let mut mooncakes = None;
    let decoded = read(vfs, MARKER, |bytes| {
        let line = std::str::from_utf8(bytes.trim_ascii()).ok();
        mooncakes = line.filter(|line| !line.starts_with(Marker::HEAD)).and_then(|line| SegmentId::new(line).ok());
        Marker::decode(bytes)
    });
    match (decoded, mooncakes) {
        (Ok(marker), _) => MarkerLook::Ours(marker),
        (Err(_), Some(segment)) => MarkerLook::Mooncakes(segment),
        (Err(error), None) => MarkerLook::Unreadable(error),
    }
}

impl BucketLook {
    /// What a store that opens the directory makes of it.
    #[must_use]
    pub fn standing(&self, id: BucketId) -> Standing {
        match self.role {
            Role::Retired => return Standing::Retired,
            Role::Uncommitted => return Standing::Uncommitted,
            Role::StillAway => return Standing::Quarantined(STILL_AWAY.into()),
            Role::Plain => {}
        }
        match (&self.data, &self.table) {
            (Some(Ok(_)), Some(Ok(_))) => Standing::Served,
            (_, None) => Standing::Orphan,
            (_, Some(Err(error))) => Standing::Quarantined(format!("{}: {}", id.table_name(), error.of_table())),
            (None, Some(Ok(_))) => Standing::Quarantined(format!("there is no {}", id.data_name())),
            (Some(Err(error)), Some(Ok(_))) => Standing::Quarantined(error.to_string()),
        }
    }

    /// Bytes of the blocks of the data file; of one that cannot be measured, what a store takes it for.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        match &self.data {
            None => 0,
            Some(Ok(data)) => data.allocated_bytes,
            Some(Err(_)) => self.assumed_bytes,
        }
    }
}

impl Look {
    /// Whether it holds nothing of a store, as a directory does that was never used.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.buckets.is_empty()
            && self.intents.is_none()
            && self.high_water.is_none()
            && self.graves.is_none()
            && matches!(self.marker, MarkerLook::Absent)
    }

    /// Marks buckets that can be read and would not be served, because others cannot.
    fn keep_away(&mut self) {
        let Some(Ok(graves)) = &self.graves else { return };
        let standings = self.buckets.iter().map(|(id, bucket)| (*id, bucket.standing(*id)));
        let unreadable = standings.filter(|(_, standing)| matches!(standing, Standing::Quarantined(_)));
        for id in still_away(graves, &unreadable.map(|(id, _)| id).collect()) {
            if let Some(bucket) = self.buckets.get_mut(&id).filter(|bucket| bucket.standing(id) == Standing::Served) {
                bucket.role = Role::StillAway;
            }
        }
    }

    /// Its records, and what each of them is.
    #[must_use]
    pub fn contents(&self) -> Contents {
        contents(self)
    }

    /// What recovery is told; `None` if it would not even begin, because one of the files that it rests on cannot be read. What a broken disk
    /// does not give of a bucket is told as damage.
    pub(super) fn survey(&self) -> Option<Survey> {
        let mut survey = Survey { has_intents: self.intents.is_some(), ..Survey::default() };
        survey.intents = self.intents.as_ref().map_or(Some(Intents::default()), |read| read.as_ref().ok().cloned())?;
        if let Some(high_water) = &self.high_water {
            survey.high_water = Some(*high_water.as_ref().ok()?);
        }
        if let Some(graves) = &self.graves {
            survey.graves = Some(graves.as_ref().ok()?.clone());
        }
        for (id, bucket) in &self.buckets {
            match &bucket.table {
                None => {}
                Some(Ok(table)) => drop(survey.tables.insert(*id, Ok(table.clone()))),
                Some(Err(Unreadable::Bytes(error))) if error.is_unknown_version() => return None,
                Some(Err(Unreadable::Bytes(error))) => drop(survey.tables.insert(*id, Err(error.clone()))),
                Some(Err(Unreadable::Disk(error))) if error.is_broken_disk() => {
                    survey.tables.insert(*id, Err(unreadable(error)));
                }
                Some(Err(Unreadable::Disk(_))) => return None,
            }
            match &bucket.data {
                None => {}
                Some(Ok(data)) => {
                    survey.data.insert(*id, Ok(*data));
                }
                Some(Err(Unreadable::Disk(error))) if error.is_broken_disk() => {
                    let (reason, counted_bytes) = (error.to_string(), bucket.assumed_bytes);
                    survey.data.insert(*id, Err(Unmeasured { reason, counted_bytes }));
                }
                Some(Err(_)) => return None,
            }
        }
        Some(survey)
    }
}

impl Unreadable {
    /// Why a table says nothing, in the words of the store's own look at it.
    fn of_table(&self) -> FormatError {
        match self {
            Self::Bytes(error) => error.clone(),
            Self::Disk(error) => unreadable(error),
        }
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
        }
    }
}
