//! Owns one life of a store in a workload: its disk, its clock, what it was asked and what it answered. Every moment at which the power
//! may go is kept, with what was promised by then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bucket_store::format::names::{BucketId, GC_INTENT, NameKind};
use bucket_store::gc::{EvictedObject, Evictor, GcStep};
use bucket_store::vfs::Vfs;
use bucket_store::vfs::sim::{CrashPoint, Op, OpKind, SimDisk};
use bucket_store::{
    Adoption, Config, DeleteOutcome, DeleteRequest, Durability, Event, Observer, Store, StoreError, WriteObject,
};
use ha_types::{ClusterId, ManualClock, SegmentId};

use super::promise::{Broken, Object, Promises};
use super::rules::Rule;
use super::situation::{Reached, Situation};
use super::view::View;
use super::weakened::Weakened;

/// How stores of one workload are opened, before a crash and after it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The settings.
    pub config: Config,
    /// Whether an unmarked directory is taken over.
    pub adoption: Adoption,
    /// Bytes of the disk; `None`: more than is needed.
    pub capacity: Option<u64>,
    /// Whether blocks are given back only when the directory is synced, as on a journaling file system.
    pub frees_late: bool,
    /// Whether a table is spoilt on purpose, so that a bucket may be in quarantine.
    pub spoils: bool,
    /// The rule that the disk breaks for the store; `None`: it keeps all.
    pub removed: Option<Rule>,
}

impl Default for Setting {
    fn default() -> Self {
        let config = Config {
            capacity_bytes: 1 << 30,
            gc_copy_share: 1.0,
            copy_buffer_bytes: 1,
            bucket_size_bytes: 1 << 20,
            bucket_keys: 4,
            normal_dead_ratio: Some(0.1),
            read_only_after_failures: 1000,
            ..Config::default()
        };
        let (adoption, capacity, removed) = (Adoption::Refuse, None, None);
        Self { config, adoption, capacity, frees_late: false, spoils: false, removed }
    }
}

impl Setting {
    /// Opens a store on the disk.
    ///
    /// # Errors
    /// As the store.
    pub fn open(
        &self,
        disk: &SimDisk,
        clock: &Arc<ManualClock>,
        observer: Arc<dyn Observer>,
        evictor: Option<Arc<dyn Evictor>>,
    ) -> Result<(Store, Arc<dyn Vfs>), StoreError> {
        let dir = Arc::new(disk.mount().expect("one store at a time"));
        let vfs: Arc<dyn Vfs> = match self.removed {
            Some(rule) => Arc::new(Weakened::new(dir, rule)),
            None => dir,
        };
        let identity = bucket_store::format::marker::Marker {
            segment: SegmentId::new("ssd-1").expect("a segment id"),
            cluster: ClusterId::new("c1").expect("a cluster id"),
        };
        let mut builder = Store::builder(identity, Arc::clone(clock) as _).config(self.config.clone());
        builder = builder.adoption(self.adoption).observer(observer);
        if let Some(evictor) = evictor {
            builder = builder.evictor(evictor);
        }
        builder.open(Arc::clone(&vfs)).map(|store| (store, vfs))
    }
}

/// A moment at which the power may go.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The last operation before it.
    pub op: Op,
    /// What may be left.
    pub point: CrashPoint,
    /// What was promised.
    pub promises: Arc<Promises>,
}

