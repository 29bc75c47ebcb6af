//! Owns what the tests of deletes share: directories made byte by byte, so that a test says exactly which record lies where.

use std::sync::{Arc, Mutex};

use bucket_store::format::marker::Marker;
use bucket_store::format::names::BucketId;
use bucket_store::format::record::RecordHeader;
use bucket_store::format::table::{RecordLayout, Slot, Table};
use bucket_store::vfs::sim::{Image, Op, OpKind, SimDisk};
use bucket_store::{Config, DeleteOutcome, DeleteRequest, Event, Figures, Observer, Store, StoreBuilder};
use ha_types::{ClusterId, ManualClock, ObjectIncarnation, SegmentId};

/// Remembers every event as text, and the figures told last.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<Vec<String>>, Mutex<Option<Figures>>);

impl Observer for Heard {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(format!("{event:?}"));
    }

    fn figures(&self, figures: &Figures) {
        *self.1.lock().unwrap() = Some(figures.clone());
    }
}

impl Heard {
    /// The figures told last.
    pub(crate) fn figures_told(&self) -> Option<Figures> {
        self.1.lock().unwrap().clone()
    }

    /// How many events begin so.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|event| event.starts_with(name)).count()
    }
}

pub(crate) fn marker() -> Marker {
    Marker { segment: SegmentId::new("ssd-1").unwrap(), cluster: ClusterId::new("c1").unwrap() }
}

pub(crate) fn config() -> Config {
    Config { capacity_bytes: 64 << 20, bucket_size_bytes: 64 << 10, bucket_keys: 8, ..Config::default() }
}

pub(crate) fn builder() -> StoreBuilder {
    Store::builder(marker(), Arc::new(ManualClock::new())).config(config())
}

pub(crate) fn open(disk: &SimDisk) -> Store {
    builder().open(Arc::new(disk.mount().unwrap())).unwrap()
}

pub(crate) fn open_heard(disk: &SimDisk) -> (Store, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    (builder().observer(heard.clone()).open(Arc::new(disk.mount().unwrap())).unwrap(), heard)
}

/// A record: key, incarnation, write number.
pub(crate) type Object = (&'static str, u8, u64);

pub(crate) fn key(name: &str) -> Vec<u8> {
    format!("tenant\0{name}").into_bytes()
}

pub(crate) fn incarnation(n: u8) -> ObjectIncarnation {
    ObjectIncarnation::from_bytes([n; 16])
}

/// A directory with these buckets and nothing else.
pub(crate) fn image(buckets: &[(u64, &[Object])]) -> Image {
    let marked = Image::default().with(".mooncake_local_disk_segment_id", &marker().encode());
    buckets.iter().fold(marked, |image, (id, objects)| with_bucket(image, *id, objects))
}

pub(crate) fn with_bucket(image: Image, id: u64, objects: &[Object]) -> Image {
    let (mut data, mut slots) = (Vec::new(), Vec::new());
    for (name, n, write_number) in objects {
        let value = name.repeat(50).into_bytes();
        let slot = Slot {
            key: key(name).into(),
            incarnation: incarnation(*n),
            write_number: *write_number,
            offset: data.len() as u64,
            value_len: value.len() as u32,
            tombstone: None,
        };
        RecordHeader::of(&slot).encode_into(&value, &mut data);
        data.extend_from_slice(&value);
        slots.push(slot);
    }
    let (bucket, layout) = (BucketId(id), RecordLayout::Checksummed);
    let table = Table { bucket, layout, age: id, data_len: data.len() as u64, slots };
    image.with(&bucket.data_name(), &data).with(&bucket.table_name(), &table.encode().unwrap())
}

/// What the table on this image says: name and whether it is tombstoned, in order.
pub(crate) fn table(image: &Image, id: u64) -> Vec<(String, bool)> {
    let bucket = BucketId(id);
    let data_len = image.bytes(&bucket.data_name()).unwrap().len() as u64;
    let table = Table::decode(&image.bytes(&bucket.table_name()).unwrap(), bucket, data_len).unwrap();
    let name = |slot: &Slot| String::from_utf8(slot.key[b"tenant\0".len()..].to_vec()).unwrap();
    table.slots.iter().map(|slot| (name(slot), slot.tombstone.is_some())).collect()
}

/// Deletes these in one call, and says in a word what became of each; an error by its code.
pub(crate) fn delete(store: &Store, objects: &[(&str, u8)]) -> Vec<String> {
    let keys: Vec<_> = objects.iter().map(|(name, _)| key(name)).collect();
    let requests: Vec<_> =
        keys.iter().zip(objects).map(|(key, (_, n))| DeleteRequest { key, incarnation: incarnation(*n) }).collect();
    store.delete(&requests).unwrap().iter().map(word).collect()
}

pub(crate) fn word(outcome: &DeleteOutcome) -> String {
    match outcome {
        DeleteOutcome::Retryable(error) => format!("Retryable {}", error.code()),
        DeleteOutcome::Invalid(error) => format!("Invalid {}", error.code()),
        terminal => format!("{terminal:?}"),
    }
}

/// The operations that change something, as `Kind name`.
pub(crate) fn changes(log: &[Op]) -> Vec<String> {
    let name = |op: &Op| format!("{:?} {}{}", op.kind, op.name, op.to);
    log.iter().filter(|op| op.kind.changes()).map(|op| name(op).trim_end().to_owned()).collect()
}

/// Fails if a file was synced again on the descriptor on which a sync has failed: between two syncs of a name it must be made anew.
pub(crate) fn assert_no_second_sync(log: &[Op]) {
    let mut synced: Vec<&str> = Vec::new();
    for op in log {
        match op.kind {
            OpKind::Create => synced.retain(|name| *name != &*op.name),
            OpKind::SyncData => {
                assert!(!synced.contains(&&*op.name), "a second sync: {op}");
                synced.push(&op.name);
            }
            _ => {}
        }
    }
}
