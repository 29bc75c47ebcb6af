//! Owns long random use of the store against a map: writes, rewrites, deletes, GC, evictions, lists, ranges, restarts and power losses, on
//! the simulated disk and on a real one. It says which situations occurred, and fails if one never did.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

use bucket_store::gc::{EvictedObject, Evictor, GcStep};
use bucket_store::vfs::sim::{CrashStates, SimDisk};
use bucket_store::vfs::{Access, DiskDir, Vfs};
use bucket_store::{Config, DeleteOutcome, DeleteRequest, Durability, ReadRequest, Store, WriteObject, WriteOutcome};
use ha_types::{Clock, ManualClock, ObjectIncarnation};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::kit::{code, config, inc, key, marker, value};

const KEYS: u8 = 24;

#[derive(Clone, Debug)]
enum Step {
    /// Writes new incarnations of these keys, with values of about this size.
    Write {
        keys: Vec<u8>,
        size: usize,
        hint: Option<u64>,
    },
    /// Writes what is live again.
    WriteAgain {
        key: u8,
    },
    /// Writes an incarnation that is not live any more.
    WriteOld {
        pick: prop::sample::Index,
    },
    Delete {
        keys: Vec<u8>,
    },
    /// Deletes an incarnation that is not live, or never was.
    DeleteOther {
        pick: prop::sample::Index,
    },
    Gc {
        steps: u8,
    },
    Publish,
    ReadPart {
        key: u8,
        from: prop::sample::Index,
        until: prop::sample::Index,
    },
    Reopen,
    PowerLoss {
        pick: prop::sample::Index,
    },
    CheckAll {
        page: usize,
    },
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let keys = || prop::collection::btree_set(0..KEYS, 1..9).prop_map(|keys| keys.into_iter().collect::<Vec<_>>());
    let pick = any::<prop::sample::Index>;
    let size = prop_oneof![4 => 1..300_usize, 3 => 3_000..9_000_usize, 1 => 20_000..60_000_usize];
    let step = prop_oneof![
        8 => (keys(), size, prop::option::of(0..3_u64)).prop_map(|(keys, size, hint)| Step::Write { keys, size, hint }),
        1 => (0..KEYS).prop_map(|key| Step::WriteAgain { key }),
        1 => pick().prop_map(|pick| Step::WriteOld { pick }),
        5 => keys().prop_map(|keys| Step::Delete { keys }),
        2 => pick().prop_map(|pick| Step::DeleteOther { pick }),
        8 => (1..40_u8).prop_map(|steps| Step::Gc { steps }),
        2 => Just(Step::Publish),
        3 => (0..KEYS, pick(), pick()).prop_map(|(key, from, until)| Step::ReadPart { key, from, until }),
        2 => Just(Step::Reopen),
        2 => pick().prop_map(|pick| Step::PowerLoss { pick }),
        2 => (1..30_usize).prop_map(|page| Step::CheckAll { page }),
    ];
    prop::collection::vec(step, 1..most)
}

/// What should be there: for each key its incarnation, and the seed and length of its value.
type Live = BTreeMap<Vec<u8>, (u64, usize)>;

/// Agrees to every eviction, and takes the objects out of what should be there.
#[derive(Debug)]
struct Agrees(Arc<Mutex<Model>>);