/// What the world's parts share with the store's callbacks.
#[derive(Debug, Default)]
struct Told {
    promises: Mutex<Arc<Promises>>,
    moments: Mutex<Vec<Moment>>,
    reached: Mutex<Reached>,
    refuse_evictions: Mutex<u32>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Told {
    fn event(&self, event: &Event) {
        let mut reached = locked(&self.reached);
        match event {
            Event::TombstonesPublished { tombstones: 2.., .. } => reached.meet(Situation::GroupDelete),
            Event::GcCommitted { target: None, .. } => reached.meet(Situation::DeadRemoved),
            Event::GcCommitted { sources, .. } => reached.meet(match sources.len() {
                1 => Situation::MergeOfOne,
                2 => Situation::MergeOfTwo,
                3 => Situation::MergeOfThree,
                4 => Situation::MergeOfFour,
                5 => Situation::MergeOfFive,
                6 => Situation::MergeOfSix,
                7 => Situation::MergeOfSeven,
                _ => Situation::MergeOfEight,
            }),
            Event::GcRolledBack { .. } => reached.meet(Situation::RolledBack),
            Event::GcUncertain { .. } => reached.meet(Situation::CommitUncertain),
            Event::EvictionRefused { .. } => reached.meet(Situation::EvictionRefused),
            Event::Evicted { .. } => reached.meet(Situation::Evicted),
            Event::ReserveSpent { .. } => reached.meet(Situation::DeleteFromReserve),
            _ => {}
        }
    }
}

impl Evictor for Told {
    fn evict(&self, _: BucketId, objects: &[EvictedObject]) -> Result<(), String> {
        let mut refuse = locked(&self.refuse_evictions);
        if *refuse > 0 {
            *refuse -= 1;
            return Err("not now".into());
        }
        // What is agreed counts from the moment of the answer, so it is noted before.
        let mut promises = locked(&self.promises);
        let named = objects.iter().filter_map(|it| Object::of(&it.key, it.incarnation));
        named.for_each(|object| Arc::make_mut(&mut promises).given_up(object));
        Ok(())
    }
}

/// A store that lives through a workload.
pub struct World {
    /// Its disk.
    pub disk: SimDisk,
    setting: Setting,
    clock: Arc<ManualClock>,
    told: Arc<Told>,
    open: Option<Arc<Store>>,
    broken: Vec<Broken>,
    /// Written and served, and not durable yet.
    pending: Vec<Object>,
    /// A bucket cannot be read.
    is_away: bool,
}

impl World {
    /// On this disk, with no store open yet.
    #[must_use]
    pub fn new(disk: SimDisk, setting: Setting) -> Self {
        if let Some(capacity) = setting.capacity {
            disk.set_capacity(capacity);
        }
        if setting.frees_late {
            disk.free_late();
        }
        let told = Arc::new(Told::default());
        let watched = Arc::clone(&told);
        disk.watch(move |op, point| watched.after(op, point));
        let clock = Arc::new(ManualClock::new());
        Self { disk, setting, clock, told, open: None, broken: Vec::new(), pending: Vec::new(), is_away: false }
    }

    /// How its stores are opened.
    pub fn setting_mut(&mut self) -> &mut Setting {
        &mut self.setting
    }

    /// Moments from here on only; what came before is not of interest.
    pub fn forget_moments(&mut self) {
        locked(&self.told.moments).clear();
    }

    /// Opens the store, or says why not.
    pub fn open(&mut self) -> bool {
        let evictor = Some(Arc::clone(&self.told) as Arc<dyn Evictor>);
        match self.setting.open(&self.disk, &self.clock, Arc::clone(&self.told) as _, evictor) {
            Ok((store, vfs)) => {
                if self.disk.faults_met() > 0 && store.quarantined().len() > 0 {
                    // A table that cannot be read may be readable later: whoever runs it looks after the disk and opens again.
                    drop((store, vfs));
                    self.disk.mend();
                    return self.open();
                }
                self.open = Some(Arc::new(store));
                self.audit();
                true
            }
            Err(error) => {
                if self.disk.faults_met() == 0 {
                    self.broken.push(Broken::new("B3", format!("the store does not open: {error}")));
                }
                false
            }
        }
    }

