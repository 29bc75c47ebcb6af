//! Owns what tests of the bucket store on real directories share: objects whose bytes follow from one number, and a small store. It
//! judges nothing.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use bucket_store::format::marker::Marker;
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Config, DeleteOutcome, DeleteRequest, Durability, ReadRequest, Store, WriteObject};
use ha_types::{ClusterId, Entropy as _, Epoch, ObjectIncarnation, Owner, SeededEntropy, SegmentId, SystemClock};

/// How many keys there are: few, so that most writes replace something.
pub const KEYS: u64 = 40;

/// The object of a number: its key is one of [`KEYS`], and no other object has its incarnation.
#[must_use]
pub fn key(number: u64) -> Vec<u8> {
    format!("tenant\0key-{}", number % KEYS).into_bytes()
}

/// The name for all time of an object.
///
/// # Panics
/// If the number is 0.
#[must_use]
pub fn incarnation(number: u64) -> ObjectIncarnation {
    ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(1), number).expect("a number above 0 makes an incarnation")
}

/// The number of an incarnation.
#[must_use]
pub fn number_of(incarnation: ObjectIncarnation) -> u64 {
    let bytes = incarnation.to_bytes();
    bytes[8..].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The bytes of an object: 1 to 20,000, and no others have them.
#[must_use]
pub fn value(number: u64) -> Vec<u8> {
    let entropy = SeededEntropy::new(number);
    let len = 1 + entropy.next_u64() as usize % 20_000;
    let mut bytes = number.to_le_bytes().to_vec();
    while bytes.len() < len {
        bytes.extend_from_slice(&entropy.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Small buckets and a small capacity, so that GC has work under pressure and without.
#[must_use]
pub fn config(durability: Durability) -> Config {
    Config {
        capacity_bytes: 3 << 20,
        bucket_size_bytes: 64 << 10,
        bucket_keys: 6,
        copy_buffer_bytes: 16 << 10,
        normal_dead_ratio: Some(0.3),
        gc_copy_share: 1.0,
        relaxed_limit_bytes: 256 << 10,
        durability,
        ..Config::default()
    }
}

/// Opens a real directory.
///
/// # Errors
/// As the store says.
///
/// # Panics
/// Never: the ids are fixed.
pub fn open(path: &Path, config: Config) -> Result<Store> {
    let marker = Marker { segment: SegmentId::new("ssd-1")?, cluster: ClusterId::new("c1")? };
    let dir = Arc::new(DiskDir::open(path, Access::Store)?);
    Ok(Store::builder(marker, Arc::new(SystemClock::new())).config(config).open(dir)?)
}

/// Writes these objects in one call.
///
/// # Errors
/// As the store says.
pub fn write(store: &Store, numbers: &[u64]) -> Result<(), bucket_store::StoreError> {
    let made: Vec<_> = numbers.iter().map(|number| (key(*number), value(*number))).collect();
    let objects: Vec<_> = made
        .iter()
        .zip(numbers)
        .map(|((key, value), number)| WriteObject {
            key,
            incarnation: incarnation(*number),
            value,
            placement: (number % 3 != 0).then_some(number % 3),
        })
        .collect();
    store.write(&objects).map(|_| ())
}

/// Deletes these objects in one call.
///
/// # Errors
/// As the store says.
pub fn delete(store: &Store, numbers: &[u64]) -> Result<Vec<DeleteOutcome>, bucket_store::StoreError> {
    let keys: Vec<_> = numbers.iter().map(|number| key(*number)).collect();
    let requests: Vec<_> = keys
        .iter()
        .zip(numbers)
        .map(|(key, number)| DeleteRequest { key, incarnation: incarnation(*number) })
        .collect();
    store.delete(&requests)
}

/// The number of the object that is served under the key of this one, read and compared byte by byte.
///
/// # Panics
/// If it is served and cannot be read, or has other bytes than it was written with.
#[must_use]
pub fn served(store: &Store, number: u64) -> Option<u64> {
    let key = key(number);
    let found = number_of(store.find(&key)?.incarnation);
    let bytes = store.read(&ReadRequest::whole(&key)).unwrap_or_else(|error| panic!("object {found}: {error}"));
    assert!(bytes == value(found), "object {found} has other bytes than it was written with");
    Some(found)
}

/// What an open directory holds beside what belongs there: temporary files, intents, halves of buckets.
///
/// # Errors
/// If it cannot be listed.
pub fn left_over(path: &Path) -> Result<Vec<String>> {
    let names = std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<Result<_>>()?;
    let belongs = |name: &String| {
        let other = match name.rsplit_once('.') {
            Some((id, "bucket")) => format!("{id}.meta"),
            Some((id, "meta")) => format!("{id}.bucket"),
            _ => {
                return matches!(
                    &**name,
                    ".mooncake_local_disk_segment_id" | ".bucket_id_high_water" | ".bucket_reserve"
                );
            }
        };
        names.contains(&other)
    };
    Ok(names.iter().filter(|name| !belongs(name)).cloned().collect())
}
