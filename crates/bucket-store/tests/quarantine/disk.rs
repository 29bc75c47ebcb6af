//! Owns what lies on a disk, read by the format's description, and how a bucket of it goes away and comes back. It asks no store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bucket_store::format::intent::{Intents, Round};
use bucket_store::format::names::{BucketId, GC_INTENT, NameKind};
use bucket_store::format::record::RecordHeader;
use bucket_store::format::table::{RecordLayout, Slot, Table};
use bucket_store::vfs::sim::{EIO, Fault, Image, OpKind, SimDisk};
use ha_types::{Epoch, ObjectIncarnation, Owner};

/// How a bucket cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Away {
    OpenTable,
    ReadTable,
    OpenData,
    TableDamaged,
    DataMissing,
}

impl Away {
    pub(crate) const ALL: [Self; 5] =
        [Self::OpenTable, Self::ReadTable, Self::OpenData, Self::TableDamaged, Self::DataMissing];

    pub(crate) fn situation(self) -> &'static str {
        match self {
            Self::OpenTable => "unreadable open: the table cannot be opened",
            Self::ReadTable => "unreadable open: the table cannot be read",
            Self::OpenData => "unreadable open: the data file cannot be opened",
            Self::TableDamaged => "unreadable open: the table is damaged",
            Self::DataMissing => "unreadable open: the data file is missing",
        }
    }

    /// Lets the disk refuse the bucket, if that is what is wrong.
    pub(crate) fn inject(self, disk: &SimDisk, id: BucketId) {
        let opening = |name: String| {
            disk.inject(usize::MAX, Fault::Errno(EIO), move |op| op.kind == OpKind::Open && *op.name == *name);
        };
        match self {
            Self::OpenTable => opening(id.table_name()),
            Self::OpenData => opening(id.data_name()),
            Self::ReadTable => disk.make_unreadable(&id.table_name(), 0..1 << 30),
            Self::TableDamaged | Self::DataMissing => {}
        }
    }
}

/// Files that were spoilt or taken away, as they were.
#[derive(Debug, Default)]
pub(crate) struct Copies(BTreeMap<BucketId, (Away, Vec<u8>)>);

impl Copies {
    /// Puts everything back, unless the bucket has gone meanwhile.
    pub(crate) fn heal(&mut self, image: Image) -> Image {
        std::mem::take(&mut self.0).into_iter().fold(image, |image, (id, (away, bytes))| {
            if image.bytes(&id.table_name()).is_none() {
                return image;
            }
            match away {
                Away::DataMissing => image.with(&id.data_name(), &bytes),
                _ => image.with(&id.table_name(), &bytes),
            }
        })
    }

    /// Spoils a file or takes it away, if that is what is wrong.
    pub(crate) fn spoil(&mut self, image: Image, id: BucketId, away: Away, at: u32) -> Image {
        let name = match away {
            Away::TableDamaged => id.table_name(),
            Away::DataMissing => id.data_name(),
            Away::OpenTable | Away::ReadTable | Away::OpenData => return image,
        };
        let Some(bytes) = image.bytes(&name) else { return image };
        self.0.insert(id, (away, bytes.clone()));
        match away {
            Away::DataMissing => image.without(&name),
            // Mooncake's have no checksum: no shorter one passes.
            _ if !Table::is_ours(&bytes) => image.with(&name, &bytes[..bytes.len() - 1]),
            // Behind what names the version, which would be another story.
            _ => {
                let from = 8.min(bytes.len() - 1);
                image.with_bit_flipped(&name, from + at as usize % (bytes.len() - from), 3)
            }
        }
    }
}

/// A record that a table names.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: u8,
    pub(crate) incarnation: u32,
    pub(crate) write_number: u64,
    pub(crate) bucket: BucketId,
    pub(crate) tombstoned: bool,
    /// `None` if it does not verify.
    pub(crate) value: Option<Vec<u8>>,
    /// Where the value begins, if it has a checksum.
    pub(crate) value_at: Option<u64>,
    /// Its bucket cannot be read.
    pub(crate) away: bool,
}