impl Evictor for Agrees {
    fn evict(&self, _: bucket_store::format::names::BucketId, objects: &[EvictedObject]) -> Result<(), String> {
        let mut model = self.0.lock().unwrap();
        model.asked += 1;
        if model.asked.is_multiple_of(3) {
            return Err("not now".into());
        }
        for object in objects {
            let seed = seed_of(object.incarnation);
            if model.live.get(&*object.key).is_some_and(|(live, _)| *live == seed) {
                let gone = model.live.remove(&*object.key);
                model.evicted.extend(gone.map(|gone| (object.key.to_vec(), gone)));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Model {
    live: Live,
    /// Evictions that were agreed to and may not be committed: after a restart the object may be there.
    evicted: BTreeMap<Vec<u8>, (u64, usize)>,
    /// Every incarnation that was written and is not live.
    old: BTreeSet<(Vec<u8>, u64)>,
    asked: u64,
}

/// A disk that can be opened again, and the store on it.
enum Disk<'p> {
    Simulated(SimDisk),
    Real(&'p Path),
}

struct World<'p> {
    disk: Disk<'p>,
    clock: Arc<ManualClock>,
    durability: Durability,
    store: Option<Store>,
    model: Arc<Mutex<Model>>,
    last: u64,
    reached: &'p mut BTreeMap<&'static str, u64>,
}

fn seed_of(incarnation: ObjectIncarnation) -> u64 {
    u64::from_be_bytes(incarnation.to_bytes()[8..].try_into().unwrap())
}

impl<'p> World<'p> {
    fn new(disk: Disk<'p>, durability: Durability, reached: &'p mut BTreeMap<&'static str, u64>) -> Self {
        let (clock, model) = (Arc::new(ManualClock::new()), Arc::new(Mutex::new(Model::default())));
        let mut world = Self { disk, clock, durability, store: None, model, last: 0, reached };
        world.open();
        world
    }

    fn open(&mut self) {
        let config = Config {
            capacity_bytes: 300_000,
            high_watermark: 0.7,
            low_watermark: 0.5,
            normal_dead_ratio: Some(0.4),
            gc_copy_share: 1.0,
            durability: self.durability,
            relaxed_limit_bytes: 100_000,
            ..config()
        };
        let vfs: Arc<dyn Vfs> = match &self.disk {
            Disk::Simulated(disk) => Arc::new(disk.mount().unwrap()),
            Disk::Real(path) => Arc::new(DiskDir::open(path, Access::Store).unwrap()),
        };
        let clock: Arc<dyn Clock> = self.clock.clone();
        let builder = Store::builder(marker("ssd-1", "c1"), clock).config(config);
        self.store = Some(builder.evictor(Arc::new(Agrees(self.model.clone()))).open(vfs).unwrap());
        self.settle_evictions();
    }

    /// After a restart an eviction that was agreed to has happened or has not.
    fn settle_evictions(&mut self) {
        let mut model = self.model.lock().unwrap();
        for (key, (seed, len)) in std::mem::take(&mut model.evicted) {
            let found = self.store.as_ref().unwrap().find(&key);
            if found.is_some_and(|found| seed_of(found.incarnation) == seed) && !model.live.contains_key(&key) {
                model.live.insert(key, (seed, len));
            }
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn saw(&mut self, situation: &'static str) {
        *self.reached.entry(situation).or_default() += 1;
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write { keys, size, hint } => self.write(keys, *size, *hint),
            Step::WriteAgain { key } => self.write_again(*key),
            Step::WriteOld { pick } => self.write_old(*pick),
            Step::Delete { keys } => self.delete(keys),
            Step::DeleteOther { pick } => self.delete_other(*pick),
            Step::Gc { steps } => self.gc(*steps),
            Step::Publish => {
                self.store().publish_pending().unwrap();
                if self.store().bury_superseded(3).unwrap() > 0 {
                    self.saw("superseded objects were buried");
                }
            }
            Step::ReadPart { key, from, until } => self.read_part(*key, *from, *until),
            Step::Reopen => {
                self.store().publish_pending().unwrap();
                self.store = None;
                self.open();
                self.check_all(100);
            }
            Step::PowerLoss { pick } => self.power_loss(*pick),
            Step::CheckAll { page } => self.check_all(*page),
        }
        self.store().audit().unwrap();
        let served = self.store().figures().live_objects as usize;
        let model = self.model.lock().unwrap();
        let agreed = model.evicted.len();
        assert!(served >= model.live.len() && served <= model.live.len() + agreed, "{served} of {}", model.live.len());
    }

    fn write(&mut self, keys: &[u8], size: usize, hint: Option<u64>) {
        let made: Vec<_> = keys
            .iter()
            .map(|n| {
                self.last += 1;
                (key(&n.to_string()), self.last, value(self.last, 1 + (size + usize::from(*n)) % 60_000))
            })
            .collect();
        let objects: Vec<_> = made
            .iter()
            .map(|(key, seed, value)| WriteObject { key, incarnation: inc(*seed), value, placement: hint })
            .collect();
        match self.store().write(&objects) {
            Ok(outcomes) => {
                assert!(outcomes.iter().all(|outcome| *outcome == WriteOutcome::Stored));
                let mut model = self.model.lock().unwrap();
                for (key, seed, value) in made {
                    model.evicted.remove(&key);
                    if let Some((old, _)) = model.live.insert(key.clone(), (seed, value.len())) {
                        model.old.insert((key, old));
                    }
                }
            }
            Err(error) => {
                assert!(matches!(error.code(), "NO_SPACE" | "BUSY"), "{error}");
                self.saw(if error.code() == "BUSY" {
                    "write refused: being removed"
                } else {
                    "write refused: no space"
                });
            }
        }
    }

    fn write_again(&mut self, n: u8) {
        let name = key(&n.to_string());
        let Some((seed, len)) = self.model.lock().unwrap().live.get(&name).copied() else { return };
        let object = WriteObject { key: &name, incarnation: inc(seed), value: &value(seed, len), placement: None };
        match self.store().write(&[object]) {
            Ok(outcomes) => assert_eq!(outcomes, [WriteOutcome::AlreadyStored]),
            Err(error) => assert_eq!(error.code(), "BUSY"),
        }
        self.saw("already stored");
    }

    fn write_old(&mut self, pick: prop::sample::Index) {
        let old: Vec<_> = self.model.lock().unwrap().old.iter().cloned().collect();
        if old.is_empty() {
            return;
        }
        let (name, seed) = &old[pick.index(old.len())];
        let known = self.store().find(name).map(|found| found.incarnation);
        let object = WriteObject { key: name, incarnation: inc(*seed), value: &value(*seed, 10), placement: None };
        match self.store().write(&[object]) {
            // GC has forgotten it: whoever writes it again gets it
            Ok(outcomes) => {
                assert_eq!(outcomes, [WriteOutcome::Stored]);
                let mut model = self.model.lock().unwrap();
                model.evicted.remove(name);
                model.old.remove(&(name.clone(), *seed));
                if let Some((live, _)) = model.live.insert(name.clone(), (*seed, 10)) {
                    model.old.insert((name.clone(), live));
                }
                drop(model);
                self.saw("an incarnation that GC forgot was written again");
            }
            Err(error) => {
                assert!(matches!(error.code(), "TOMBSTONED" | "SUPERSEDED" | "BUSY" | "NO_SPACE"), "{error}");
                assert_eq!(self.store().find(name).map(|found| found.incarnation), known);
                self.saw("an old incarnation was refused");
            }
        }
    }

    fn delete(&mut self, keys: &[u8]) {
        let mut model = self.model.lock().unwrap();
        let names: Vec<_> = keys.iter().map(|n| key(&n.to_string())).collect();
        let live: Vec<_> = names.iter().filter_map(|name| Some((name, model.live.get(name)?.0))).collect();
        let requests: Vec<_> =
            live.iter().map(|(name, seed)| DeleteRequest { key: name, incarnation: inc(*seed) }).collect();
        let outcomes = self.store().delete(&requests).unwrap();
        let mut busy = false;
        for ((name, seed), outcome) in live.into_iter().zip(outcomes) {
            match outcome {
                DeleteOutcome::Removed => {
                    model.live.remove(name);
                    model.old.insert((name.clone(), seed));
                }
                DeleteOutcome::Retryable(_) => busy = true,
                other => panic!("{other:?} of what is live"),
            }
        }
        drop(model);
        if busy {
            self.saw("delete is busy");
        }
    }

    fn delete_other(&mut self, pick: prop::sample::Index) {
        let old: Vec<_> = self.model.lock().unwrap().old.iter().cloned().collect();
        let (name, seed) = if old.is_empty() { (key("never"), 1) } else { old[pick.index(old.len())].clone() };
        let outcomes = self.store().delete(&[DeleteRequest { key: &name, incarnation: inc(seed) }]).unwrap();
        match outcomes[0] {
            DeleteOutcome::Removed => self.saw("a superseded incarnation was removed"),
            DeleteOutcome::AlreadyRemoved => self.saw("already removed"),
            DeleteOutcome::StaleVersion => self.saw("stale version"),
            DeleteOutcome::Retryable(_) => {}
            ref other => panic!("{other:?}"),
        }
    }

    fn gc(&mut self, steps: u8) {
        for _ in 0..steps {
            let before = self.store().figures();
            match self.store().gc_step() {
                GcStep::Again => self.saw("GC worked"),
                GcStep::Wait(pause) => self.clock.advance(pause),
                GcStep::Idle(_) => break,
                other => panic!("{other:?}"),
            }
            if self.store().figures().buckets < before.buckets {
                self.saw("GC committed a round");
            }
        }
        if !self.model.lock().unwrap().evicted.is_empty() {
            self.saw("an eviction was agreed to");
        }
    }

    fn read_part(&mut self, n: u8, from: prop::sample::Index, until: prop::sample::Index) {
        let name = key(&n.to_string());
        let Some((seed, len)) = self.model.lock().unwrap().live.get(&name).copied() else { return };
        let (from, bytes) = (from.index(len), value(seed, len));
        let until = from + 1 + until.index(len - from);
        let request = ReadRequest::part(&name, from as u64, (until - from) as u64).of(inc(seed));
        assert!(self.store().read(&request).unwrap() == bytes[from..until], "{from}..{until} of {len}");
    }

    fn power_loss(&mut self, pick: prop::sample::Index) {
        let Disk::Simulated(disk) = &self.disk else { return };
        if self.durability == Durability::Relaxed {
            self.store().publish_pending().unwrap();
        }
        let images: Vec<_> = disk.crash_point().images(CrashStates::default()).collect();
        let image = &images[pick.index(images.len())];
        let several = images.len() > 1;
        self.disk = Disk::Simulated(SimDisk::of(image));
        self.store = None;
        self.open();
        if several {
            self.saw("power lost with something in the air");
        }
        self.check_all(100);
    }

    fn check_all(&mut self, page: usize) {
        let model = self.model.lock().unwrap();
        let (mut listed, mut after) = (BTreeMap::new(), None);
        loop {
            let page = self.store().list(after, page).unwrap();
            listed.extend(page.objects.into_iter().map(|object| (object.key.to_vec(), object)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let names: Vec<_> = listed.keys().filter(|key| !model.evicted.contains_key(*key)).cloned().collect();
        assert_eq!(names, model.live.keys().cloned().collect::<Vec<_>>());
        let requests: Vec<_> = names.iter().map(|name| ReadRequest::whole(name)).collect();
        for (name, read) in names.iter().zip(self.store().read_batch(&requests).unwrap()) {
            let (seed, len) = model.live[name];
            assert_eq!(seed_of(listed[name].incarnation), seed);
            assert!(read.unwrap() == value(seed, len), "{}", name.escape_ascii());
        }
        assert_eq!(code(self.store().read(&ReadRequest::whole(b"t\0never"))), "NOT_FOUND");
    }

    /// Nothing of GC is under way: every block of a bucket file is counted, and every file belongs to something.
    fn check_quiet(&mut self) {
        self.store().publish_pending().unwrap();
        for _ in 0..10_000 {
            match self.store().gc_step() {
                GcStep::Again => {}
                GcStep::Wait(pause) => self.clock.advance(pause),
                _ => break,
            }
        }
        let figures = self.store().figures();
        let (mut files, mut bytes) = (0, 0);
        match &self.disk {
            Disk::Simulated(disk) => {
                let image = disk.image();
                for name in image.names().filter(|name| name.ends_with(".bucket")) {
                    files += 1;
                    bytes += (image.bytes(name).unwrap().len() as u64).next_multiple_of(4096);
                }
            }
            Disk::Real(path) => {
                use std::os::unix::fs::MetadataExt as _;
                for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
                    if entry.file_name().to_str().unwrap().ends_with(".bucket") {
                        files += 1;
                        bytes += entry.metadata().unwrap().blocks() * 512;
                    }
                }
            }
        }
        assert_eq!((figures.buckets, figures.physical_bytes), (files, bytes));
        assert_eq!((figures.gc_rounds_open, figures.pending_bytes), (0, 0));
        self.check_all(7);
    }
}

fn run(disk: Disk<'_>, durability: Durability, steps: &[Step], reached: &mut BTreeMap<&'static str, u64>) {
    let mut world = World::new(disk, durability, reached);
    steps.iter().for_each(|step| world.step(step));
    world.check_quiet();
}

/// Runs many histories, prints what they reached, and fails if one of these was never reached.
fn prove(cases: u32, most: usize, wanted: &[&str], mut run: impl FnMut(Vec<Step>, &mut BTreeMap<&'static str, u64>)) {
    let reached = std::cell::RefCell::new(BTreeMap::new());
    let config =
        ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 2000, ..ProptestConfig::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let run = std::cell::RefCell::new(&mut run);
    runner
        .run(&steps(most), |steps| {
            (*run.borrow_mut())(steps, &mut reached.borrow_mut());
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
    println!("{reached:#?}");
    for situation in wanted {
        assert!(reached.borrow().contains_key(situation), "never: {situation}");
    }
}

const ALWAYS: &[&str] = &[
    "GC committed a round",
    "GC worked",
    "already removed",
    "already stored",
    "an eviction was agreed to",
    "an incarnation that GC forgot was written again",
    "an old incarnation was refused",
    "stale version",
    "superseded objects were buried",
    "write refused: no space",
];

#[test]
fn b1_b2_random_use_on_the_simulated_disk_with_power_losses() {
    let wanted = [ALWAYS, &["power lost with something in the air"]].concat();
    prove(40, 120, &wanted, |steps, reached| run(Disk::Simulated(SimDisk::new()), Durability::Sync, &steps, reached));
}

#[test]
fn b1_b2_random_use_on_the_simulated_disk_with_relaxed_data() {
    let wanted = [ALWAYS, &["power lost with something in the air", "a superseded incarnation was removed"]].concat();
    prove(40, 120, &wanted, |steps, reached| {
        run(Disk::Simulated(SimDisk::new()), Durability::Relaxed, &steps, reached)
    });
}

#[test]
fn b5_random_use_on_a_real_disk() {
    prove(12, 120, ALWAYS, |steps, reached| {
        let dir = tempfile::tempdir().unwrap();
        run(Disk::Real(dir.path()), Durability::Sync, &steps, reached);
    });
}
