//! Owns one schedule's world: a store on a simulated disk, what was promised to its callers, and the checks at the end, on the store as it
//! is and on what a power loss would leave.

use std::sync::Arc;

use bucket_store::format::marker::Marker;
use bucket_store::gc::{EvictedObject, Evictor, GcStep};
use bucket_store::vfs::sim::SimDisk;
use bucket_store::{
    Config, DeleteOutcome, DeleteRequest, Durability, ReadRequest, Store, StoreError, WriteObject, WriteOutcome,
};
use ha_types::{ClusterId, Epoch, ManualClock, ObjectIncarnation, Owner, SegmentId};

use crate::dir::SteppedDir;

/// Large enough that a merge of two half dead buckets frees blocks.
const VALUE_BYTES: usize = 4096;

#[derive(Debug)]
struct AgreesAlways;

impl Evictor for AgreesAlways {
    fn evict(&self, _: bucket_store::format::names::BucketId, _: &[EvictedObject]) -> Result<(), String> {
        shuttle::thread::yield_now();
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    pub(crate) disk: SimDisk,
    clock: Arc<ManualClock>,
}

pub(crate) fn inc(n: u64) -> ObjectIncarnation {
    ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(1), n).expect("a counter from 1")
}

pub(crate) fn key(name: &str) -> Vec<u8> {
    format!("t\0{name}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    vec![n as u8; VALUE_BYTES]
}

fn config() -> Config {
    Config {
        capacity_bytes: 1 << 30,
        bucket_size_bytes: 1 << 20,
        bucket_keys: 2,
        copy_buffer_bytes: 4096,
        normal_dead_ratio: Some(0.1),
        gc_copy_share: 1.0,
        ..Config::default()
    }
}

fn open(disk: &SimDisk, clock: &Arc<ManualClock>, config: Config) -> Store {
    let identity = Marker {
        segment: SegmentId::new("s").expect("a segment id"),
        cluster: ClusterId::new("c").expect("a cluster id"),
    };
    let builder = Store::builder(identity, clock.clone()).config(config).evictor(Arc::new(AgreesAlways));
    builder.open(Arc::new(SteppedDir(disk.mount().expect("nobody has it")))).expect("it opens")
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    /// Data is not synced by writes.
    pub(crate) fn relaxed() -> Self {
        Self::with(Config { durability: Durability::Relaxed, ..config() })
    }

    /// Everything is too much, so that GC evicts.
    pub(crate) fn under_pressure() -> Self {
        Self::with(Config { high_watermark: 1e-7, low_watermark: 1e-8, normal_dead_ratio: None, ..config() })
    }

    fn with(config: Config) -> Self {
        let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::new()));
        Self { store: Arc::new(open(&disk, &clock, config)), disk, clock }
    }

    /// Writes objects into one bucket for each two of them.
    pub(crate) fn write(&self, objects: &[(&str, u64)]) -> Result<Vec<WriteOutcome>, StoreError> {
        let made: Vec<_> = objects.iter().map(|(name, n)| (key(name), inc(*n), value(*n))).collect();
        let objects: Vec<_> = made
            .iter()
            .map(|(key, incarnation, value)| WriteObject { key, incarnation: *incarnation, value, placement: None })
            .collect();
        self.store.write(&objects)
    }

    pub(crate) fn delete(&self, name: &str, n: u64) -> DeleteOutcome {
        let request = DeleteRequest { key: &key(name), incarnation: inc(n) };
        self.store.delete(&[request]).expect("one is not too many").remove(0)
    }

    /// Deletes it for certain.
    pub(crate) fn delete_until_done(&self, name: &str, n: u64) -> DeleteOutcome {
        loop {
            let outcome = self.delete(name, n);
            if outcome.is_terminal() {
                return outcome;
            }
            shuttle::thread::yield_now();
        }
    }

    /// The incarnation that is served. Whatever happens meanwhile, its bytes are right.
    pub(crate) fn read(&self, name: &str) -> Option<u64> {
        let name = key(name);
        match self.store.read(&ReadRequest::whole(&name)) {
            Ok(bytes) => {
                assert_eq!(bytes.len(), VALUE_BYTES);
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "mixed bytes");
                Some(u64::from(bytes[0]))
            }
            Err(error) => {
                assert_eq!(error.code(), "NOT_FOUND", "{error}");
                None
            }
        }
    }

    /// Lets GC work until it has nothing to do.
    pub(crate) fn collect(&self) -> u64 {
        let mut worked = 0;
        loop {
            assert!(worked < 1000, "GC never ends: {:#?} {:?}", self.store.gc_explain(), self.store.figures());
            match self.store.gc_step() {
                GcStep::Again => worked += 1,
                GcStep::Idle(_) => return worked,
                GcStep::Busy => shuttle::thread::yield_now(),
                GcStep::Wait(pause) => {
                    // It waits for another task: a delete under way, or an eviction.
                    self.clock.advance(pause);
                    shuttle::thread::yield_now();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn bucket_of(&self, name: &str) -> Option<u64> {
        self.store.find(&key(name)).map(|found| found.bucket.0)
    }

    /// What is served of these names now, and after a power loss: the same. Nothing is left over.
    pub(crate) fn close(self, names: &[&str]) -> Vec<Option<u64>> {
        self.store.publish_pending().expect("the disk works");
        self.collect();
        let served: Vec<_> = names.iter().map(|name| self.read(name)).collect();
        self.check();
        let Self { store, disk, clock } = self;
        let least = disk.crash_point().least();
        drop(store);
        let disk = SimDisk::of(&least);
        let again = Self { store: Arc::new(open(&disk, &clock, config())), disk, clock };
        let after: Vec<_> = names.iter().map(|name| again.read(name)).collect();
        assert_eq!(after, served, "after a power loss");
        served
    }

    fn check(&self) {
        let figures = self.store.figures();
        let image = self.disk.image();
        let files = image.names().filter(|name| name.ends_with(".bucket"));
        let bytes: u64 =
            files.map(|name| image.bytes(name).map_or(0, |b| (b.len() as u64).next_multiple_of(4096))).sum();
        assert_eq!(figures.physical_bytes, bytes, "blocks are counted as they are");
        assert_eq!((figures.gc_rounds_open, figures.pending_bytes), (0, 0));
        let listed = self.store.list(None, 1000).expect("a page").objects.len() as u64;
        assert_eq!(listed, figures.live_objects);
    }
}
