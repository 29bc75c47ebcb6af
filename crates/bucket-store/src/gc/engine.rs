//! Owns the one worker of GC and the order of its steps. What a step does is in the files beside; what is next is `plan`'s.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ha_types::MonoTime;

use super::aside::SetAside;
use super::budget::CopyBudget;
use super::commit::Uncertain;
use super::evict::Evictor;
use super::facts::{BucketFacts, PlanLimits, Room};
use super::intents::IntentFile;
use super::plan::{Explained, Idle, Plan, Verdict, explain, plan};
use super::round::{Merge, Undo};
use super::snapshot;
use crate::config::Config;
use crate::error::Problem;
use crate::format::names::BucketId;
use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};

/// What a call of [`Store::gc_step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GcStep {
    /// Something, and there may be more: call again.
    Again,
    /// Nothing yet: the copy budget, or the pause after a failure, asks for so long.
    Wait(Duration),
    /// Nothing: call again after something was deleted or written.
    Idle(Idle),
    /// Nothing: another call is at it.
    Busy,
    /// Nothing: the store is read-only.
    ReadOnly,
}

/// What GC keeps between its steps.
#[derive(Debug)]
pub(crate) struct Gc {
    engine: Mutex<Engine>,
    evictor: Option<Arc<dyn Evictor>>,
    /// Beside the engine, whose lock is held for the length of a step, for those who only look.
    failing: Mutex<Failing>,
    pressure: AtomicBool,
    open_rounds: AtomicU64,
}

/// What failed lately.
#[derive(Debug)]
struct Failing {
    /// Buckets that failed as sources, or whose eviction was refused.
    buckets: SetAside<BucketId>,
    /// Everything else that is tried again.
    others: SetAside<Paused>,
}

#[derive(Debug)]
pub(super) struct Engine {
    pub(super) file: IntentFile,
    pub(super) stage: Stage,
    pub(super) budget: CopyBudget,
    /// Buckets whose eviction was agreed to and has failed since: each goes when its pause is over, whether or not usage is still too high.
    pub(super) agreed: BTreeSet<BucketId>,
}

/// What is tried again after a pause, beside buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Paused {
    /// A commit whose outcome is unknown.
    Commit,
    /// The rollback of a round.
    Undo,
    /// The publish of this bucket's table, which has failed.
    Table(BucketId),
    /// The clean-up of this open round.
    CleanUp(u64),
    /// The removal of the graves.
    Graves,
    /// Copies: the target could not be written, which is no bucket's fault.
    Copies,
}

/// Where the round under way stands. Committed rounds are no longer under way, but open in the intent file.
#[derive(Debug)]
pub(super) enum Stage {
    /// There is none.
    Idle,
    /// PREPARED is durable; records are being copied, or all are.
    Copying(Box<Merge>),
    /// It failed before its commit: its target goes, and then its intent.
    Undoing(Undo),
    /// COMMITTED may or may not be in place: it is published until it is.
    Uncertain(Box<Uncertain>),
}

/// The permit to do GC's work: only [`Store::gc_step`] makes one, so nothing else can copy, retire or unlink.
pub(super) struct Worker<'a> {
    pub(super) store: &'a Store,
    pub(super) engine: MutexGuard<'a, Engine>,
    /// Something changed that the figures show.
    pub(super) has_news: bool,
}

impl Gc {
    pub(crate) fn new(config: &Config, evictor: Option<Arc<dyn Evictor>>) -> Self {
        let budget = CopyBudget::new(config.gc_copy_share, config.gc_copy_bytes_per_s.and_then(NonZeroU64::new));
        let (min, max) = (config.gc_retry_min, config.gc_retry_max);
        Self {
            engine: Mutex::new(Engine { file: IntentFile::new(), stage: Stage::Idle, budget, agreed: BTreeSet::new() }),
            evictor,
            failing: Mutex::new(Failing { buckets: SetAside::new(min, max), others: SetAside::new(min, max) }),
            pressure: AtomicBool::new(false),
            open_rounds: AtomicU64::new(0),
        }
    }

    pub(super) fn evictor(&self) -> Option<Arc<dyn Evictor>> {
        self.evictor.clone()
    }

    /// The bucket failed: gives how long it is left alone.
    pub(super) fn set_aside(&self, bucket: BucketId, now: MonoTime) -> Duration {
        self.failing.lock().buckets.failed(bucket, now)
    }

