//! Owns the look at every image that a power loss may leave: it is mounted, recovered, compared with what was promised, and crashed
//! again inside its own recovery, until nothing new comes of it.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bucket_store::format::graves::Graves;
use bucket_store::format::intent::{Intents, Round};
use bucket_store::format::names::{BucketId, GC_INTENT, GRAVES, ID_HIGH_WATER, MARKER, NameKind, RESERVE};
use bucket_store::gc::GcStep;
use bucket_store::vfs::Vfs;
use bucket_store::vfs::sim::{CrashPoint, CrashStates, Image, Op, OpKind, Order, SimDisk};
use bucket_store::{DeleteOutcome, DeleteRequest, Event, NoObserver, Observer, Store, WriteObject};
use ha_types::ManualClock;

use super::promise::{Broken, Object, Promises};
use super::situation::{Reached, Situation};
use super::view::{View, check_directory};
use super::world::{Moment, Setting};

/// Something that did not hold, and how to get there.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What.
    pub broken: Broken,
    /// The last operation before the power went.
    pub after: String,
    /// How often the power had gone.
    pub crashes: usize,
}

/// How an image came to be.
#[derive(Clone, Copy)]
struct Way<'a> {
    /// The last operation before the power went.
    op: &'a Op,
    promises: &'a Promises,
    /// Their hash.
    promised: u64,
    /// How often the power had gone before.
    crashes: usize,
}

/// What an image came to when a store was opened on it.
struct Recovered {
    /// The directory afterwards, but for the reserve, whose content means nothing.
    content: u64,
    view: View,
}

/// All images of one setting.
pub struct Explorer {
    setting: Setting,
    states: CrashStates,
    most_crashes: usize,
    /// By fingerprint.
    recovered: HashMap<u64, Rc<Recovered>>,
    /// Images that were crashed again inside their recovery.
    crashed_again: HashSet<u64>,
    /// Directories after recovery that were looked through.
    probed: HashSet<(u64, u64)>,
    /// Images with promises that were compared.
    compared: HashSet<(u64, u64)>,
    /// What was met.
    pub reached: Reached,
    /// What did not hold; at most [`MOST_VIOLATIONS`].
    pub violations: Vec<Violation>,
}

/// How often the power goes: in the workload, in the recovery from that, and in the recovery from that. It has an end because a crash in the
/// first open, before anything is swept, leaves one temporary file more each time.
const MOST_CRASHES: usize = 2;

/// Of a crash point inside a recovery.
const INSIDE: CrashStates =
    CrashStates { order: Order::Weak, exhaustive_up_to: 8, thorough: false, samples: 12, seed: 2 };

/// More are not kept: one is enough.
pub const MOST_VIOLATIONS: usize = 20;

fn hash(promises: &Promises) -> u64 {
    let mut hasher = DefaultHasher::new();
    promises.hash(&mut hasher);
    hasher.finish()
}

/// What a store tells while it is opened.
#[derive(Debug, Default)]
struct Opening {
    broken: Mutex<Vec<Broken>>,
    orphans: Mutex<bool>,
}

impl Observer for Opening {
    fn event(&self, event: &Event) {
        match event {
            Event::ObjectTwice { kept, other, .. } => {
                let seen = format!("an object is live in bucket {kept} and in bucket {other}");
                self.broken.lock().unwrap_or_else(PoisonError::into_inner).push(Broken::new("B6", seen));
            }
            Event::OrphansRemoved { .. } => *self.orphans.lock().unwrap_or_else(PoisonError::into_inner) = true,
            _ => {}
        }
    }
}

impl Explorer {
    /// Of stores that are opened so; of each crash point these states.
    #[must_use]
    pub fn new(setting: Setting, states: CrashStates) -> Self {
        Self {
            setting,
            states,
            most_crashes: MOST_CRASHES,
            recovered: HashMap::new(),
            crashed_again: HashSet::new(),
            probed: HashSet::new(),
            compared: HashSet::new(),
            reached: Reached::default(),
            violations: Vec::new(),
        }
    }

    /// Recoveries are not crashed again.
    #[must_use]
    pub fn only_once(self) -> Self {
        Self { most_crashes: 0, ..self }
    }

