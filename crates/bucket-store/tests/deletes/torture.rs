//! Owns random use of a disk that fails: operations that fail at random, processes that are killed between any two of them, and power
//! losses, in any order. What was answered must hold, whatever came before it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

use bucket_store::format::names::BucketId;
use bucket_store::gc::{EvictedObject, Evictor, GcStep};
use bucket_store::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Image, Op, OpKind, SimDisk};
use bucket_store::{Config, DeleteOutcome, DeleteRequest, Durability, ReadRequest, Store, StoreErrorKind, WriteObject};
use ha_types::{Entropy as _, ManualClock, ObjectIncarnation, SeededEntropy};

const KEYS: u64 = 10;
/// Restarts of one run.
const LIVES: u64 = 12;
const RUNS: u64 = 40;

/// What is known of the objects of one key. They are numbered in the order in which their writes began.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The newest that must be there, unless its delete or that of a newer one has begun.
    durable: Option<u64>,
    /// Written, and durable with the next publish that succeeds.
    answered: Vec<u64>,
    begun: Vec<u64>,
    doomed: Vec<u64>,
    dead: Vec<u64>,
}

impl Told {
    fn allows(&self, served: Option<u64>) -> bool {
        match served {
            Some(number) => {
                !self.dead.contains(&number) && self.begun.contains(&number) && Some(number) >= self.durable
            }
            None => self.durable.is_none_or(|durable| {
                self.begun.iter().any(|number| *number >= durable && self.doomed.contains(number))
            }),
        }
    }
}

/// Agrees to every eviction.
#[derive(Debug, Default)]
struct Agrees(Mutex<Vec<u64>>);

impl Evictor for Agrees {
    fn evict(&self, _: BucketId, objects: &[EvictedObject]) -> Result<(), String> {
        self.0.lock().unwrap().extend(objects.iter().map(|object| number_of(object.incarnation)));
        Ok(())
    }
}

/// One run: a disk, what is known of it, and what happened.
struct Run {
    seed: u64,
    entropy: SeededEntropy,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    durability: Durability,
    evicted: Arc<Agrees>,
    keys: BTreeMap<u64, Told>,
    next: u64,
    happened: Happened,
}

#[derive(Clone, Copy, Debug, Default)]
struct Happened {
    writes: u64,
    removed: u64,
    refused: u64,
    faults: u64,
    kills: u64,
    power_losses: u64,
    read_only: u64,
    gc_steps: u64,
    evicted: u64,
}

fn key(number: u64) -> Vec<u8> {
    format!("tenant\0{}", number % KEYS).into_bytes()
}

fn incarnation(number: u64) -> ObjectIncarnation {
    ObjectIncarnation::without_log(1, number).unwrap()
}