    /// Opens the store while the table of this bucket cannot be read. Until it is closed.
    pub fn open_without(&mut self, id: BucketId) {
        self.disk.make_unreadable(&id.table_name(), 0..1 << 20);
        let evictor = Some(Arc::clone(&self.told) as Arc<dyn Evictor>);
        match self.setting.open(&self.disk, &self.clock, Arc::clone(&self.told) as _, evictor) {
            Ok((store, _)) if store.quarantined().len() > 0 => {
                self.is_away = true;
                self.open = Some(Arc::new(store));
                self.audit();
            }
            Ok(_) => self.broken.push(Broken::new("B3", format!("bucket {id} is served and cannot be read"))),
            Err(error) => self.broken.push(Broken::new("B3", format!("the store does not open: {error}"))),
        }
    }

    /// Closes it, as the death of the process does: nothing is synced.
    pub fn close(&mut self) {
        self.pending.clear();
        if std::mem::take(&mut self.is_away) {
            self.disk.mend();
        }
        self.open = None;
    }

    /// Closes and opens.
    pub fn reopen(&mut self) {
        self.close();
        let is_in_round = |moment: &Moment| moment.point.least().bytes(GC_INTENT).is_some();
        if locked(&self.told.moments).last().is_some_and(is_in_round) {
            self.met(Situation::ReopenedInRound);
        }
        self.open();
    }

    /// The store, if it is open.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.open.as_ref()
    }

    /// A situation that only the workload can tell.
    pub fn met(&self, situation: Situation) {
        locked(&self.told.reached).meet(situation);
    }

    /// Writes objects in one call.
    pub fn put(&mut self, objects: &[(u8, u8)]) {
        let Some(store) = self.open.clone() else { return };
        let objects: Vec<_> = objects.iter().map(|(key, version)| Object { key: *key, version: *version }).collect();
        self.promise(|promises| objects.iter().for_each(|object| promises.put_begun(*object)));
        let parts: Vec<_> = objects.iter().map(|object| (object.storage_key(), object.value())).collect();
        let all: Vec<_> = objects
            .iter()
            .zip(&parts)
            .map(|(object, (key, value))| WriteObject {
                key,
                incarnation: object.incarnation(),
                value,
                placement: None,
            })
            .collect();
        let result = store.write(&all);
        match result {
            Ok(_) if self.setting.config.durability == Durability::Sync => self.answered(|promises| {
                objects.iter().for_each(|object| promises.put_done(*object));
            }),
            Ok(_) => self.pending.extend(&objects),
            Err(error) => self.unexpected(&error),
        }
        self.audit();
    }

    /// Makes relaxed writes durable.
    pub fn publish_pending(&mut self) {
        let Some(store) = self.open.clone() else { return };
        let pending = std::mem::take(&mut self.pending);
        match store.publish_pending() {
            Ok(_) => self.answered(|promises| pending.iter().for_each(|object| promises.put_done(*object))),
            Err(error) => self.unexpected(&error),
        }
        self.audit();
    }

    /// Deletes objects in one call, and gives the outcomes.
    pub fn delete(&mut self, objects: &[(u8, u8)]) -> Vec<DeleteOutcome> {
        let Some(store) = self.open.clone() else { return Vec::new() };
        let objects: Vec<_> = objects.iter().map(|(key, version)| Object { key: *key, version: *version }).collect();
        let outcomes = self.told.delete(&self.disk, &store, &objects);
        if self.disk.faults_met() == 0 {
            for (object, outcome) in objects.iter().zip(&outcomes) {
                if let DeleteOutcome::Invalid(error) = outcome {
                    self.broken.push(Broken::new("D4", format!("{object:?}: {error}")));
                }
            }
        }
        self.audit();
        outcomes
    }

    /// Deletes objects right before the next operation that matches, from inside whatever performs it.
    pub fn delete_at(&self, matches: impl FnMut(&Op) -> bool + Send + 'static, objects: &[(u8, u8)]) {
        let Some(store) = self.open.as_ref().map(Arc::downgrade) else { return };
        let objects: Vec<_> = objects.iter().map(|(key, version)| Object { key: *key, version: *version }).collect();
        let (told, disk) = (Arc::clone(&self.told), self.disk.clone());
        self.disk.when(matches, move || {
            let Some(store) = store.upgrade() else { return };
            let outcomes = told.delete(&disk, &store, &objects);
            if outcomes.iter().any(|outcome| matches!(outcome, DeleteOutcome::Removed)) {
                locked(&told.reached).meet(Situation::DeleteInCopy);
            }
        });
    }

