//! A store on a simulated disk, with a clock that a test moves and everything that was told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ha_types::{ClusterId, ManualClock, ObjectIncarnation, SegmentId};
use parking_lot::Mutex;

use crate::config::Config;
use crate::error::StoreError;
use crate::format::marker::Marker;
use crate::format::names::BucketId;
use crate::format::table::RecordLayout;
use crate::gc::{EvictedObject, Evictor, GcStep};
use crate::observer::{Event, Figures, Observer};
use crate::store::{DeleteOutcome, DeleteRequest, Store, WriteObject, WriteOutcome};
use crate::vfs::sim::{Image, SimDisk};

pub(super) struct Fixture {
    pub(super) disk: SimDisk,
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) told: Arc<Told>,
}

#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Vec<Event>>, Mutex<Vec<Figures>>);

impl Observer for Told {
    fn event(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }

    fn figures(&self, figures: &Figures) {
        self.1.lock().push(figures.clone());
    }
}

impl Told {
    /// The figures, in the order they were told.
    pub(super) fn figures(&self) -> Vec<Figures> {
        self.1.lock().clone()
    }

    pub(super) fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().iter().filter(|event| is(event)).count()
    }

    /// The sum over all events.
    pub(super) fn sum(&self, of: impl Fn(&Event) -> u64) -> u64 {
        self.0.lock().iter().map(of).sum()
    }

    /// How many of these words begin an event's name, in the order they came.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |event: &Event| format!("{event:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
        self.0.lock().iter().map(name).collect()
    }
}

/// Small limits, an unthrottled copy, and no pressure until a test wants it.
pub(super) fn config() -> Config {
    Config {
        capacity_bytes: 1 << 30,
        high_watermark: 0.9,
        low_watermark: 0.1,
        gc_copy_share: 1.0,
        copy_buffer_bytes: 64 << 10,
        bucket_size_bytes: 1 << 20,
        bucket_keys: 50,
        normal_dead_ratio: Some(0.2),
        ..Config::default()
    }
}

pub(super) fn inc(n: u64) -> ObjectIncarnation {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&n.to_be_bytes());
    ObjectIncarnation::from_bytes(bytes)
}

/// The value of a key's incarnation: different for every one.
pub(super) fn value(key: u64, incarnation: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i * 7 + key * 13 + incarnation * 101) as u8).collect()
}

pub(super) fn storage_key(key: u64) -> Vec<u8> {
    format!("t\0k{key}").into_bytes()
}

pub(super) fn marker() -> Marker {
    Marker { segment: SegmentId::new("ssd").unwrap(), cluster: ClusterId::new("c").unwrap() }
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with(config(), None)
    }

    pub(super) fn with(config: Config, evictor: Option<Arc<dyn Evictor>>) -> Self {
        Self::on(SimDisk::new(), config, evictor).unwrap()
    }

    pub(super) fn on(disk: SimDisk, config: Config, evictor: Option<Arc<dyn Evictor>>) -> Result<Self, StoreError> {
        let (clock, told) = (Arc::new(ManualClock::new()), Arc::new(Told::default()));
        let vfs = Arc::new(disk.mount().unwrap());
        let mut builder =
            Store::builder(marker(), Arc::clone(&clock) as _).config(config).observer(Arc::clone(&told) as _);
        if let Some(evictor) = evictor {
            builder = builder.evictor(evictor);
        }
        let store = builder.open(vfs)?;
        assert_eq!(told.count(|event| matches!(event, Event::ObjectTwice { .. })), 0, "B6, B12: {:?}", told.names());
        Ok(Self { disk, store: Arc::new(store), clock, told })
    }

    /// What a restart finds on a disk in this state.
    pub(super) fn restarted(image: &Image) -> Result<Self, StoreError> {
        Self::on(SimDisk::of(image), config(), None)
    }

    /// The process dies, the disk does not.
    pub(super) fn reopen(self) -> Self {
        let Self { disk, store, .. } = self;
        assert_eq!(Arc::strong_count(&store), 1);
        drop(store);
        Self::on(disk, config(), None).unwrap()
    }

    /// Writes these objects, which fit into one bucket: key, incarnation, length.
    pub(super) fn put(&self, objects: &[(u64, u64, usize)]) -> BucketId {
        self.try_put(objects).unwrap()
    }

    pub(super) fn try_put(&self, objects: &[(u64, u64, usize)]) -> Result<BucketId, StoreError> {
        write(&self.store, objects)
    }

    /// Whether the object is deleted for certain.
    pub(super) fn delete(&self, key: u64, incarnation: u64) -> bool {
        delete(&self.store, key, incarnation)
    }

    pub(super) fn read(&self, key: u64) -> Option<Vec<u8>> {
        read(&self.store, key)
    }

    /// Steps until there is nothing to do for now, moving the clock over pauses; gives what the last step said.
    pub(super) fn settle(&self) -> GcStep {
        for _ in 0..10_000 {
            match self.store.gc_step() {
                GcStep::Again => {}
                GcStep::Wait(pause) => self.clock.advance(pause + Duration::from_nanos(1)),
                other => return other,
            }
            self.audit();
        }
        panic!("GC does not come to an end");
    }

    /// Steps until nothing is to be done without waiting.
    pub(super) fn step_while_again(&self) -> GcStep {
        for _ in 0..10_000 {
            let step = self.store.gc_step();
            self.audit();
            if step != GcStep::Again {
                return step;
            }
        }
        panic!("GC does not come to an end");
    }

    /// Row B10: every counter equals a recount.
    pub(super) fn audit(&self) {
        self.store.state.read().audit().unwrap();
    }

    pub(super) fn buckets(&self) -> Vec<u64> {
        self.store.state.read().buckets().map(|bucket| bucket.id().0).collect()
    }

    pub(super) fn physical_bytes(&self) -> u64 {
        self.store.physical.get()
    }

    /// Blocks of data files on the disk.
    pub(super) fn blocks_of_data(&self) -> u64 {
        let image = self.disk.image();
        let data = image.names().filter(|name| name.ends_with(".bucket"));
        data.map(|name| (image.bytes(name).unwrap().len() as u64).div_ceil(4096) * 4096).sum()
    }
}

