//! Owns the opening of a directory: everything is looked at and checked before the first change, then recovery, then the sweep, then
//! the index. It reads no record, and it decides nothing about intents: `recovery` does.

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::ObjectIncarnation;

use super::Store;
use super::adopt;
use super::anew::{Anew, note_all, put_in_place_anew};
use super::bucket::{Bucket, BucketFile, PhysicalBytes};
use super::builder::{Adoption, StoreBuilder};
use super::graves::{GravesFile, STILL_AWAY, still_away};
use super::numbers::{NEVER_USED, Numbers};
use super::open_files::check_open_files;
use super::state::State;
use super::write::Room;
use crate::crashsafe;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::FormatError;
use crate::format::high_water::HighWater;
use crate::format::marker::Marker;
use crate::format::names::{BucketId, MARKER, NameKind};
use crate::format::table::{Slot, Table};
use crate::gc::Gc;
use crate::health::Health;
use crate::observer::Event;
use crate::recovery::{self, Survey, counted_bytes, read_small};
use crate::reserve::Reserve;
use crate::sync::RwLock;
use crate::vfs::{Vfs, Vouched, lost_names};

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
        let is = |slot: &Slot| *slot.key == *key && slot.incarnation == incarnation && slot.tombstone.is_none();
        self.table.as_ref().is_none_or(|table| table.slots.iter().any(is))
    }

    /// Keys of the objects that are not deleted; `None` if that cannot be told.
    pub(super) fn keys(&self) -> Option<impl Iterator<Item = &Arc<[u8]>>> {
        let slots = self.table.as_ref()?.slots.iter().filter(|slot| slot.tombstone.is_none());
        Some(slots.map(|slot| &slot.key))
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
    // Asked before the first change, since these are the last that can refuse.
    let decisions = recovery::decide(&survey)?;
    check_open_files(&*vfs, survey.tables.len())?;
    if !marked {
        adopt::check(&survey, &decisions)?;
    }
    let lost = lost_names(&survey.temporaries);
    note_all(&*vfs, &lost)?;
    if !marked {
        adopt::settle(&*vfs, &mut survey, &decisions)?;
        crashsafe::publish(&*vfs, MARKER, &identity.encode())?;
    }
    let durable = survey.high_water.unwrap_or(NEVER_USED);
    recovery::recover(&*vfs, &mut survey)?;
    let Anew { renewed, in_doubt } = put_in_place_anew(&*vfs, &lost)?;
    for id in renewed {
        survey.data.insert(id, recovery::measured(&*vfs, &id.data_name())?);
    }
    let ours = |name: &str| NameKind::of(name) != NameKind::Strange && !in_doubt.iter().any(|kept| kept == name);
    crashsafe::sweep(&*vfs, ours).map_err(|error| StoreError::io(DiskOp::Unlink, "temporary files", error))?;
    let store = Store {
        health: Health::new(config.read_only_after_failures),
        reserve: Reserve::open(&*vfs, &*observer),
        gc: Gc::new(&config, evictor),
        numbers: Numbers::new(next, durable),
        room: Room::default(),
        state: RwLock::new(State::default()),
        physical: PhysicalBytes::default(),
        quarantined: BTreeMap::new(),
        graves: GravesFile::new(&BTreeMap::new(), false),
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
        Err(error) if error.is_no_regular_file() => return Err(strange(MARKER)),
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
            return refused("MARKER_DAMAGED", "the content", "a marker", error.without_remedy().to_string(), remedy);
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
    survey.strange.first().map_or(Ok(()), |name| Err(strange(name)))
}

fn strange(name: &str) -> StoreError {
    Problem::Refused {
        code: "STRANGE_FILE",
        file: name.into(),
        field: "the name",
        expected: "a regular file that this program or Mooncake writes".into(),
        found: "something else".into(),
        remedy: "move it out of the directory",
    }
    .into()
}

/// A directory without a marker must be empty, or adopted. What an interrupted first open leaves is nothing.
fn check_unmarked(survey: &Survey, adoption: Adoption) -> Result<(), StoreError> {
    let is_empty =
        survey.data.is_empty() && survey.tables.is_empty() && !survey.has_intents && survey.high_water.is_none();
    let is_empty = is_empty && survey.graves.is_none();
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
    let high_water = survey.high_water.unwrap_or(NEVER_USED);
    let rounds = survey.intents.rounds.iter();
    let named = rounds.flat_map(|round| round.sources().iter().copied().chain(round.target()));
    // What is in a grave must not cover what is written from now on.
    let buried = survey.graves.iter().flat_map(|graves| graves.keys.values()).map(|grave| grave.replaced);
    let away = survey.graves.iter().flat_map(|graves| &graves.away).copied();
    let ids = survey.tables.keys().chain(survey.data.keys()).copied().chain(named);
    let ids = ids.chain(away).chain(buried.clone().map(|rank| rank.bucket));
    let last_bucket = ids.max().map_or(0, |id| id.0);
    let slots = survey.tables.values().filter_map(|table| table.as_ref().ok()).flat_map(|table| &table.slots);
    let numbers = slots.map(|slot| slot.write_number).chain(buried.map(|rank| rank.write_number));
    let last_write = numbers.max().unwrap_or(0);
    HighWater {
        next_bucket: high_water.next_bucket.max(last_bucket + 1),
        next_write_number: high_water.next_write_number.max(last_write + 1),
    }
}

impl Store {
    /// Removes data files that no table names: a crash came between the two. Not durably: one that comes back is removed again.
    fn sweep_orphans(self, survey: &mut Survey) -> Result<Self, StoreError> {
        let orphans: Vec<_> = survey.data.keys().filter(|id| !survey.tables.contains_key(id)).copied().collect();
        let (mut files, mut bytes) = (0, 0);
        for id in &orphans {
            let (name, counted) = (id.data_name(), survey.data.get(id).map_or(0, counted_bytes));
            match self.vfs.unlink(&name).map_err(|error| StoreError::io(DiskOp::Unlink, name, error)) {
                Ok(()) => (files, bytes) = (files + 1, bytes + counted),
                // One file that a broken disk does not let go is no reason not to serve the others. Its number is never used again.
                Err(error) if error.is_broken_disk() => {
                    self.physical.add_out_of_reach(counted);
                    self.observer.event(&Event::DiskFailed { error });
                }
                Err(error) => return Err(error),
            }
        }
        if files > 0 {
            self.observer.event(&Event::OrphansRemoved { files, bytes });
        }
        Ok(self)
    }

    /// Takes up every bucket with a table and a data file that belong together; the others are left alone. Those that cannot be read are
    /// known before any is taken up, as they may know what others must not serve.
    fn load(mut self, survey: Survey) -> Result<Self, StoreError> {
        let Survey { tables, data, graves, .. } = survey;
        let mut readable = BTreeMap::new();
        for (id, table) in tables {
            let allocated_bytes = data.get(&id).map_or(0, counted_bytes);
            let (reason, table) = match table {
                Ok(table) if matches!(data.get(&id), Some(Ok(_))) => match self.open_data(id, allocated_bytes) {
                    Ok(file) => {
                        readable.insert(id, (table, file));
                        continue;
                    }
                    Err(error) if error.is_broken_disk() => (error.to_string(), Some(table)),
                    Err(error) => return Err(error),
                },
                Ok(table) => {
                    let unmeasured = data.get(&id).and_then(|data| data.as_ref().err());
                    let reason = unmeasured.map(|unmeasured| unmeasured.reason.clone());
                    (reason.unwrap_or_else(|| format!("there is no {}", id.data_name())), Some(table))
                }
                Err(error) => (format!("{}: {error}", id.table_name()), None),
            };
            self.set_apart(id, allocated_bytes, reason, table);
        }
        let has_graves = graves.is_some();
        let graves = graves.unwrap_or_default();
        for id in still_away(&graves, &self.quarantined.keys().copied().collect()) {
            if let Some((table, file)) = readable.remove(&id) {
                self.set_apart(id, file.allocated_bytes(), STILL_AWAY.into(), Some(table));
            }
        }
        for (id, Quarantined { reason, .. }) in &self.quarantined {
            self.observer.event(&Event::BucketQuarantined { bucket: *id, reason: reason.clone() });
        }
        self.graves = GravesFile::new(&self.quarantined, has_graves);
        let graves = self.note_away(graves)?;
        let (mut twice, mut largest_table, graves_bytes) = (Vec::new(), 0, graves.encoded_len());
        let mut state = State::with_graves(graves);
        for (id, (table, file)) in readable {
            largest_table = largest_table.max(table.encoded_len());
            let place = (id, table.layout, table.age, table.data_len);
            twice.extend(state.insert(Bucket::new(place, file, true), table.slots, true));
        }
        for (other, kept) in twice {
            let Some(record) = state.record(kept) else { continue };
            let (key, incarnation) = (Arc::clone(&record.slot.key), record.slot.incarnation);
            self.observer.event(&Event::ObjectTwice { key, incarnation, kept: kept.bucket, other: other.bucket });
        }
        debug_assert_eq!(state.audit(), Ok(()));
        let (buckets, objects) = (state.buckets().len(), state.live_objects());
        *self.state.get_mut() = state;
        self.cover_reserve(largest_table, INTENT_BYTES + graves_bytes);
        if self.are_graves_done() {
            self.fill_graves()?;
        }
        self.observer.event(&Event::Opened { buckets, objects });
        Ok(self)
    }

    fn open_data(&self, id: BucketId, allocated_bytes: u64) -> Result<Arc<BucketFile>, StoreError> {
        let name = id.data_name();
        let file = self.vfs.open(&name).map_err(|error| StoreError::io(DiskOp::Open, name, error))?;
        Ok(BucketFile::new(file, allocated_bytes, &self.physical))
    }

    /// The bucket is neither served nor touched.
    fn set_apart(&mut self, id: BucketId, allocated_bytes: u64, reason: String, table: Option<Table>) {
        self.physical.add_out_of_reach(allocated_bytes);
        self.quarantined.insert(id, Quarantined { reason, table });
    }

    /// So that deletes are possible on a disk that is full from the first moment. That there is no room for it is no reason not to
    /// serve: writes will say so.
    fn cover_reserve(&self, largest_table: u64, others: u64) {
        if let Err(error) = self.reserve.cover(&*self.vfs, largest_table, others, &*self.observer) {
            self.reserve.owe(largest_table, others);
            self.observer.event(&Event::DiskFailed { error });
        }
    }
}
