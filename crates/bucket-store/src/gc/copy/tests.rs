//! The copy: what it writes, through how small a buffer, and what it refuses to carry on.

use std::collections::BTreeMap;
use std::sync::Arc;

use ha_types::ObjectIncarnation;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::error::StoreErrorKind;
use crate::vfs::Vfs as _;
use crate::vfs::sim::{EIO, ENOSPC, Fault as DiskFault, OpKind, SimDir, SimDisk, on};

const TARGET: BucketId = BucketId(99);

/// A disk with source buckets, and the items that are their records.
struct Sources {
    disk: SimDisk,
    dir: SimDir,
    files: BTreeMap<BucketId, Arc<dyn VfsFile>>,
    items: Vec<CopyItem>,
    /// What the target must hold.
    expected: Vec<u8>,
}

/// Records by (bucket, length of the value, whether it is copied); odd buckets are Mooncake's.
fn sources(records: &[(u64, usize, bool)]) -> Sources {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let (mut items, mut expected) = (Vec::new(), Vec::new());
    let mut contents: BTreeMap<BucketId, Vec<u8>> = BTreeMap::new();
    for (n, (bucket, len, copied)) in records.iter().enumerate() {
        let source = BucketId(*bucket);
        let layout = if bucket % 2 == 1 { RecordLayout::MooncakeRaw } else { RecordLayout::Checksummed };
        let value: Vec<u8> = (0..*len).map(|i| (i * 31 + n * 7) as u8).collect();
        let content = contents.entry(source).or_default();
        let from = Slot {
            key: format!("t\0key-{n}").into_bytes().into(),
            incarnation: ObjectIncarnation::from_bytes([n as u8; 16]),
            write_number: n as u64,
            offset: content.len() as u64,
            value_len: u32::try_from(*len).unwrap(),
            tombstone: None,
        };
        let record = |out: &mut Vec<u8>| {
            RecordHeader::of(&from).encode_into(&value, out);
            out.extend_from_slice(&value);
        };
        match layout {
            RecordLayout::Checksummed => record(content),
            RecordLayout::MooncakeRaw => content.extend(from.key.iter().chain(&value)),
        }
        if *copied {
            record(&mut expected);
            items.push(CopyItem { source, layout, from });
        }
    }
    let file = |(id, bytes): (BucketId, Vec<u8>)| {
        let file = dir.create(&id.data_name()).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        (id, file)
    };
    let files = contents.into_iter().map(file).collect();
    Sources { disk, dir, files, items, expected }
}

impl Sources {
    fn target(&self) -> Arc<dyn VfsFile> {
        self.dir.create(&TARGET.data_name()).unwrap()
    }

    fn run(&self, copier: &mut Copier, target: &dyn VfsFile) -> Result<Vec<u64>, CopyError> {
        let mut steps = Vec::new();
        while !copier.is_finished() {
            steps.push(copier.step(|id| self.files.get(&id).map(|file| &**file), target)?);
        }
        Ok(steps)
    }
}

fn bytes_of(file: &dyn VfsFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    read_exact(file, &mut bytes, 0).unwrap();
    bytes
}

fn copies(records: &[(u64, usize, bool)], buffer_bytes: usize) -> Vec<u64> {
    let sources = sources(records);
    let target = sources.target();
    let mut copier = Copier::new(sources.items.clone(), TARGET, buffer_bytes);
    let steps = sources.run(&mut copier, &*target).unwrap();
    let written = bytes_of(&*target);
    assert!(written == sources.expected, "{} bytes instead of {}", written.len(), sources.expected.len());
    assert_eq!(Copier::target_bytes(&sources.items), written.len() as u64);
    for (slot, item) in copier.target_slots().iter().zip(&sources.items) {
        let (header, sums) = RecordHeader::decode(&written[slot.offset as usize..]).unwrap();
        assert_eq!(header, RecordHeader::of(&item.from));
        let value = &written[slot.value_offset(RecordLayout::Checksummed) as usize..][..slot.value_len as usize];
        sums.verify(ChunkRange::whole(slot.value_len).unwrap(), value).unwrap();
    }
    steps
}