    /// Deletes objects, each of which must be gone after one call: a full disk is no excuse.
    pub fn delete_for_certain(&mut self, objects: &[(u8, u8)]) {
        let outcomes = self.delete(objects);
        if self.open.is_some() && !outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed)) {
            self.broken.push(Broken::new("B7", format!("the reserve was no help to deletes: {outcomes:?}")));
        }
    }

    /// Turns over a bit in the table of the bucket of this object, all of whose live objects are given up for it.
    pub fn spoil_table_of(&mut self, object: (u8, u8)) {
        let Some(store) = self.open.clone() else { return };
        let view = self.disk.aside(|| View::of(&store, &mut Vec::new()));
        let Some(bucket) = view.live.get(&Object { key: object.0, version: object.1 }) else { return };
        let with_it: Vec<_> = view.live.iter().filter(|(_, id)| *id == bucket).map(|(object, _)| *object).collect();
        if self.disk.flip_bit(&bucket.table_name(), 30, 1).is_ok() {
            self.answered(|promises| with_it.into_iter().for_each(|object| promises.given_up(object)));
        }
    }

    /// Steps of GC until there is nothing to do, at most `most`.
    pub fn gc(&mut self, most: usize) {
        for _ in 0..most {
            let Some(store) = self.open.clone() else { return };
            match store.gc_step() {
                GcStep::Again => {}
                GcStep::Wait(pause) => self.clock.advance(pause + Duration::from_millis(1)),
                GcStep::Idle(_) | GcStep::Busy | GcStep::ReadOnly => return,
            }
            self.audit();
        }
    }

    /// The next evictions are refused.
    pub fn refuse_evictions(&self, times: u32) {
        *locked(&self.told.refuse_evictions) = times;
    }

    /// That this object of Mooncake's is in the directory from the beginning.
    pub fn was_there(&mut self, key: u8) {
        self.promise(|promises| promises.put_done(Object { key, version: 0 }));
    }

    /// Repeats what is not ended, as its callers would, until all of it is; with a disk that is well again.
    pub fn settle(&mut self) {
        self.disk.mend();
        if self.open.is_none() || self.open.as_ref().is_some_and(|store| store.read_only().is_some()) {
            self.reopen();
        }
        self.gc(200);
        for _ in 0..20 {
            let promises = Arc::clone(&*locked(&self.told.promises));
            let open: Vec<_> = promises.objects().filter(|object| promises.is_being_deleted(*object)).collect();
            if open.is_empty() {
                break;
            }
            let named: Vec<_> = open.iter().map(|object| (object.key, object.version)).collect();
            self.delete(&named);
            self.clock.advance(Duration::from_secs(100));
            self.gc(200);
        }
        let promises = Arc::clone(&*locked(&self.told.promises));
        if let Some(object) = promises.objects().find(|object| promises.is_being_deleted(*object)) {
            self.broken.push(Broken::new("V3", format!("the delete of {object:?} never ends")));
        }
    }

    fn promise(&self, change: impl FnOnce(&mut Promises)) {
        change(Arc::make_mut(&mut *locked(&self.told.promises)));
    }

    /// Something was answered: what may be left is the same as before, and must keep more.
    fn answered(&self, change: impl FnOnce(&mut Promises)) {
        self.promise(change);
        self.told.now(&self.disk);
    }

    fn unexpected(&mut self, error: &StoreError) {
        if self.disk.faults_met() == 0 && self.setting.capacity.is_none() {
            self.broken.push(Broken::new("B1", format!("a call fails on a healthy disk: {error}")));
        }
    }

    /// The running store shows what it promised, too.
    fn audit(&mut self) {
        let Some(store) = self.open.clone() else { return };
        let mut broken = Vec::new();
        let view = self.disk.aside(|| View::of(&store, &mut broken));
        view.check_quarantine(self.setting.spoils, &mut broken);
        let promises = Arc::clone(&*locked(&self.told.promises));
        broken.extend(promises.check(&view));
        if self.is_away {
            // What is in that bucket is neither shown nor lost. What is shown must not be back all the same.
            broken.retain(|it| it.invariant == "B2");
        }
        self.broken.extend(broken.into_iter().map(|it| Broken { seen: format!("{} (running)", it.seen), ..it }));
    }

    /// Ends the life, and gives what is to be looked at.
    #[must_use]
    pub fn end(self) -> Life {
        let Self { disk, told, broken, open, .. } = self;
        disk.unwatch();
        drop(open);
        if disk.faults_met() > 0 {
            locked(&told.reached).meet(Situation::FaultMet);
        }
        let (moments, reached) = (std::mem::take(&mut *locked(&told.moments)), locked(&told.reached).clone());
        Life { moments, reached, broken, faults_met: disk.faults_met(), image: disk.image() }
    }
}