    fn aside_until(&self, bucket: BucketId, now: MonoTime) -> Option<MonoTime> {
        self.failing.lock().buckets.until(bucket, now)
    }

    pub(super) fn forget_aside(&self, bucket: BucketId) {
        self.failing.lock().buckets.forget(bucket);
    }

    pub(super) fn pause(&self, what: Paused, now: MonoTime) {
        self.failing.lock().others.failed(what, now);
    }

    pub(super) fn forget_pause(&self, what: Paused) {
        self.failing.lock().others.forget(what);
    }

    pub(super) fn paused_until(&self, what: Paused, now: MonoTime) -> Option<MonoTime> {
        self.failing.lock().others.until(what, now)
    }

    /// Rounds whose files are not all gone yet.
    pub(crate) fn open_rounds(&self) -> u64 {
        self.open_rounds.load(Relaxed)
    }
}

impl Store {
    /// Does one bounded piece of GC's work: plans a round, copies at most one buffer, commits, or cleans up after a commit. RFC *bucket
    /// deletion* §5. Nothing else in this crate does any of it.
    ///
    /// Failures are no errors here: they are told to the observer, and tried again after a pause that grows. The observer is given the figures
    /// when a round was committed, cleaned up or undone, and when there is nothing to do.
    pub fn gc_step(&self) -> GcStep {
        let Some(engine) = self.gc.engine.try_lock() else { return GcStep::Busy };
        let mut worker = Worker { store: self, engine, has_news: false };
        let step = worker.step();
        self.gc.open_rounds.store(worker.engine.file.open.len() as u64, Relaxed);
        let has_news = worker.has_news;
        drop(worker);
        if has_news || matches!(step, GcStep::Idle(_)) {
            self.observer.figures(&self.figures());
        }
        step
    }

    /// Why each bucket is a candidate of GC or why it is not, in id order. It asks the disk for its room, and waits for nobody.
    #[must_use]
    pub fn gc_explain(&self) -> Vec<Explained> {
        self.gc_verdicts(self.free_for_copies())
    }

    /// The same for a disk with that much room, which is not asked.
    pub(crate) fn gc_verdicts(&self, free_bytes: u64) -> Vec<Explained> {
        let now = self.clock.now();
        let facts = self.gc_facts(now);
        let limits = self.gc_limits();
        let physical_bytes = self.physical.get();
        let pressure = limits.pressure(self.gc.pressure.load(Relaxed), physical_bytes);
        explain(&facts, self.gc_room(free_bytes, pressure, physical_bytes, now), &limits, now)
    }

    fn gc_facts(&self, now: MonoTime) -> Vec<BucketFacts> {
        let failing = self.gc.failing.lock();
        snapshot::facts(&self.state.read(), |id| failing.buckets.until(id, now))
    }

    pub(super) fn gc_limits(&self) -> PlanLimits {
        PlanLimits::of(&self.config, self.physical.out_of_reach(), self.gc.evictor.is_some())
    }

    /// The room that the disk has for copies: none while the reserve is missing, and not what writes were promised.
    fn free_for_copies(&self) -> u64 {
        if self.reserve.is_missing() {
            return 0;
        }
        self.vfs.space().map_or(0, |space| space.free_bytes.saturating_sub(self.promised_bytes()))
    }

    fn gc_room(&self, free_bytes: u64, pressure: bool, physical_bytes: u64, now: MonoTime) -> Room {
        let no_copy_until = self.gc.paused_until(Paused::Copies, now);
        Room { physical_bytes, out_of_reach_bytes: self.physical.out_of_reach(), free_bytes, pressure, no_copy_until }
    }
}