#[test]
fn b5_the_buffer_is_the_same_however_much_is_copied() {
    let records: Vec<_> = (0..200).map(|n| (n % 4, 60_000 + n as usize * 100, true)).collect();
    let steps = copies(&records, 256 << 10);
    assert!(steps.len() >= 50 && steps.iter().all(|bytes| *bytes <= 256 << 10), "{steps:?}");
    let sources = sources(&[(2, 5_000_000, true), (1, 5_000_000, true)]);
    let mut copier = Copier::new(sources.items.clone(), TARGET, 1);
    let before = copier.buffer.len();
    sources.run(&mut copier, &*sources.target()).unwrap();
    assert_eq!(copier.buffer.len(), before);
    assert!(before < 66_000, "a buffer of {before} bytes");
}

/// A file that notes what it is asked, and what it is told that it will be asked.
#[derive(Debug)]
struct Noted<'a> {
    file: &'a dyn VfsFile,
    bucket: BucketId,
    notes: &'a Mutex<Notes>,
}

/// (bucket, offset, length) of each.
#[derive(Debug, Default)]
struct Notes {
    read: Vec<(BucketId, u64, u64)>,
    announced: Vec<(BucketId, u64, u64)>,
}

impl VfsFile for Noted<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.notes.lock().read.push((self.bucket, offset, buf.len() as u64));
        self.file.read_at(buf, offset)
    }

    fn will_read(&self, offset: u64, len: u64) {
        self.notes.lock().announced.push((self.bucket, offset, len));
    }

    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocated_bytes(&self) -> io::Result<u64> {
        self.file.allocated_bytes()
    }
}

#[test]
fn what_the_next_buffer_takes_is_announced_before_this_one_is_written_and_nothing_else_is() {
    let records: Vec<_> = (0..40).map(|n| (n % 4, 60_000 + n as usize * 9_000, n % 3 != 0)).collect();
    let sources = sources(&records);
    let target = sources.target();
    let notes = Mutex::new(Notes::default());
    let files: BTreeMap<_, _> =
        sources.files.iter().map(|(id, file)| (*id, Noted { file: &**file, bucket: *id, notes: &notes })).collect();
    let buffer_bytes = 256 << 10;
    let mut copier = Copier::new(sources.items.clone(), TARGET, buffer_bytes);
    let mut announced: Option<Vec<_>> = None;
    let covers = |announced: &[(BucketId, u64, u64)], (bucket, offset, len): (BucketId, u64, u64)| {
        let within =
            |(b, begin, long): &(BucketId, u64, u64)| *b == bucket && *begin <= offset && offset + len <= begin + long;
        announced.iter().any(within)
    };
    while !copier.is_finished() {
        copier.step(|id| files.get(&id).map(|file| file as &dyn VfsFile), &*target).unwrap();
        let now = std::mem::take(&mut *notes.lock());
        if let Some(announced) = announced {
            assert!(now.read.iter().all(|read| covers(&announced, *read)), "{announced:?} {:?}", now.read);
        }
        assert!(now.announced.iter().map(|(.., len)| len).sum::<u64>() <= buffer_bytes as u64);
        announced = Some(now.announced);
    }
    assert_eq!(announced, Some(Vec::new()), "after the last record there is nothing to announce");
}

