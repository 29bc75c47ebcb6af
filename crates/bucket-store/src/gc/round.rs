//! Owns a merge from its plan to the last byte of its copy: intent, target, records. What makes it authoritative is `commit`'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::MonoTime;

use super::copy::{Copier, CopyError, CopyItem};
use super::engine::{GcStep, Paused, Stage, Worker};
use crate::crashsafe::{self, Attempt};
use crate::error::{DiskOp, Problem, StoreError, StoreErrorKind};
use crate::format::intent::Round;
use crate::format::names::BucketId;
use crate::format::table::{Slot, Table};
use crate::observer::Event;
use crate::store::bucket::{Bucket, BucketFile, TableLock};
use crate::store::state::{Engagement, Fate, Location, State};

/// Buffers that a throttled copy writes between two syncs. Were all left to the last sync, the disk would be busy with a whole bucket at
/// once, and everybody else's syncs would wait for it.
const BUFFERS_A_SYNC: u64 = 8;

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    /// The sources by id: held open, whatever happens to their names.
    pub(super) sources: BTreeMap<BucketId, Arc<Bucket>>,
    pub(super) target: BucketId,
    pub(super) age: u64,
    pub(super) file: Arc<BucketFile>,
    pub(super) data_len: u64,
    /// All its data was synced, and its name.
    pub(super) synced: bool,
    /// Bytes written since the last sync.
    pub(super) unsynced_bytes: u64,
    /// Where each item of the copier is in its source.
    pub(super) from: Vec<Location>,
    pub(super) copier: Copier,
    pub(super) copied_bytes: u64,
}

/// A round that is being undone.
#[derive(Debug)]
pub(super) struct Undo {
    target: BucketId,
    /// Held so that its blocks are counted until it has no name any more.
    file: Option<Arc<BucketFile>>,
    attempt: Attempt,
    removed: bool,
}

impl Undo {
    fn new(target: BucketId, file: Option<Arc<BucketFile>>) -> Self {
        Self { target, file, attempt: Attempt::First, removed: false }
    }
}

impl Merge {
    pub(super) fn source_ids(&self) -> Vec<BucketId> {
        self.sources.keys().copied().collect()
    }
}

/// What a merge of these buckets would copy; `None` if one of them cannot be a source any more.
struct Gathered {
    sources: BTreeMap<BucketId, Arc<Bucket>>,
    from: Vec<Location>,
    items: Vec<CopyItem>,
}

fn gather(state: &State, sources: &[BucketId]) -> Option<Gathered> {
    let mut gathered = Gathered { sources: BTreeMap::new(), from: Vec::new(), items: Vec::new() };
    for id in sources {
        let source = state.bucket(*id)?;
        if source.engagement() != Engagement::Free || !source.is_published() || source.suspicion().any() {
            return None;
        }
        for (slot, entry) in (0_u32..).zip(source.slots()) {
            let at = Location { bucket: *id, slot };
            match state.fate(at) {
                Fate::Drop => {}
                Fate::Keep => return None,
                Fate::Copy => {
                    let from = Slot {
                        key: Arc::clone(&entry.key),
                        incarnation: entry.incarnation,
                        write_number: entry.write_number,
                        offset: entry.offset,
                        value_len: entry.value_len,
                        tombstone: None,
                    };
                    gathered.items.push(CopyItem { source: *id, layout: source.bucket().layout, from });
                    gathered.from.push(at);
                }
            }
        }
        gathered.sources.insert(*id, Arc::clone(source.bucket()));
    }
    Some(gathered)
}