/// Whatever all tables of an image name, the bucket's being away or not, but for what an unfinished round is about to take away.
pub(crate) fn records(image: &Image, away: impl Fn(BucketId) -> bool) -> Vec<Record> {
    let mut records = Vec::new();
    let leaving: BTreeSet<_> = rounds(image)
        .iter()
        .flat_map(|round| match round {
            Round::Prepared { target, .. } => vec![*target],
            Round::Committed { sources, .. } => sources.clone(),
        })
        .collect();
    for id in buckets(image).into_iter().filter(|id| !leaving.contains(id)) {
        let data = image.bytes(&id.data_name()).unwrap_or_else(|| panic!("{id} has no data"));
        let bytes = image.bytes(&id.table_name()).expect("it was listed");
        let table = Table::decode(&bytes, id, data.len() as u64).unwrap_or_else(|error| panic!("{id}: {error}"));
        records.extend(table.slots.iter().map(|slot| record(&table, slot, &data, away(id))));
    }
    records
}

fn record(table: &Table, slot: &Slot, data: &[u8], away: bool) -> Record {
    let value_at = slot.value_offset(table.layout);
    let value = &data[value_at as usize..][..slot.value_len as usize];
    let checksummed = table.layout == RecordLayout::Checksummed;
    let verifies = !checksummed
        || RecordHeader::decode(&data[slot.offset as usize..]).is_ok_and(|(header, sums)| {
            let mut check = sums.stream();
            (header.key, header.incarnation, header.write_number) == (&*slot.key, slot.incarnation, slot.write_number)
                && check.update(value).is_ok()
                && check.finish().is_ok()
        });
    Record {
        key: key_of(&slot.key),
        incarnation: number_of(slot.incarnation),
        write_number: slot.write_number,
        bucket: table.bucket,
        tombstoned: slot.tombstone.is_some(),
        value: verifies.then(|| value.to_vec()),
        value_at: checksummed.then_some(value_at),
        away,
    }
}

/// Those with a table.
pub(crate) fn buckets(image: &Image) -> Vec<BucketId> {
    let ids = image.names().filter_map(|name| match NameKind::of(name) {
        NameKind::Table(id) => Some(id),
        _ => None,
    });
    ids.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The buckets that unfinished rounds name.
pub(crate) fn in_rounds(image: &Image) -> BTreeSet<BucketId> {
    rounds(image).iter().flat_map(|round| round.sources().iter().copied().chain(round.target())).collect()
}

fn rounds(image: &Image) -> Vec<Round> {
    let bytes = image.bytes(GC_INTENT);
    bytes.map_or_else(Vec::new, |bytes| Intents::decode(&bytes).expect("intents that the store wrote").rounds)
}

/// The bytes of the blocks of all data files.
pub(crate) fn data_bytes(image: &Image) -> u64 {
    let data = image.names().filter(|name| name.ends_with(".bucket"));
    data.map(|name| (image.bytes(name).unwrap_or_default().len() as u64).next_multiple_of(4096)).sum()
}

pub(crate) fn storage_key(key: u8) -> Vec<u8> {
    format!("t\0{key}").into_bytes()
}

pub(crate) fn key_of(storage_key: &[u8]) -> u8 {
    String::from_utf8_lossy(&storage_key[2..]).parse().expect("a key of this test")
}

pub(crate) fn incarnation(number: u32) -> ObjectIncarnation {
    if number == 0 {
        return ObjectIncarnation::LEGACY;
    }
    ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(1), number.into()).expect("an incarnation")
}

pub(crate) fn number_of(incarnation: ObjectIncarnation) -> u32 {
    let bytes = incarnation.to_bytes();
    u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]])
}

/// Bytes that no other seed has.
pub(crate) fn value(seed: u64, len: usize) -> Arc<[u8]> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}