#[test]
fn dead_records_between_live_ones_are_left_out() {
    copies(
        &[(2, 100, true), (2, 70_000, false), (2, 1, true), (1, 9, false), (1, 65_536, true), (1, 65_537, true)],
        1 << 20,
    );
    copies(&[(2, 100, false)], 1 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_mix_of_sources_and_buffers_makes_the_same_target(
        records in proptest::collection::vec((0_u64..6, prop_oneof![1_usize..300, 65_530_usize..65_540, 100_000_usize..400_000], any::<bool>()), 1..12),
        buffer_bytes in prop_oneof![1_usize..200_000, Just(1 << 20)],
    ) {
        copies(&records, buffer_bytes);
    }
}

#[test]
fn b11_a_damaged_record_stops_the_copy_and_is_named() {
    // A header, a key, a value's first and last byte; of a raw record only the key can be verified.
    for (bucket, offset) in [(2, 45), (2, 8), (2, 200), (2, 70_000), (1, 3)] {
        let sources = sources(&[(4, 100, true), (bucket, 70_000, true), (4, 100, true)]);
        let id = BucketId(bucket);
        sources.disk.flip_bit(&id.data_name(), offset, 3).unwrap();
        let mut copier = Copier::new(sources.items.clone(), TARGET, 1 << 20);
        match sources.run(&mut copier, &*sources.target()) {
            Err(CopyError::Source { bucket, item: 1, error }) => {
                assert_eq!((bucket, error.kind()), (id, StoreErrorKind::Damaged), "{offset}");
                assert!(error.to_string().contains(&id.data_name()), "{error}");
            }
            other => panic!("byte {offset}: {other:?}"),
        }
    }
}

#[test]
fn b11_the_whole_record_of_another_key_is_not_carried_on() {
    let sources = sources(&[(2, 100, true), (2, 100, true)]);
    let len = record_len(&sources.items[0].from) as usize;
    let file = &sources.files[&BucketId(2)];
    let bytes = bytes_of(&**file);
    file.write_all_at(&bytes[len..], 0).unwrap();
    let mut copier = Copier::new(sources.items.clone(), TARGET, 1 << 20);
    assert!(matches!(sources.run(&mut copier, &*sources.target()), Err(CopyError::Source { item: 0, .. })));
}

#[test]
fn a_source_that_cannot_be_read_is_named_and_is_not_called_damaged() {
    let sources = sources(&[(2, 70_000, true), (2, 70_000, true)]);
    sources.disk.make_unreadable("2.bucket", 100_000..100_001);
    let mut copier = Copier::new(sources.items.clone(), TARGET, 1);
    let eio = sources.run(&mut copier, &*sources.target()).unwrap_err();
    assert!(
        matches!(&eio, CopyError::Source { item: 1, error, .. } if error.kind() == StoreErrorKind::Disk),
        "{eio:?}"
    );
}

#[test]
fn a_full_disk_is_the_targets_fault() {
    let sources = sources(&[(2, 70_000, true)]);
    let target = sources.target();
    sources.disk.inject(1, DiskFault::Errno(ENOSPC), on(OpKind::Write, "99.bucket"));
    let mut copier = Copier::new(sources.items.clone(), TARGET, 1);
    match sources.run(&mut copier, &*target).unwrap_err() {
        CopyError::Target(error) => assert_eq!(error.kind(), StoreErrorKind::NoSpace),
        other => panic!("{other:?}"),
    }
    sources.disk.inject(1, DiskFault::Errno(EIO), on(OpKind::Write, "99.bucket"));
    let mut copier = Copier::new(sources.items.clone(), TARGET, 1);
    let failed = sources.run(&mut copier, &*target).unwrap_err();
    assert!(matches!(&failed, CopyError::Target(error) if error.kind() == StoreErrorKind::Disk), "{failed:?}");
}

#[test]
fn a_source_that_ends_too_early_is_damaged() {
    let mut sources = sources(&[(2, 70_000, true)]);
    sources.items[0].from.value_len += 1;
    let mut copier = Copier::new(sources.items.clone(), TARGET, 1);
    match sources.run(&mut copier, &*sources.target()).unwrap_err() {
        CopyError::Source { error, .. } => assert_eq!(error.kind(), StoreErrorKind::Damaged),
        other => panic!("{other:?}"),
    }
}