/// What a workload leaves behind.
#[derive(Debug)]
pub struct Life {
    /// Every moment, in order.
    pub moments: Vec<Moment>,
    /// What was met.
    pub reached: Reached,
    /// What did not hold while it ran.
    pub broken: Vec<Broken>,
    /// Faults that were met.
    pub faults_met: u64,
    /// The directory at its end.
    pub image: bucket_store::vfs::sim::Image,
}

impl Told {
    fn after(&self, op: &Op, point: CrashPoint) {
        if op.kind == OpKind::Create
            && let NameKind::Data(id) = NameKind::of(&op.name)
        {
            let mut promises = locked(&self.promises);
            if promises.highest_bucket < id.0 {
                Arc::make_mut(&mut promises).highest_bucket = id.0;
            }
        }
        let promises = Arc::clone(&*locked(&self.promises));
        locked(&self.moments).push(Moment { op: op.clone(), point, promises });
    }

    /// The same disk as after the last operation, with what was promised since.
    fn now(&self, disk: &SimDisk) {
        let promises = Arc::clone(&*locked(&self.promises));
        let mut moments = locked(&self.moments);
        let Some(last) = moments.last() else { return };
        let moment = Moment { op: last.op.clone(), point: disk.crash_point(), promises };
        moments.push(moment);
    }

    fn delete(&self, disk: &SimDisk, store: &Store, objects: &[Object]) -> Vec<DeleteOutcome> {
        let before: Vec<_> = {
            let mut promises = locked(&self.promises);
            objects.iter().for_each(|object| Arc::make_mut(&mut promises).delete_begun(*object));
            objects.iter().map(|object| promises.is_deleted(*object)).collect()
        };
        let keys: Vec<_> = objects.iter().map(|object| object.storage_key()).collect();
        let requests: Vec<_> = objects
            .iter()
            .zip(&keys)
            .map(|(object, key)| DeleteRequest { key, incarnation: object.incarnation() })
            .collect();
        let outcomes = store.delete(&requests).unwrap_or_default();
        for ((object, outcome), deleted) in objects.iter().zip(&outcomes).zip(before) {
            if outcome.is_terminal() {
                Arc::make_mut(&mut locked(&self.promises)).delete_done(*object);
            }
            let mut reached = locked(&self.reached);
            match outcome {
                DeleteOutcome::AlreadyRemoved if deleted => reached.meet(Situation::AlreadyRemoved),
                DeleteOutcome::StaleVersion => reached.meet(Situation::StaleVersion),
                DeleteOutcome::Retryable(_) => reached.meet(Situation::DeleteRetryable),
                _ => {}
            }
        }
        self.now(disk);
        outcomes
    }
}
