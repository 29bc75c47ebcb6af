//! Owns what the tests of the store share: a store on a simulated disk, keys and values, and an observer that remembers.

use std::sync::{Arc, Mutex};

use bucket_store::format::marker::Marker;
use bucket_store::vfs::sim::SimDisk;
use bucket_store::{
    Config, DeleteOutcome, DeleteRequest, Event, Observer, ReadRequest, Store, StoreBuilder, StoreError, WriteObject,
    WriteOutcome,
};
use ha_types::{ClusterId, Epoch, ManualClock, ObjectIncarnation, Owner, SegmentId};

/// Remembers every event as text.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }
}

impl Heard {
    /// The events that begin so.
    pub(crate) fn of(&self, name: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|event| event.starts_with(name)).cloned().collect()
    }
}

pub(crate) fn marker(segment: &str, cluster: &str) -> Marker {
    Marker { segment: SegmentId::new(segment).unwrap(), cluster: ClusterId::new(cluster).unwrap() }
}

/// Small limits, so that little data makes many buckets.
pub(crate) fn config() -> Config {
    Config {
        capacity_bytes: 64 << 20,
        bucket_size_bytes: 64 << 10,
        bucket_keys: 4,
        copy_buffer_bytes: 4096,
        relaxed_limit_bytes: 1 << 20,
        ..Config::default()
    }
}

pub(crate) fn builder() -> StoreBuilder {
    Store::builder(marker("ssd-1", "c1"), Arc::new(ManualClock::new())).config(config())
}

/// Opens what is on the disk.
pub(crate) fn open_with(builder: StoreBuilder, disk: &SimDisk) -> Result<Store, StoreError> {
    builder.open(Arc::new(disk.mount().unwrap()))
}

pub(crate) fn open(disk: &SimDisk) -> Store {
    open_with(builder(), disk).unwrap()
}

pub(crate) fn inc(n: u64) -> ObjectIncarnation {
    ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(1), n).unwrap()
}

/// The storage key of `name` in the tenant `t`.
pub(crate) fn key(name: &str) -> Vec<u8> {
    format!("t\0{name}").into_bytes()
}

/// Bytes that no other seed has.
pub(crate) fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Writes one object in a bucket of its own.
pub(crate) fn write_one(store: &Store, name: &str, incarnation: u64, bytes: &[u8]) -> Result<WriteOutcome, StoreError> {
    let object = WriteObject { key: &key(name), incarnation: inc(incarnation), value: bytes, placement: None };
    store.write(&[object]).map(|outcomes| outcomes[0])
}

/// Writes objects of 100 bytes, each of the incarnation that is its seed, in one call.
pub(crate) fn write_all(store: &Store, objects: &[(&str, u64)]) -> Result<Vec<WriteOutcome>, StoreError> {
    let made: Vec<_> = objects.iter().map(|(name, seed)| (key(name), inc(*seed), value(*seed, 100))).collect();
    let objects: Vec<_> = made
        .iter()
        .map(|(key, incarnation, value)| WriteObject { key, incarnation: *incarnation, value, placement: None })
        .collect();
    store.write(&objects)
}

pub(crate) fn read(store: &Store, name: &str) -> Result<Vec<u8>, StoreError> {
    store.read(&ReadRequest::whole(&key(name)))
}

/// The seed of what is served under that name, if that is what [`write_all`] wrote.
pub(crate) fn seed_of(store: &Store, name: &str) -> Option<u64> {
    let found = store.find(&key(name))?;
    let seed = u64::from_be_bytes(found.incarnation.to_bytes()[8..].try_into().unwrap());
    assert_eq!(read(store, name).unwrap(), value(seed, 100), "{name} of incarnation {seed}");
    Some(seed)
}

pub(crate) fn delete(store: &Store, name: &str, incarnation: u64) -> DeleteOutcome {
    store.delete(&[DeleteRequest { key: &key(name), incarnation: inc(incarnation) }]).unwrap().remove(0)
}

/// Keys and incarnations of all pages.
pub(crate) fn list(store: &Store, most: usize) -> Vec<(Vec<u8>, ObjectIncarnation)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(after, most).unwrap();
        all.extend(page.objects.into_iter().map(|object| (object.key.to_vec(), object.incarnation)));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

/// The code of an error.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, StoreError>) -> &'static str {
    result.unwrap_err().code()
}