    /// The fingerprints of all images that were mounted.
    pub fn images(&self) -> impl Iterator<Item = u64> + '_ {
        self.recovered.keys().copied()
    }

    /// Whether it need not go on.
    #[must_use]
    pub fn has_enough(&self) -> bool {
        self.violations.len() >= MOST_VIOLATIONS
    }

    /// Looks at every image of a moment.
    pub fn moment(&mut self, moment: &Moment) {
        let promised = hash(&moment.promises);
        for image in moment.point.images(self.states) {
            self.image(&image, Way { op: &moment.op, promises: &moment.promises, promised, crashes: 0 }, None);
        }
    }

    /// The process dies at this moment, and is started again; then the power goes, in recovery or after it.
    pub fn process_death(&mut self, moment: &Moment) {
        let disk = moment.point.restart();
        if let Some(capacity) = self.setting.capacity {
            disk.set_capacity(capacity);
        }
        let points = watch(&disk);
        let clock = Arc::new(ManualClock::new());
        let told = Arc::new(Opening::default());
        let opened = self.setting.open(&disk, &clock, Arc::clone(&told) as _, None);
        let mut promises = (*moment.promises).clone();
        let before = points.lock().unwrap_or_else(PoisonError::into_inner).len();
        match opened {
            Err(error) => self.violated(Broken::new("B3", format!("after the process died: {error}")), &moment.op, 1),
            Ok((store, _)) => {
                let mut broken = Vec::new();
                let view = View::of(&store, &mut broken);
                view.check_quarantine(self.setting.spoils, &mut broken);
                broken.extend(promises.check(&view));
                broken.into_iter().for_each(|it| self.violated(it, &moment.op, 1));
                // What it answers now is promised, too.
                for object in moment.promises.objects().filter(|object| !view.live.contains_key(object)) {
                    let key = object.storage_key();
                    let request = DeleteRequest { key: &key, incarnation: object.incarnation() };
                    let outcomes = store.delete(&[request]).unwrap_or_default();
                    if outcomes.iter().all(DeleteOutcome::is_terminal) {
                        promises.delete_done(object);
                    }
                }
                let last = disk.crash_point();
                let promised = hash(&promises);
                for image in last.images(self.states) {
                    self.image(&image, Way { op: &moment.op, promises: &promises, promised, crashes: 1 }, None);
                }
            }
        }
        disk.unwatch();
        let points = std::mem::take(&mut *points.lock().unwrap_or_else(PoisonError::into_inner));
        let promised = hash(&moment.promises);
        for (op, point) in points.iter().take(before) {
            self.reached.meet(Situation::ProcessDeath);
            for image in point.images(self.states) {
                self.image(&image, Way { op, promises: &moment.promises, promised, crashes: 1 }, None);
            }
        }
    }

    fn image(&mut self, image: &Image, way: Way<'_>, expected: Option<u64>) {
        let Way { op, promises, promised, crashes } = way;
        if self.has_enough() {
            return;
        }
        let fingerprint = image.fingerprint();
        let goes_deeper = crashes < self.most_crashes && self.crashed_again.insert(fingerprint);
        let recovered = match self.recovered.get(&fingerprint) {
            Some(recovered) if !goes_deeper => Rc::clone(recovered),
            _ => {
                self.situations(image, op, crashes);
                match self.recover(image, fingerprint, way, goes_deeper) {
                    Some(recovered) => recovered,
                    None => return,
                }
            }
        };
        if let Some(expected) = expected
            && recovered.content != expected
        {
            let seen = "a crash in recovery, recovered, ends with another directory".to_owned();
            self.violated(Broken::new("B4", seen), op, crashes + 1);
        }
        if self.compared.insert((fingerprint, promised)) {
            for broken in promises.check(&recovered.view) {
                self.violated(broken, op, crashes + 1);
            }
            self.outcomes(&recovered.view, promises);
        }
    }

    /// Opens a store on the image, and looks at every image of a crash on the way.
    fn recover(&mut self, image: &Image, fingerprint: u64, way: Way<'_>, goes_deeper: bool) -> Option<Rc<Recovered>> {
        let Way { op, promises, promised, crashes } = way;
        let disk = SimDisk::of(image);
        if let Some(capacity) = self.setting.capacity {
            disk.set_capacity(capacity);
        }
        let points = if goes_deeper { watch(&disk) } else { Points::default() };
        let clock = Arc::new(ManualClock::new());
        let told = Arc::new(Opening::default());
        let (store, vfs) = match self.setting.open(&disk, &clock, Arc::clone(&told) as _, None) {
            Ok(opened) => opened,
            Err(error) => {
                self.violated(Broken::new("B3", format!("the store does not open: {error}")), op, crashes + 1);
                return None;
            }
        };
        disk.unwatch();
        if *told.orphans.lock().unwrap_or_else(PoisonError::into_inner) {
            self.reached.meet(Situation::OrphanSwept);
        }
        let mut broken = std::mem::take(&mut *told.broken.lock().unwrap_or_else(PoisonError::into_inner));
        let view = View::of(&store, &mut broken);
        view.check_quarantine(self.setting.spoils, &mut broken);
        let after = disk.image();
        let content = after.clone().without(RESERVE).fingerprint();
        if self.probed.insert((content, promised)) {
            check_directory(&store, &*vfs, &after, &mut broken);
            let new = probe(&store, &view, promises, &mut broken);
            self.go_on(Running { disk: &disk, store: &store, vfs: &*vfs, clock: &clock }, &view, new, &mut broken);
        }
        broken.into_iter().for_each(|it| self.violated(it, op, crashes + 1));
        let recovered = Rc::new(Recovered { content, view });
        self.recovered.insert(fingerprint, Rc::clone(&recovered));
        let points = std::mem::take(&mut *points.lock().unwrap_or_else(PoisonError::into_inner));
        drop((store, vfs));
        for (op, point) in &points {
            for nested in point.images(INSIDE) {
                self.image(&nested, Way { op, promises, promised, crashes: crashes + 1 }, Some(content));
            }
        }
        Some(recovered)
    }

    /// A recovered store is a store as any other: GC runs on it, and then the power goes once more.
    fn go_on(&mut self, it: Running<'_>, view: &View, new: Option<Object>, broken: &mut Vec<Broken>) {
        let committed = it.store.figures().gc_candidates > 0;
        if let Err(error) = it.store.publish_pending() {
            broken
                .push(Broken::new("B1", format!("what was written after a recovery cannot be made durable: {error}")));
        }
        let mut left = MOST_STEPS;
        loop {
            match it.store.gc_step() {
                GcStep::Again => {}
                GcStep::Wait(pause) => it.clock.advance(pause + Duration::from_millis(1)),
                GcStep::Idle(_) | GcStep::Busy | GcStep::ReadOnly => break,
            }
            left -= 1;
            if left == 0 {
                return broken.push(Broken::new("V4", "GC does not come to an end after a recovery"));
            }
        }
        let old =
            |view: &View| -> Vec<Object> { view.live.keys().copied().filter(|object| Some(*object) != new).collect() };
        let compare = |view_then: &View, when: &str, broken: &mut Vec<Broken>| {
            let (before, then) = (old(view), old(view_then));
            for object in before.iter().filter(|object| !then.contains(object)) {
                broken.push(Broken::lost("B1", format!("{object:?} is lost {when}")));
            }
            for object in then.iter().filter(|object| !before.contains(object)) {
                broken.push(Broken::resurrected("B2", format!("{object:?} is back {when}")));
            }
        };
        compare(&View::of(it.store, broken), "after GC of a recovered store", broken);
        check_directory(it.store, it.vfs, &it.disk.image(), broken);
        let least = it.disk.crash_point().least();
        match self.setting.open(&SimDisk::of(&least), &Arc::new(ManualClock::new()), Arc::new(NoObserver), None) {
            Ok((again, _)) => {
                compare(&View::of(&again, broken), "after GC of a recovered store and a power loss", broken);
                if committed {
                    self.reached.meet(Situation::CollectedAfterCrash);
                }
            }
            Err(error) => broken.push(Broken::new("B3", format!("after GC of a recovered store: {error}"))),
        }
    }

    fn violated(&mut self, broken: Broken, op: &Op, crashes: usize) {
        if !self.has_enough() {
            self.violations.push(Violation { broken, after: op.to_string(), crashes });
        }
    }

    fn outcomes(&mut self, view: &View, promises: &Promises) {
        for object in view.live.keys() {
            if promises.is_unanswered(*object) {
                self.reached.meet(Situation::UnansweredPutSurvived);
            }
            if promises.is_being_deleted(*object) {
                self.reached.meet(Situation::UnansweredDeleteUndone);
            }
            if promises.has_unanswered_successor(*object) {
                self.reached.meet(Situation::OlderVersionBack);
            }
        }
        for object in promises.objects().filter(|object| !view.live.contains_key(object)) {
            if promises.is_unanswered(object) {
                self.reached.meet(Situation::UnansweredPutLost);
            }
            if promises.is_being_deleted(object) {
                self.reached.meet(Situation::UnansweredDeleteSurvived);
            }
        }
    }

    /// Which situations an image is.
    fn situations(&mut self, image: &Image, op: &Op, crashes: usize) {
        let mut meet = |situation| self.reached.meet(situation);
        let touches = |name: &str| op.name.contains(name) || op.to.contains(name);
        if image.bytes(MARKER).is_none() {
            meet(if image.names().any(|name| matches!(NameKind::of(name), NameKind::Table(_))) {
                Situation::AdoptionCrash
            } else {
                Situation::FirstOpen
            });
        }
        if touches(ID_HIGH_WATER) && op.kind != OpKind::Create {
            meet(Situation::HighWaterRaise);
        }
        if touches(".meta") && op.kind == OpKind::Rename {
            meet(Situation::Publish);
        }
        if touches(RESERVE) && op.kind == OpKind::Unlink {
            meet(Situation::ReserveSpend);
        }
        if image.names().any(|name| NameKind::of(name) == NameKind::Temporary) {
            meet(Situation::TemporaryLeft);
        }
        if let Some(Ok(graves)) = image.bytes(GRAVES).map(|bytes| Graves::decode(&bytes))
            && !graves.keys.is_empty()
        {
            meet(Situation::GravesBack);
        }
        let Some(Ok(intents)) = image.bytes(GC_INTENT).map(|bytes| Intents::decode(&bytes)) else { return };
        match crashes {
            0 => {}
            1 => meet(Situation::CrashInRecovery),
            _ => meet(Situation::CrashInThatRecovery),
        }
        let has = |name: String| image.names().any(|it| it == name);
        let whole = |id: &BucketId| has(id.data_name()) && has(id.table_name());
        for round in &intents.rounds {
            meet(match round {
                Round::Prepared { target, .. } if has(target.table_name()) => Situation::BetweenPublishes,
                Round::Prepared { target, .. } if has(target.data_name()) => Situation::PreparedInCopy,
                Round::Prepared { .. } => Situation::PreparedBare,
                Round::Committed { sources, target: Some(_) } if sources.iter().all(whole) => Situation::CommittedWhole,
                Round::Committed { target: Some(_), .. } => Situation::CommittedInUnlink,
                Round::Committed { sources, target: None } if sources.iter().all(whole) => Situation::RemovalWhole,
                Round::Committed { target: None, .. } => Situation::RemovalInUnlink,
            });
        }
        if intents.rounds.len() > 1 {
            meet(Situation::SeveralRounds);
            if matches!(intents.rounds[0], Round::Committed { target: None, .. }) {
                meet(Situation::TargetMovedOn);
            }
        }
    }
}

