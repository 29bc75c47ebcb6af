//! Owns directories for tests, written file by file with the codecs, sound or not. It is no way to write a store's directory.

use std::io;

use ha_types::{ClusterId, ObjectIncarnation, SegmentId};

use super::high_water::HighWater;
use super::intent::{Intents, Round};
use super::marker::Marker;
use super::mooncake;
use super::names::{BucketId, GC_INTENT, ID_HIGH_WATER, MARKER};
use super::record::RecordHeader;
use super::table::{RecordLayout, Slot, Table, Tombstone};
use crate::vfs::Vfs;

/// One record of a bucket to be written.
#[derive(Clone, Debug)]
pub struct TestRecord {
    /// `tenant 0x00 key`.
    pub key: Vec<u8>,
    /// All 16 bytes of the incarnation.
    pub incarnation: u8,
    /// Its write number.
    pub write_number: u64,
    /// Its value.
    pub value: Vec<u8>,
    /// What the table says became of it.
    pub tombstone: Option<Tombstone>,
}

impl TestRecord {
    /// A live record, its incarnation all bytes `number`, its write number `number`, its value `len` bytes that depend on both.
    #[must_use]
    pub fn live(key: &[u8], number: u8, len: usize) -> Self {
        let value = (0..len).map(|at| (at as u8).wrapping_mul(31) ^ number).collect();
        Self { key: key.into(), incarnation: number, write_number: number.into(), value, tombstone: None }
    }

    /// The same, deleted.
    #[must_use]
    pub fn dead(key: &[u8], number: u8, len: usize) -> Self {
        Self { tombstone: Some(Tombstone::Deleted), ..Self::live(key, number, len) }
    }
}

/// Creates a file in a directory, in place of what has the name.
///
/// # Errors
/// As the system says.
pub fn put(vfs: &dyn Vfs, name: &str, bytes: &[u8]) -> io::Result<()> {
    match vfs.unlink(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = vfs.create(name)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    vfs.sync_dir()
}

/// The two files of a bucket of ours.
///
/// # Panics
/// If the records make no table.
#[must_use]
pub fn bucket(id: u64, age: u64, records: &[TestRecord]) -> (Vec<u8>, Table) {
    let (mut data, mut slots) = (Vec::new(), Vec::new());
    for record in records {
        let incarnation = ObjectIncarnation::from_bytes([record.incarnation; 16]);
        let (key, write_number) = (&record.key[..], record.write_number);
        let (offset, value_len) = (data.len() as u64, record.value.len() as u32);
        RecordHeader { key, incarnation, write_number, value_len }.encode_into(&record.value, &mut data);
        data.extend_from_slice(&record.value);
        let tombstone = record.tombstone;
        slots.push(Slot { key: key.into(), incarnation, write_number, offset, value_len, tombstone });
    }
    let layout = RecordLayout::Checksummed;
    (data.clone(), Table { bucket: BucketId(id), layout, age, data_len: data.len() as u64, slots })
}

/// Writes a bucket of ours.
///
/// # Errors
/// As the system says.
///
/// # Panics
/// If the records make no table.
pub fn put_bucket(vfs: &dyn Vfs, id: u64, records: &[TestRecord]) -> io::Result<()> {
    let (data, table) = bucket(id, id, records);
    put(vfs, &BucketId(id).data_name(), &data)?;
    put(vfs, &BucketId(id).table_name(), &table.encode().expect("a table that may be"))
}

/// Writes a bucket as Mooncake does.
///
/// # Errors
/// As the system says.
pub fn put_mooncake_bucket(vfs: &dyn Vfs, id: u64, records: &[(&[u8], &[u8])]) -> io::Result<()> {
    let data: Vec<u8> = records.iter().flat_map(|(key, value)| [*key, *value].concat()).collect();
    put(vfs, &BucketId(id).data_name(), &data)?;
    put(vfs, &BucketId(id).table_name(), &mooncake::encode_table(records))
}

/// Writes the marker of segment `ssd-1` in cluster `c1`, and a high-water mark above 64 buckets and 65,536 writes.
///
/// # Errors
/// As the system says.
///
/// # Panics
/// Never: the ids may be.
pub fn put_identity(vfs: &dyn Vfs) -> io::Result<()> {
    put(vfs, MARKER, &identity().encode())?;
    let high_water = HighWater { next_bucket: 65, next_write_number: 65_537 };
    put(vfs, ID_HIGH_WATER, &high_water.encode().expect("a mark that may be"))
}

/// Segment `ssd-1` in cluster `c1`.
///
/// # Panics
/// Never: the ids may be.
#[must_use]
pub fn identity() -> Marker {
    Marker {
        segment: SegmentId::new("ssd-1").expect("a segment id"),
        cluster: ClusterId::new("c1").expect("a cluster id"),
    }
}

/// Writes the intent file.
///
/// # Errors
/// As the system says.
///
/// # Panics
/// If the rounds may not be.
pub fn put_intents(vfs: &dyn Vfs, rounds: &[Round]) -> io::Result<()> {
    let intents = Intents { rounds: rounds.to_vec() };
    put(vfs, GC_INTENT, &intents.encode().expect("rounds that may be"))
}
