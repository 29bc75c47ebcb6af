//! Owns the opening of a directory: everything is looked at and checked before the first change, then recovery, then the sweep, then
//! the index. It reads no record, and it decides nothing about intents: `recovery` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use super::Store;
use super::anew::put_in_place_anew;
use super::bucket::{Bucket, BucketFile, PhysicalBytes};
use super::builder::{Adoption, StoreBuilder};
use super::numbers::Numbers;
use super::state::{Location, State};
use super::write::Room;
use crate::crashsafe;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::FormatError;
use crate::format::high_water::HighWater;
use crate::format::marker::Marker;
use crate::format::names::{LOST_AND_FOUND, MARKER, NameKind};
use crate::format::table::{Slot, Table};
use crate::gc::Gc;
use crate::health::Health;
use crate::observer::Event;
use crate::recovery::{self, Survey, read_small};
use crate::reserve::Reserve;
use crate::sync::RwLock;
use crate::vfs::{Vfs, Vouched};

/// What the reserve keeps for the intent file: some fifty rounds whose files are not all gone.
pub(super) const INTENT_BYTES: u64 = 4096;

/// A bucket that is neither served nor touched.
#[derive(Clone, Debug)]
pub(super) struct Quarantined {
    pub(super) reason: String,
    /// `None` if it does not decode.
    table: Option<Table>,
}

impl Quarantined {
    /// Whether an object that is not deleted may be in it. What cannot be read may hold any.
    pub(super) fn may_hold(&self, key: &[u8], incarnation: ObjectIncarnation) -> bool {
        let is = |slot: &Slot| *slot.key == *key && slot.incarnation == incarnation && !slot.tombstoned;
        self.table.as_ref().is_none_or(|table| table.slots.iter().any(is))
    }
}

pub(super) fn open(builder: StoreBuilder, vfs: Arc<dyn Vfs>) -> Result<Store, StoreError> {
    let StoreBuilder { identity, config, adoption, clock, observer, evictor } = builder;
    config.validate()?;
    let vfs: Arc<dyn Vfs> = Vouched::new(vfs);
    let marked = check_marker(&*vfs, &identity, adoption)?;
    let mut survey = recovery::survey(&*vfs)?;
    check_names(&survey)?;
    if !marked {
        check_unmarked(&survey, adoption)?;
    }
    let next = above_all(&survey);
    // Asked before the first change, since it is the last thing that can refuse.
    recovery::decide(&survey)?;
    if !marked {
        crashsafe::publish(&*vfs, MARKER, &identity.encode())?;
    }
    let durable = survey.high_water.unwrap_or(HighWater { next_bucket: 1, next_write_number: 1 });
    recovery::recover(&*vfs, &mut survey)?;
    for id in put_in_place_anew(&*vfs)? {
        survey.data.insert(id, recovery::measure(&*vfs, &id.data_name())?);
    }
    let ours = |name: &str| NameKind::of(name) != NameKind::Strange;
    crashsafe::sweep(&*vfs, ours).map_err(|error| StoreError::io(DiskOp::Unlink, "temporary files", error))?;
    let store = Store {
        health: Health::new(config.read_only_after_failures),
        reserve: Reserve::open(&*vfs)?,
        gc: Gc::new(&config, evictor),
        numbers: Numbers::new(next, durable),
        room: Room::default(),
        state: RwLock::new(State::default()),
        physical: PhysicalBytes::default(),
        quarantined: BTreeMap::new(),
        vfs,
        config,
        clock,
        observer,
        identity,
    };
    store.sweep_orphans(&mut survey)?.load(survey)
}

/// Whether the directory says that it is this storage's. One that says nothing is judged by what else is in it.
fn check_marker(vfs: &dyn Vfs, identity: &Marker, adoption: Adoption) -> Result<bool, StoreError> {
    let bytes = match read_small(vfs, MARKER) {
        Err(error) if error.is_missing_file() => return Ok(false),
        other => other?,
    };
    // Mooncake writes the bare segment id into a file of the same name.
    let is_mooncakes = |bytes: &[u8]| bytes.trim_ascii() == identity.segment.as_str().as_bytes();
    if adoption == Adoption::OneWay && bytes.as_ref().is_ok_and(|bytes| is_mooncakes(bytes)) {
        return Ok(false);
    }
    let refused = |code, field, expected: &str, found: String, remedy| {
        let (file, expected) = (MARKER.into(), expected.into());
        Err(Problem::Refused { code, file, field, expected, found, remedy }.into())
    };
    let marker = match bytes.and_then(|bytes| Marker::decode(&bytes)) {
        Ok(marker) => marker,
        Err(FormatError::UnknownVersion { known, found, .. }) => {
            return Err(Problem::UnknownVersion { file: MARKER.into(), found, known }.into());
        }
        Err(error) => {
            let remedy = "restore it; a directory of Mooncake's that names this segment can be adopted";
            return refused("MARKER_DAMAGED", "the content", "a marker", error.to_string(), remedy);
        }
    };
    let remedy = "name the directory of this storage, or the storage of this directory";
    if marker.segment != identity.segment {
        return refused("OTHER_SEGMENT", "segment", identity.segment.as_str(), marker.segment.to_string(), remedy);
    }
    if marker.cluster != identity.cluster {
        return refused("OTHER_CLUSTER", "cluster", identity.cluster.as_str(), marker.cluster.to_string(), remedy);
    }
    Ok(true)
}