impl Worker<'_> {
    /// PREPARED, and an empty target. Nothing is copied yet.
    pub(super) fn begin_merge(&mut self, sources: &[BucketId], age: u64, now: MonoTime) {
        let covering = {
            let state = self.store.state.read();
            sources.iter().copied().find(|id| state.covers_any(*id))
        };
        if let Some(id) = covering {
            // The next step plans anew: the tables have changed.
            return match self.bury_covered(id) {
                Ok(()) => {}
                Err(error) => self.set_aside(id, error, now),
            };
        }
        // What is dead for readers only is copied too, so that less may fit than was planned: then fewer sources go.
        let mut sources = sources;
        let gathered = {
            let mut state = self.store.state.write();
            let mut gathered = gather(&state, sources);
            while sources.len() > 1 && gathered.as_ref().is_some_and(|gathered| !self.fits(gathered)) {
                sources = &sources[..sources.len() - 1];
                gathered = gather(&state, sources);
            }
            let gathered = gathered.filter(|gathered| self.fits(gathered));
            if gathered.is_some() {
                sources.iter().for_each(|id| state.engage(*id, Engagement::Merging));
            }
            gathered
        };
        let Some(gathered) = gathered else {
            // Something happened since the facts were taken, and the next plan sees it; or it does not, and must not be the same for ever.
            let reason = "with what may not be dropped yet it does not fit into a target, or it has changed since it was planned";
            return self.set_aside(sources[0], Problem::BucketStays { bucket: sources[0], reason }.into(), now);
        };
        if let Err(error) = self.prepare(gathered, age) {
            self.let_go(sources);
            self.pause(Paused::Copies, now);
            self.store.observer.event(&Event::GcRolledBack { sources: sources.to_vec(), error });
        }
    }

    /// Whether one target may hold all of it.
    fn fits(&self, gathered: &Gathered) -> bool {
        let config = &self.store.config;
        Copier::target_bytes(&gathered.items) <= config.bucket_size_bytes && gathered.items.len() <= config.bucket_keys
    }

    fn prepare(&mut self, gathered: Gathered, age: u64) -> Result<(), StoreError> {
        let Gathered { sources, from, items } = gathered;
        let ids: Vec<_> = sources.keys().copied().collect();
        let bytes = Copier::target_bytes(&items);
        let table_bytes =
            Table::EMPTY_BYTES + items.iter().map(|item| Slot::encoded_len(item.from.key.len())).sum::<u64>();
        let store = self.store;
        store.reserve.cover(&*store.vfs, table_bytes, self.engine.file.bytes_with_one_more(), &*store.observer)?;
        let target = store.next_bucket_id()?;
        self.engine.file.release(&ids);
        let prepared = Round::Prepared { sources: ids.clone(), target };
        store.observer.event(&Event::GcBegun { sources: ids, target: Some(target) });
        self.engine.file.under_way = Some(prepared);
        if let Err(error) = self.engine.file.publish(store) {
            // It may be in place all the same, so it is taken back for certain before anything else.
            self.engine.stage = Stage::Undoing(Undo::new(target, None));
            return Err(error);
        }
        match self.create_target(target, bytes) {
            Ok(file) => {
                let copier = Copier::new(items, target, store.config.copy_buffer_bytes);
                let (data_len, synced, unsynced_bytes, copied_bytes) = (bytes, false, 0, 0);
                let merge =
                    Merge { sources, target, age, file, data_len, synced, unsynced_bytes, from, copier, copied_bytes };
                self.engine.stage = Stage::Copying(Box::new(merge));
                Ok(())
            }
            Err((error, file)) => {
                self.engine.stage = Stage::Undoing(Undo::new(target, file));
                Err(error)
            }
        }
    }

    /// An empty file with its blocks: a full disk is met here, and not half-way through the copy. After a failure the file, if there is one,
    /// whose blocks count until it is gone (row B13).
    fn create_target(
        &self,
        target: BucketId,
        bytes: u64,
    ) -> Result<Arc<BucketFile>, (StoreError, Option<Arc<BucketFile>>)> {
        let name = target.data_name();
        let failed = |op| {
            let name = &*name;
            move |error| StoreError::io(op, name, error)
        };
        let file = self.store.vfs.create(&name).map_err(failed(DiskOp::Create)).map_err(|error| (error, None))?;
        let taken = file.allocate(bytes).map_err(failed(DiskOp::Allocate));
        let measured = file.allocated_bytes().map_err(failed(DiskOp::Stat));
        let counted_bytes = measured.as_ref().copied().unwrap_or_else(|_| self.store.gc_limits().in_blocks(bytes));
        let file = BucketFile::new(file, counted_bytes, &self.store.physical);
        match taken.and(measured) {
            Ok(_) => Ok(file),
            Err(error) => Err((error, Some(file))),
        }
    }

    /// One buffer, or what comes after the last.
    pub(super) fn copy(&mut self, now: MonoTime) -> GcStep {
        let pause = self.engine.budget.pause(now);
        if !pause.is_zero() {
            return GcStep::Wait(pause);
        }
        let throttled = self.engine.budget.is_throttled();
        let Stage::Copying(merge) = &mut self.engine.stage else { return GcStep::Again };
        if merge.copier.is_finished() {
            self.finish_merge(now);
            return GcStep::Again;
        }
        let buffers_bytes = BUFFERS_A_SYNC.saturating_mul(self.store.config.copy_buffer_bytes as u64);
        if throttled && merge.unsynced_bytes >= buffers_bytes {
            self.sync_so_far(now);
            return GcStep::Again;
        }
        TableLock::debug_assert_none_is_held();
        let Merge { sources, copier, file, .. } = &mut **merge;
        let copied = copier.step(|id| sources.get(&id).map(|bucket| bucket.file.file()), file.file());
        match copied {
            Ok(bytes) => {
                merge.copied_bytes += bytes;
                merge.unsynced_bytes += bytes;
                self.engine.budget.spend(now, self.store.clock.now(), bytes);
            }
            Err(CopyError::Target(error)) => self.give_up(None, error, now),
            Err(CopyError::Source { bucket, item, error }) => {
                let at = merge.from[item];
                self.found_unreadable(at, &error);
                self.give_up(Some(bucket), error, now);
            }
        }
        GcStep::Again
    }

    /// Ends the merge under way before its commit. If a source is at fault it is set aside, else copies are.
    pub(super) fn give_up(&mut self, at_fault: Option<BucketId>, error: StoreError, now: MonoTime) {
        let Stage::Copying(merge) = std::mem::replace(&mut self.engine.stage, Stage::Idle) else { return };
        let sources = merge.source_ids();
        self.engine.stage = Stage::Undoing(Undo::new(merge.target, Some(merge.file)));
        self.let_go(&sources);
        self.store.observer.event(&Event::GcRolledBack { sources, error: error.clone() });
        match at_fault {
            Some(bucket) => self.set_aside(bucket, error, now),
            None => self.pause(Paused::Copies, now),
        }
    }

    pub(super) fn let_go(&self, sources: &[BucketId]) {
        let mut state = self.store.state.write();
        sources.iter().for_each(|id| state.engage(*id, Engagement::Free));
    }

    pub(super) fn set_aside(&self, bucket: BucketId, error: StoreError, now: MonoTime) {
        // As for a pause: it begins now.
        let pause = self.store.gc.set_aside(bucket, self.store.clock.now().max(now));
        let retry_after_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        self.store.observer.event(&Event::GcSetAside { bucket, retry_after_ms, error });
    }

    /// The target goes, the directory is synced, and then the intent goes: only so can no crash leave a target without an intent.
    pub(super) fn undo(&mut self, now: MonoTime) {
        self.has_news = true;
        let Stage::Undoing(undo) = &mut self.engine.stage else { return };
        let mut undone = Ok(());
        if !undo.removed {
            let names = [undo.target.data_name(), undo.target.table_name()];
            undone = crashsafe::remove(&*self.store.vfs, &names, undo.attempt).map_err(StoreError::from);
            undo.removed = undone.is_ok();
            undo.attempt = Attempt::Repeated;
            if undo.removed {
                undo.file = None;
            }
        }
        if undone.is_ok() {
            self.engine.file.under_way = None;
        }
        match undone.and_then(|()| self.engine.file.publish(self.store)) {
            Ok(()) => {
                self.engine.stage = Stage::Idle;
                self.store.gc.forget_pause(Paused::Undo);
            }
            Err(error) => {
                self.pause(Paused::Undo, now);
                self.store.observer.event(&Event::DiskFailed { error });
            }
        }
    }
}

impl Worker<'_> {
    /// A record of a source is not what was written, or could not be read. Damage stays where it is, told once, and keeps its bucket from
    /// being a source; what could not be read may be readable later.
    fn found_unreadable(&self, at: Location, error: &StoreError) {
        if error.kind() != StoreErrorKind::Damaged {
            return;
        }
        let damaged = {
            let mut state = self.store.state.write();
            let object = state.record(at).map(|record| (Arc::clone(&record.slot.key), record.slot.incarnation));
            object.filter(|_| state.damage(at))
        };
        if let Some((key, incarnation)) = damaged {
            let (bucket, error) = (at.bucket, error.clone());
            self.store.observer.event(&Event::ObjectDamaged { bucket, key, incarnation, error });
        }
    }
}