impl Worker<'_> {
    fn step(&mut self) -> GcStep {
        if self.store.health.read_only().is_some() {
            return GcStep::ReadOnly;
        }
        let now = self.store.clock.now();
        if self.clean_up(now) || self.publish_again(now) {
            return GcStep::Again;
        }
        match self.engine.stage {
            Stage::Copying(_) => self.copy(now),
            Stage::Undoing(_) => self.unless_paused(Paused::Undo, now, Self::undo),
            Stage::Uncertain(_) => self.unless_paused(Paused::Commit, now, Self::commit_again),
            Stage::Idle => {
                if self.evict_agreed(now) {
                    return GcStep::Again;
                }
                self.begin(now)
            }
        }
    }

    fn unless_paused(&mut self, what: Paused, now: MonoTime, does: impl FnOnce(&mut Self, MonoTime)) -> GcStep {
        match self.store.gc.paused_until(what, now) {
            Some(until) => GcStep::Wait(until.saturating_since(now)),
            None => {
                does(self, now);
                GcStep::Again
            }
        }
    }

    /// Something failed. Its pause begins now, not when the step began, which may have taken longer than the pause is.
    pub(super) fn pause(&self, what: Paused, begun: MonoTime) {
        self.store.gc.pause(what, self.store.clock.now().max(begun));
    }

    /// Goes on with one eviction that was agreed to, if there is one whose pause is over. Whether there was.
    fn evict_agreed(&mut self, now: MonoTime) -> bool {
        let due = |id: &&BucketId| self.store.gc.aside_until(**id, now).is_none();
        let Some(id) = self.engine.agreed.iter().find(due).copied() else { return false };
        self.evict(id, now);
        true
    }

    /// Plans a round and begins it.
    fn begin(&mut self, now: MonoTime) -> GcStep {
        if self.store.reserve.is_missing() {
            // Failing is told by what is refused while it is missing.
            let _ = self.store.reserve.take_back(&*self.store.vfs, &*self.store.observer);
        }
        self.forget_the_gone();
        let facts = self.store.gc_facts(now);
        let limits = self.store.gc_limits();
        let physical_bytes = self.store.physical.get();
        let pressure = limits.pressure(self.store.gc.pressure.load(Relaxed), physical_bytes);
        self.store.gc.pressure.store(pressure, Relaxed);
        let room = self.store.gc_room(self.store.free_for_copies(), pressure, physical_bytes, now);
        match plan(&facts, room, &limits, now) {
            Plan::Nothing(_) if self.publish_for_staying(now) => GcStep::Again,
            Plan::Nothing(idle) => self.wait_or(idle, now),
            Plan::RemoveDead(dead) => {
                self.remove_dead(&dead, now);
                GcStep::Again
            }
            Plan::Merge { sources, age, .. } => {
                if self.are_worth_it(&sources, room, now) {
                    self.begin_merge(&sources, age, now);
                }
                GcStep::Again
            }
            Plan::Evict(bucket) => {
                self.evict(bucket, now);
                GcStep::Again
            }
        }
    }

    /// Sets aside what the plan took for dead and a copy would carry along: a copy that frees nothing would be planned for ever (V4).
    fn are_worth_it(&self, sources: &[BucketId], room: Room, now: MonoTime) -> bool {
        let exact: Vec<_> = {
            let state = self.store.state.read();
            sources.iter().filter_map(|id| snapshot::exact(&state, *id)).collect()
        };
        let verdicts = explain(&exact, room, &self.store.gc_limits(), now);
        let not_worth_it = verdicts.iter().filter(|it| it.verdict != Verdict::Candidate);
        let mut all = true;
        for it in not_worth_it {
            let reason = "what is dead in it is not durably so yet";
            self.set_aside(it.id, Problem::BucketStays { bucket: it.id, reason }.into(), now);
            all = false;
        }
        all
    }

    fn forget_the_gone(&self) {
        let owed = self.owed_tables();
        let mut failing = self.store.gc.failing.lock();
        failing.others.keep(|what| if let Paused::Table(id) = what { owed.contains(&id) } else { true });
        let state = self.store.state.read();
        failing.buckets.keep(|id| state.bucket(id).is_some());
    }

    /// Nothing to plan; but something may be waited for.
    fn wait_or(&self, idle: Idle, now: MonoTime) -> GcStep {
        let gc = &self.store.gc;
        let open = self.engine.file.open.iter();
        let clean_ups = open.filter_map(|round| gc.paused_until(Paused::CleanUp(round.number), now));
        let aside = if let Idle::SetAside { until } = idle { Some(until) } else { None };
        let agreed = self.engine.agreed.iter().filter_map(|id| gc.aside_until(*id, now));
        match clean_ups.chain(aside).chain(agreed).chain(self.next_publish_again(now)).min() {
            Some(until) => GcStep::Wait(until.saturating_since(now)),
            None => GcStep::Idle(idle),
        }
    }
}