/// A store that was opened on an image.
#[derive(Clone, Copy)]
struct Running<'a> {
    disk: &'a SimDisk,
    store: &'a Store,
    vfs: &'a dyn Vfs,
    clock: &'a ManualClock,
}

/// Steps of GC within which it ends in any of the workloads.
const MOST_STEPS: usize = 500;

type Points = Arc<Mutex<Vec<(Op, CrashPoint)>>>;

fn watch(disk: &SimDisk) -> Points {
    let points = Points::default();
    let kept = Arc::clone(&points);
    disk.watch(move |op, point| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push((op.clone(), point));
    });
    points
}

/// Asks the recovered store for more: what is not live is not there (D3, D4) and asking changes nothing else (D5); a new bucket has an id
/// that was never used. Gives what it wrote, if there was room.
fn probe(store: &Store, view: &View, promises: &Promises, broken: &mut Vec<Broken>) -> Option<Object> {
    let gone: Vec<_> = promises.objects().filter(|object| !view.live.contains_key(object)).collect();
    let keys: Vec<_> = gone.iter().map(|object| object.storage_key()).collect();
    let requests: Vec<_> =
        gone.iter().zip(&keys).map(|(object, key)| DeleteRequest { key, incarnation: object.incarnation() }).collect();
    let outcomes = store.delete(&requests).unwrap_or_default();
    for (object, outcome) in gone.iter().zip(&outcomes) {
        // An older version that is hidden behind a newer one is still there, and is deleted now.
        // What may be in a bucket that is set apart is not known to be gone.
        if !outcome.is_terminal() && view.quarantined.is_empty() {
            broken.push(Broken::new("D4", format!("the delete of {object:?}, which is gone, is answered {outcome:?}")));
        }
    }
    let mut ignored = Vec::new();
    if View::of(store, &mut ignored).live != view.live {
        broken.push(Broken::new("D5", "deletes of what is not live changed what is"));
    }
    let new = Object { key: 250, version: 1 };
    let (key, value) = (new.storage_key(), new.value());
    let object = WriteObject { key: &key, incarnation: new.incarnation(), value: &value, placement: Some(1 << 40) };
    if let Err(error) = store.write(&[object]) {
        if error.code() != "NO_SPACE" && error.code() != "RESERVE_MISSING" && error.code() != "DISK_FULL" {
            broken.push(Broken::new("B1", format!("nothing can be written: {error}")));
        }
        return None;
    }
    let bucket = View::of(store, &mut ignored).live.get(&new).copied();
    if bucket.is_some_and(|bucket| bucket.0 <= promises.highest_bucket) {
        broken.push(Broken::new("B6", format!("bucket id {bucket:?} is used a second time")));
    }
    Some(new)
}