fn number_of(incarnation: ObjectIncarnation) -> u64 {
    incarnation.to_bytes()[8..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn value(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + (number as usize * 7) % 150)
}

impl Run {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            entropy: SeededEntropy::new(seed + 1),
            disk: SimDisk::new(),
            clock: Arc::new(ManualClock::new()),
            durability: if seed.is_multiple_of(2) { Durability::Sync } else { Durability::Relaxed },
            evicted: Arc::default(),
            keys: BTreeMap::new(),
            next: 1,
            happened: Happened::default(),
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.entropy.next_u64() % bound
    }

    fn open(&self) -> Store {
        let config = Config {
            // Blocks of 4096: every fourth run is under pressure with some six buckets.
            capacity_bytes: if self.seed % 4 < 2 { 24 << 10 } else { 1 << 20 },
            bucket_size_bytes: 4096,
            bucket_keys: 3,
            copy_buffer_bytes: 512,
            normal_dead_ratio: Some(0.3),
            relaxed_limit_bytes: 8192,
            durability: self.durability,
            ..Config::default()
        };
        let builder =
            Store::builder(crate::kit::marker(), self.clock.clone()).config(config).evictor(self.evicted.clone());
        let opened = builder.open(Arc::new(self.disk.mount().unwrap()));
        opened.unwrap_or_else(|error| panic!("run {}: {error}; {:?}", self.seed, self.disk))
    }

    /// Compares what is served by a store that has just been opened. From then on that is durable.
    fn check(&mut self, store: &Store, when: &str) {
        self.take_evicted();
        let seed = self.seed;
        assert_eq!(store.quarantined().count(), 0, "run {seed}, {when}");
        for at in 0..KEYS {
            let served = store.find(&key(at)).map(|found| number_of(found.incarnation));
            if let Some(number) = served {
                let bytes = store.read(&ReadRequest::whole(&key(at)));
                assert!(bytes.is_ok_and(|bytes| bytes == value(number)), "run {seed}, {when}: the bytes of {number}");
            }
            let told = self.keys.entry(at).or_default();
            assert!(told.allows(served), "run {seed}, {when}: key {at} serves {served:?}, {told:?}");
            told.durable = served;
            told.answered.clear();
            told.doomed.clear();
            told.begun = served.into_iter().collect();
        }
    }

    /// What was agreed to be evicted may be gone from then on.
    fn take_evicted(&mut self) {
        for number in std::mem::take(&mut *self.evicted.0.lock().unwrap()) {
            self.happened.evicted += 1;
            self.keys.entry(number % KEYS).or_default().doomed.push(number);
        }
    }

    fn arm(&self) {
        use OpKind::{Allocate, Create, Read, Rename, SyncData, SyncDir, Unlink, Write};
        let kinds = [Create, Rename, Unlink, SyncDir, SyncDir, Write, SyncData, Allocate, Read];
        for _ in 0..self.below(4) {
            let kind = kinds[self.below(kinds.len() as u64) as usize];
            let errno = if self.below(2) == 0 { EIO } else { ENOSPC };
            let short = Fault::Short { written: self.below(600), errno };
            let fault = if self.below(3) == 0 { short } else { Fault::Errno(errno) };
            let from = self.disk.operations() + 1 + self.below(120);
            self.disk.inject(1 + self.below(3) as usize, fault, move |op| op.kind == kind && op.number >= from);
        }
    }

    fn step(&mut self, store: &Store) {
        match self.below(10) {
            0..4 => self.write(store),
            4..7 => self.delete(store),
            7 => {
                if store.publish_pending().is_ok() {
                    for (at, told) in &mut self.keys {
                        // What could not be written twice is lost, as an event says; what is served is durable now.
                        let served = store.find(&key(*at)).map(|found| number_of(found.incarnation));
                        told.durable = told.durable.max(served.filter(|number| told.answered.contains(number)));
                        told.answered.clear();
                    }
                }
                let _ = store.bury_superseded(2);
            }
            _ => {
                for _ in 0..self.below(30) {
                    match store.gc_step() {
                        GcStep::Again => self.happened.gc_steps += 1,
                        GcStep::Wait(pause) => self.clock.advance(pause),
                        _ => break,
                    }
                }
                self.take_evicted();
            }
        }
    }

    fn write(&mut self, store: &Store) {
        let first = self.next + self.below(KEYS);
        let numbers: Vec<u64> = (first..first + 1 + self.below(5)).collect();
        self.next = first + 5;
        let made: Vec<_> = numbers.iter().map(|number| (key(*number), value(*number), incarnation(*number))).collect();
        let objects: Vec<_> = made
            .iter()
            .map(|(key, value, incarnation)| WriteObject { key, incarnation: *incarnation, value, placement: None })
            .collect();
        for number in &numbers {
            self.keys.entry(number % KEYS).or_default().begun.push(*number);
        }
        let written = store.write(&objects);
        match &written {
            Ok(_) => self.happened.writes += 1,
            Err(error) => {
                use StoreErrorKind::{Busy, Disk, NoSpace, ReadOnly};
                self.happened.refused += 1;
                assert!([Disk, NoSpace, Busy, ReadOnly].contains(&error.kind()), "run {}: {error:?}", self.seed);
            }
        }
        for number in &numbers {
            let told = self.keys.entry(number % KEYS).or_default();
            match &written {
                Ok(_) if self.durability == Durability::Sync => told.durable = told.durable.max(Some(*number)),
                Ok(_) => told.answered.push(*number),
                // Refused as a whole: nothing of it may ever be there.
                Err(error) if error.kind() != StoreErrorKind::Disk => told.begun.retain(|begun| begun != number),
                Err(_) => {}
            }
        }
    }

    fn delete(&mut self, store: &Store) {
        let chosen: Vec<u64> = (0..1 + self.below(4)).map(|_| self.below(KEYS)).collect();
        let mut numbers: Vec<u64> =
            chosen.iter().filter_map(|at| Some(number_of(store.find(&key(*at))?.incarnation))).collect();
        // Also one that may be deleted, or half deleted, already.
        numbers.extend(self.keys.get(&self.below(KEYS)).and_then(|told| told.begun.first()));
        let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
        let requests: Vec<_> = keys
            .iter()
            .zip(&numbers)
            .map(|(key, number)| DeleteRequest { key, incarnation: incarnation(*number) })
            .collect();
        for number in &numbers {
            self.keys.entry(number % KEYS).or_default().doomed.push(*number);
        }
        let outcomes = store.delete(&requests).unwrap();
        for (number, outcome) in numbers.iter().zip(outcomes) {
            if outcome.is_terminal() {
                self.happened.removed += 1;
                self.keys.entry(number % KEYS).or_default().dead.push(*number);
            }
        }
    }

    /// One life: opened, checked, used until it ends in one of three ways.
    fn live(&mut self, life: u64) {
        let store = self.open();
        self.check(&store, &format!("life {life}"));
        self.arm();
        let (steps, end) = (self.below(25), self.below(4));
        let kill_at = self.disk.operations() + 1 + self.below(150);
        if end == 0 {
            // Not between a sync of the directory that failed and the note of what it lost: that is one operation too early to be known.
            let is_note = |name: &str| name.ends_with(&format!(".{}.tmp", u64::MAX));
            let matches = move |op: &Op| op.number >= kill_at && !is_note(&op.name);
            self.disk.when(matches, || resume_unwind(Box::new("killed")));
        }
        let ended = catch_unwind(AssertUnwindSafe(|| (0..steps).for_each(|_| self.step(&store))));
        let killed = match ended {
            Ok(()) => false,
            Err(why) if why.downcast_ref::<&str>() == Some(&"killed") => true,
            Err(why) => resume_unwind(why),
        };
        self.happened.kills += u64::from(killed);
        self.happened.read_only += u64::from(store.read_only().is_some());
        drop(store);
        self.disk.mend();
        if end >= 2 || (end == 0 && !killed) {
            self.happened.power_losses += 1;
            self.happened.faults += self.disk.faults_met();
            self.disk = SimDisk::of(&self.after_a_power_loss());
        }
    }

    /// Nothing fails any more: everything is deleted and collected, and nothing is left over (V5, B10).
    fn heal(&self, store: &Store) {
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let served = keys.iter().filter_map(|key| Some((key, store.find(key)?.incarnation)));
        let requests: Vec<_> = served.map(|(key, incarnation)| DeleteRequest { key, incarnation }).collect();
        let outcomes = store.delete(&requests).unwrap();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed)), "run {}", self.seed);
        for _ in 0..10_000 {
            match store.gc_step() {
                GcStep::Again => {}
                GcStep::Wait(pause) => self.clock.advance(pause),
                _ => break,
            }
        }
        let figures = store.figures();
        let left =
            (figures.buckets, figures.physical_bytes, figures.live_bytes, figures.dead_bytes, figures.gc_rounds_open);
        assert_eq!(left, (0, 0, 0, 0, 0), "run {}: {figures:?}", self.seed);
        let image = self.disk.image();
        let names: Vec<_> = image.names().filter(|name| !name.starts_with(".bucket_")).collect();
        assert_eq!(names, [".mooncake_local_disk_segment_id"], "run {}", self.seed);
    }

    fn after_a_power_loss(&self) -> Image {
        let states = CrashStates { samples: 64, seed: self.entropy.next_u64(), ..CrashStates::default() };
        let point = self.disk.crash_point();
        let pick = self.below(60) as usize;
        point.images(states).nth(pick).unwrap_or_else(|| point.least())
    }
}

#[test]
fn b1_b2_d3_random_use_of_a_disk_that_fails_with_kills_and_power_losses() {
    let mut all = Happened::default();
    for seed in 0..RUNS {
        let mut run = Run::new(seed);
        (0..LIVES).for_each(|life| run.live(life));
        let store = run.open();
        run.check(&store, "at the end");
        run.heal(&store);
        let now = run.happened;
        all.writes += now.writes;
        all.removed += now.removed;
        all.refused += now.refused;
        all.faults += now.faults;
        all.kills += now.kills;
        all.power_losses += now.power_losses;
        all.read_only += now.read_only;
        all.gc_steps += now.gc_steps;
        all.evicted += now.evicted;
    }
    let Happened { writes, removed, refused, faults, kills, power_losses, read_only, gc_steps, evicted } = all;
    let rare = [refused, faults, kills, power_losses, read_only, evicted].into_iter().min();
    assert!(writes > 500 && removed > 500 && gc_steps > 500 && rare > Some(5), "{all:?}");
}