/// Names that nobody of us gives may be somebody's data, or ours under a wrong name.
fn check_names(survey: &Survey) -> Result<(), StoreError> {
    let Some(strange) = survey.strange.iter().find(|name| *name != LOST_AND_FOUND) else { return Ok(()) };
    Err(Problem::Refused {
        code: "STRANGE_FILE",
        file: strange.clone(),
        field: "the name",
        expected: "a regular file that this program or Mooncake writes".into(),
        found: "something else".into(),
        remedy: "move it out of the directory",
    }
    .into())
}

/// A directory without a marker must be empty, or adopted. What an interrupted first open leaves is nothing.
fn check_unmarked(survey: &Survey, adoption: Adoption) -> Result<(), StoreError> {
    let is_empty =
        survey.data.is_empty() && survey.tables.is_empty() && !survey.has_intents && survey.high_water.is_none();
    if is_empty || adoption == Adoption::OneWay {
        return Ok(());
    }
    Err(Problem::Refused {
        code: "MARKER_MISSING",
        file: MARKER.into(),
        field: "the file",
        expected: "to be there, since the directory holds buckets".into(),
        found: "no such file".into(),
        remedy: "restore it, or adopt the directory for good",
    }
    .into())
}

/// The first numbers above everything that the directory names, whatever became of it.
fn above_all(survey: &Survey) -> HighWater {
    let high_water = survey.high_water.unwrap_or(HighWater { next_bucket: 1, next_write_number: 1 });
    let rounds = survey.intents.rounds.iter();
    let named = rounds.flat_map(|round| round.sources().iter().copied().chain(round.target()));
    let ids = survey.tables.keys().chain(survey.data.keys()).copied().chain(named);
    let last_bucket = ids.max().map_or(0, |id| id.0);
    let slots = survey.tables.values().filter_map(|table| table.as_ref().ok()).flat_map(|table| &table.slots);
    let last_write = slots.map(|slot| slot.write_number).max().unwrap_or(0);
    HighWater {
        next_bucket: high_water.next_bucket.max(last_bucket + 1),
        next_write_number: high_water.next_write_number.max(last_write.saturating_add(1)),
    }
}

impl Store {
    /// Removes data files that no table names: a crash came between the two. Not durably: one that comes back is removed again.
    fn sweep_orphans(self, survey: &mut Survey) -> Result<Self, StoreError> {
        let orphans: Vec<_> = survey.data.keys().filter(|id| !survey.tables.contains_key(id)).copied().collect();
        let mut bytes = 0;
        for id in &orphans {
            let name = id.data_name();
            self.vfs.unlink(&name).map_err(|error| StoreError::io(DiskOp::Unlink, name, error))?;
            bytes += survey.data.remove(id).map_or(0, |file| file.allocated_bytes);
        }
        if !orphans.is_empty() {
            self.observer.event(&Event::OrphansRemoved { files: orphans.len(), bytes });
        }
        Ok(self)
    }

    /// Takes up every bucket with a table and a data file that belong together; the others are left alone.
    fn load(mut self, survey: Survey) -> Result<Self, StoreError> {
        let Survey { tables, data, .. } = survey;
        let mut state = State::default();
        let (mut twice, mut largest_table) = (Vec::new(), 0);
        for (id, table) in tables {
            let allocated_bytes = data.get(&id).map_or(0, |file| file.allocated_bytes);
            let (reason, table) = match table {
                Ok(table) if data.contains_key(&id) => match self.take_up(&mut state, &table, allocated_bytes) {
                    Ok(found) => {
                        largest_table = largest_table.max(table.encoded_len());
                        twice.extend(found);
                        continue;
                    }
                    Err(error) if error.is_broken_disk() => (error.to_string(), Some(table)),
                    Err(error) => return Err(error),
                },
                Ok(table) => (format!("there is no {}", id.data_name()), Some(table)),
                Err(error) => (format!("{}: {error}", id.table_name()), None),
            };
            self.physical.add(allocated_bytes);
            self.observer.event(&Event::BucketQuarantined { bucket: id, reason: reason.clone() });
            self.quarantined.insert(id, Quarantined { reason, table });
        }
        for (other, kept) in twice {
            let Some(record) = state.record(kept) else { continue };
            let (key, incarnation) = (Arc::clone(&record.slot.key), record.slot.incarnation);
            self.observer.event(&Event::ObjectTwice { key, incarnation, kept: kept.bucket, other: other.bucket });
        }
        debug_assert_eq!(state.audit(), Ok(()));
        let (buckets, objects) = (state.buckets().len(), state.live_objects());
        *self.state.get_mut() = state;
        self.cover_reserve(largest_table);
        self.observer.event(&Event::Opened { buckets, objects });
        Ok(self)
    }

    fn take_up(
        &self,
        state: &mut State,
        table: &Table,
        allocated_bytes: u64,
    ) -> Result<Vec<(Location, Location)>, StoreError> {
        let (id, layout, age, data_len) = (table.bucket, table.layout, table.age, table.data_len);
        let name = id.data_name();
        let file = self.vfs.open(&name).map_err(|error| StoreError::io(DiskOp::Open, name, error))?;
        let file = BucketFile::new(file, allocated_bytes, &self.physical);
        Ok(state.insert(Bucket::new((id, layout, age, data_len), file, true), table.slots.clone(), true))
    }

    /// So that deletes are possible on a disk that is full from the first moment. That there is no room for it is no reason not to
    /// serve: writes will say so.
    fn cover_reserve(&self, largest_table: u64) {
        if let Err(error) = self.reserve.cover(&*self.vfs, largest_table, INTENT_BYTES, &*self.observer) {
            self.reserve.owe(largest_table, INTENT_BYTES);
            self.observer.event(&Event::DiskFailed { error });
        }
    }
}