pub(super) fn write(store: &Store, objects: &[(u64, u64, usize)]) -> Result<BucketId, StoreError> {
    let keys: Vec<_> = objects.iter().map(|(key, ..)| storage_key(*key)).collect();
    let values: Vec<_> = objects.iter().map(|(key, incarnation, len)| value(*key, *incarnation, *len)).collect();
    let object = |at: usize| WriteObject {
        key: &keys[at],
        incarnation: inc(objects[at].1),
        value: &values[at],
        placement: None,
    };
    let batch: Vec<_> = (0..objects.len()).map(object).collect();
    let stored = store.write(&batch)?.iter().all(|outcome| *outcome == WriteOutcome::Stored);
    assert!(stored, "objects that are new are there already");
    Ok(store.state.read().live(&keys[0]).unwrap().bucket.id())
}

/// Whether the delete was acknowledged.
pub(super) fn delete(store: &Store, key: u64, incarnation: u64) -> bool {
    let key = storage_key(key);
    let request = DeleteRequest { key: &key, incarnation: inc(incarnation) };
    let outcome = store.delete(&[request]).unwrap().remove(0);
    !matches!(outcome, DeleteOutcome::Retryable(_))
}

pub(super) fn read(store: &Store, key: u64) -> Option<Vec<u8>> {
    let key = storage_key(key);
    let (slot, bucket) = {
        let state = store.state.read();
        let record = state.live(&key)?;
        (record.slot.clone(), Arc::clone(&record.bucket.bucket().file))
    };
    let mut value = vec![0; slot.value_len as usize];
    let header = RecordLayout::Checksummed.header_len(slot.key.len(), slot.value_len);
    assert_eq!(bucket.file().read_at(&mut value, slot.offset + header).unwrap(), value.len());
    Some(value)
}

/// Answers as it is told, and remembers what it was asked.
#[derive(Default)]
pub(super) struct Answers {
    pub(super) refuse: Mutex<Vec<u64>>,
    pub(super) asked: Mutex<Vec<(u64, Vec<EvictedObject>)>>,
    pub(super) meanwhile: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

impl Evictor for Answers {
    fn evict(&self, bucket: BucketId, objects: &[EvictedObject]) -> Result<(), String> {
        self.asked.lock().push((bucket.0, objects.to_vec()));
        if let Some(meanwhile) = &mut *self.meanwhile.lock() {
            meanwhile();
        }
        if self.refuse.lock().contains(&bucket.0) { Err("not now".into()) } else { Ok(()) }
    }
}
