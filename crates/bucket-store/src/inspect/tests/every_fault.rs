//! Whatever is wrong with whichever file: what is foretold of an open is what the open does.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::format::graves::{Graves, Rank};
use crate::format::names::{GRAVES, RESERVE};
use crate::observer::{Event, Observer};
use crate::sync::Mutex;
use crate::vfs::{Access, DiskDir};
use crate::{Store, StoreError};

/// What is wrong with a file. The disk's answers are by number: a broken medium, a broken structure, and two that are no broken disk.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Missing,
    Empty,
    Half,
    Zeros,
    /// A bit of this byte, from the end where it is negative.
    Flipped(isize),
    Answers(OpKind, i32),
}

const EUCLEAN: i32 = 117;
const EACCES: i32 = 13;
const ENXIO: i32 = 6;

const WRONG: &[Wrong] = &[
    Wrong::Missing,
    Wrong::Empty,
    Wrong::Half,
    Wrong::Zeros,
    Wrong::Flipped(0),
    Wrong::Flipped(4),
    Wrong::Flipped(20),
    Wrong::Flipped(-1),
    Wrong::Answers(OpKind::Open, EIO),
    Wrong::Answers(OpKind::Open, EUCLEAN),
    Wrong::Answers(OpKind::Open, EACCES),
    Wrong::Answers(OpKind::Open, ENXIO),
    Wrong::Answers(OpKind::Open, crate::vfs::sim::EMFILE),
    Wrong::Answers(OpKind::Len, EIO),
    Wrong::Answers(OpKind::AllocatedBytes, EIO),
    Wrong::Answers(OpKind::Read, EIO),
    Wrong::Answers(OpKind::Read, EUCLEAN),
];

const FILES: &[&str] = &[
    MARKER,
    ID_HIGH_WATER,
    GC_INTENT,
    GRAVES,
    RESERVE,
    "1.meta",
    "1.bucket",
    "2.meta",
    "2.bucket",
    "9.meta",
    "9.bucket",
    ".2.meta.5.tmp",
];

impl Wrong {
    fn happens_to(self, place: &Place, name: &str) {
        match self {
            Self::Missing => place.dir.unlink(name).unwrap(),
            Self::Empty => place.change(name, Vec::clear),
            Self::Half => place.change(name, |bytes| bytes.truncate(bytes.len() / 2)),
            Self::Zeros => place.change(name, |bytes| bytes.fill(0)),
            Self::Flipped(at) => place.change(name, |bytes| {
                let at = if at < 0 { bytes.len().checked_add_signed(at) } else { Some(at as usize) };
                if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
                    *byte ^= 1;
                }
            }),
            Self::Answers(kind, errno) => {
                let name = name.to_owned();
                place.disk.inject(usize::MAX, SimFault::Errno(errno), move |op| op.kind == kind && *op.name == *name);
            }
        }
    }
}

/// Two buckets whose live records GC has copied into a third, with these rounds under way. One of them could not be read before, and
/// something in it was replaced meanwhile.
fn place(rounds: Option<&[Round]>) -> Place {
    let place = Place::new();
    place.put(1, &[TestRecord::live(b"t\0a", 1, 100), TestRecord::dead(b"t\0b", 2, 200)]);
    place.put(2, &[TestRecord::live(b"t\0a", 3, 300), TestRecord::live(b"t\0c", 4, 7000)]);
    place.put(9, &[TestRecord::live(b"t\0a", 3, 300), TestRecord::live(b"t\0c", 4, 7000)]);
    put(&*place.dir, RESERVE, &[0; 4096]).unwrap();
    put(&*place.dir, ".2.meta.5.tmp", b"half").unwrap();
    let mut graves = Graves { away: ids(&[2]).into_iter().collect(), ..Graves::default() };
    graves.add(&Arc::from(*b"t\0c"), Rank { write_number: 5, bucket: BucketId(1) }, None);
    put(&*place.dir, GRAVES, &graves.encode().unwrap()).unwrap();
    if let Some(rounds) = rounds {
        place.intents(rounds);
    }
    place
}

#[derive(Debug, Default)]
struct Heard(Mutex<(usize, Vec<(BucketId, String)>)>);

impl Observer for Heard {
    fn event(&self, event: &Event) {
        let mut heard = self.0.lock();
        match event {
            Event::OrphansRemoved { files, .. } => heard.0 += files,
            Event::BucketQuarantined { bucket, reason } => heard.1.push((*bucket, reason.clone())),
            _ => {}
        }
    }
}

/// What an open comes to, and what is foretold of it.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    orphans: usize,
    quarantined: Vec<(BucketId, String)>,
    served: BTreeMap<Vec<u8>, ObjectIncarnation>,
    physical_bytes: u64,
}

fn opened(vfs: &Arc<dyn Vfs>, asked: &FsckOptions) -> Result<Outcome, StoreError> {
    let mut identity = crate::format::test_kit::identity();
    identity.segment = asked.segment.clone().unwrap_or(identity.segment);
    identity.cluster = asked.cluster.clone().unwrap_or(identity.cluster);
    let heard = Arc::new(Heard::default());
    let builder = Store::builder(identity, Arc::new(ManualClock::new())).config(config());
    let store = builder.observer(Arc::clone(&heard) as _).open(Arc::clone(vfs))?;
    let page = store.list(None, 1000).unwrap();
    let served = page.objects.iter().map(|object| (object.key.to_vec(), object.incarnation)).collect();
    let (orphans, quarantined) = std::mem::take(&mut *heard.0.lock());
    let physical_bytes = store.figures().physical_bytes;
    assert_eq!(store.quarantined().len(), quarantined.len());
    Ok(Outcome { orphans, quarantined, served, physical_bytes })
}

fn config() -> Config {
    Config { capacity_bytes: 1 << 20, bucket_size_bytes: 1 << 20, ..Config::default() }
}

/// Compares, and gives the kinds of faults that were found.
fn foretold_is_done(
    what: &str,
    vfs: &Arc<dyn Vfs>,
    disk: Option<&SimDisk>,
    asked: &FsckOptions,
) -> BTreeSet<FaultKind> {
    let before = disk.map(SimDisk::image);
    let seen = look(&**vfs).unwrap();
    let report = fsck(&**vfs, &seen, asked, &mut |_| {});
    let contents = seen.contents();
    let told = explain(&seen, &contents, &config(), false).unwrap();
    let faults = report.faults.listed();
    let refuses = faults.iter().any(Fault::refuses);
    if asked.segment.is_none() && asked.cluster.is_none() {
        let named: Vec<_> = faults.iter().filter(|fault| fault.refuses()).cloned().collect();
        assert_eq!(told.refused, named, "{what}: fsck and explain");
    }
    match opened(vfs, asked) {
        Err(error) => {
            assert!(refuses || told.needs_adoption, "{what}: not foretold: {error}; {faults:?}");
            assert_eq!(disk.map(SimDisk::image), before, "{what}: what is refused is left as it is: {error}");
        }
        Ok(done) => {
            assert!(!refuses && !told.needs_adoption, "{what}: it opens; {faults:?}");
            let live = contents.buckets.iter().flat_map(|b| &b.records).filter(|r| r.state == RecordState::Live);
            let foretold = Outcome {
                orphans: told.orphans.len(),
                quarantined: told.quarantined,
                served: live.map(|record| (record.key.to_vec(), record.incarnation)).collect(),
                physical_bytes: told.room.physical_bytes,
            };
            assert_eq!(done, foretold, "{what}");
            for id in done.quarantined.iter().map(|(id, _)| id) {
                for name in [id.data_name(), id.table_name()] {
                    let was = before.as_ref().and_then(|image| image.bytes(&name));
                    assert_eq!(disk.and_then(|disk| disk.image().bytes(&name)), was, "{what}: {name} is left alone");
                }
            }
        }
    }
    faults.iter().map(|fault| fault.kind).collect()
}

fn in_place(what: &str, place: &Place) -> BTreeSet<FaultKind> {
    let vfs: Arc<dyn Vfs> = Arc::clone(&place.dir) as _;
    foretold_is_done(what, &vfs, Some(&place.disk), &FsckOptions::default())
}

#[test]
fn of_every_fault_what_is_foretold_is_what_an_open_does() {
    let rounds: [(&str, Option<Vec<Round>>); 5] = [
        ("no rounds", None),
        ("an empty list of rounds", Some(vec![])),
        ("prepared", Some(vec![Round::Prepared { sources: ids(&[1, 2]), target: BucketId(9) }])),
        ("committed", Some(vec![Round::Committed { sources: ids(&[1, 2]), target: Some(BucketId(9)) }])),
        ("sources only", Some(vec![Round::Committed { sources: ids(&[1]), target: None }])),
    ];
    let mut met = BTreeSet::new();
    for (under_way, rounds) in &rounds {
        met.extend(in_place(under_way, &place(rounds.as_deref())));
        for name in FILES.iter().filter(|name| rounds.is_some() || **name != GC_INTENT) {
            for wrong in WRONG {
                let place = place(rounds.as_deref());
                wrong.happens_to(&place, name);
                met.extend(in_place(&format!("{under_way}: {name}: {wrong:?}"), &place));
            }
        }
    }
    met.extend(the_others());
    let never: Vec<_> = FaultKind::ALL.iter().filter(|kind| !met.contains(kind)).collect();
    assert!(never.is_empty(), "never met: {never:?}");
}

#[test]
fn of_every_fault_what_is_foretold_is_what_an_adoption_does() {
    let rounds: [(&str, Option<Vec<Round>>); 3] = [
        ("no rounds", None),
        ("prepared", Some(vec![Round::Prepared { sources: ids(&[1, 2]), target: BucketId(9) }])),
        ("committed", Some(vec![Round::Committed { sources: ids(&[1, 2]), target: Some(BucketId(9)) }])),
    ];
    let (mut adopted, mut refused) = (0, 0);
    for (under_way, rounds) in &rounds {
        for name in FILES.iter().filter(|name| **name != MARKER && (rounds.is_some() || **name != GC_INTENT)) {
            for wrong in WRONG {
                let place = place(rounds.as_deref());
                place.dir.unlink(MARKER).unwrap();
                wrong.happens_to(&place, name);
                let what = format!("{under_way}: {name}: {wrong:?}");
                let (before, seen) = (place.image(), place.look());
                let contents = seen.contents();
                let told = adopting(&seen, &contents);
                let explained = explain(&seen, &contents, &config(), false).unwrap();
                assert!(explained.needs_adoption && explained.adoption_refused == told.refused, "{what}");
                let builder = Store::builder(crate::format::test_kit::identity(), Arc::new(ManualClock::new()));
                let opened =
                    builder.config(config()).adoption(crate::Adoption::OneWay).open(Arc::clone(&place.dir) as _);
                match opened {
                    Ok(store) => {
                        assert_eq!(told.refused, [], "{what}: it is adopted");
                        assert_eq!(store.figures().live_objects, told.live.records, "{what}");
                        assert_eq!(store.quarantined().len(), 0, "{what}");
                        let gone = told.rounds.iter().flat_map(|round| round.gone()).count();
                        let data = |image: &Image| image.names().filter(|name| name.ends_with(".bucket")).count();
                        assert!(data(&before) - data(&place.image()) <= gone, "{what}: nothing else is removed");
                        adopted += 1;
                    }
                    Err(error) => {
                        assert_ne!(told.refused, [], "{what}: not foretold: {error}");
                        assert_eq!(place.image(), before, "{what}: what is refused is left as it is: {error}");
                        refused += 1;
                    }
                }
            }
        }
    }
    assert!(adopted > 50 && refused > 50, "{adopted} and {refused}");
}

/// What no single file shows.
fn the_others() -> BTreeSet<FaultKind> {
    let mut met = BTreeSet::new();
    type Spoil<'a> = (&'a str, &'a dyn Fn(&Place));
    let spoil: [Spoil<'_>; 8] = [
        ("a bucket that was never given out", &|p| {
            p.intents(&[Round::Committed { sources: ids(&[700]), target: None }]);
        }),
        ("a mark that is too low", &|p| {
            let low = HighWater { next_bucket: 2, next_write_number: 2 };
            put(&*p.dir, ID_HIGH_WATER, &low.encode().unwrap()).unwrap();
        }),
        ("an object that is live twice", &|p| p.put(10, &[TestRecord::live(b"t\0c", 4, 7000)])),
        ("a strange name", &|p| put(&*p.dir, "notes.txt", b"x").unwrap()),
        ("a file that is called as the folder of a file system's tool", &|p| put(&*p.dir, "lost+found", b"x").unwrap()),
        ("no marker and nothing of ours", &|p| {
            let names: Vec<_> = p.image().names().map(str::to_owned).collect();
            names.iter().for_each(|name| p.dir.unlink(name).unwrap());
            put_mooncake_bucket(&*p.dir, 3, &[(b"t\0a", b"old")]).unwrap();
        }),
        ("data of nobody's", &|p| {
            p.dir.unlink(MARKER).unwrap();
            p.dir.unlink("9.meta").unwrap();
        }),
        ("nothing at all", &|p| {
            let names: Vec<_> = p.image().names().map(str::to_owned).collect();
            names.iter().for_each(|name| p.dir.unlink(name).unwrap());
        }),
    ];
    for (what, spoil) in spoil {
        let place = place(None);
        spoil(&place);
        met.extend(in_place(what, &place));
    }
    let asked = FsckOptions { segment: Some("ssd-2".parse().unwrap()), ..FsckOptions::default() };
    let place = place(None);
    let vfs: Arc<dyn Vfs> = Arc::clone(&place.dir) as _;
    met.extend(foretold_is_done("another's", &vfs, Some(&place.disk), &asked));
    // Only a real directory has anything but files.
    for name in ["5.bucket", "lost+found", "sub"] {
        for is_link in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let dir = DiskDir::open(folder.path(), Access::Store).unwrap();
            put_identity(&dir).unwrap();
            put_bucket(&dir, 2, &[TestRecord::live(b"t\0a", 3, 300)]).unwrap();
            let at = folder.path().join(name);
            if is_link { std::os::unix::fs::symlink("2.bucket", &at) } else { std::fs::create_dir(&at) }.unwrap();
            let vfs: Arc<dyn Vfs> = Arc::new(dir);
            met.extend(foretold_is_done(&format!("{name}, a link: {is_link}"), &vfs, None, &FsckOptions::default()));
            assert!(at.symlink_metadata().is_ok());
        }
    }
    met
}

#[test]
fn a_data_file_that_cannot_be_measured_counts_with_what_its_table_says_and_never_with_more_than_is_in_use() {
    let place = place(None);
    Wrong::Answers(OpKind::Open, EIO).happens_to(&place, "2.bucket");
    let measured = |id: u64| place.disk.image().bytes(&BucketId(id).data_name()).unwrap().len() as u64;
    let blocks = |bytes: u64| bytes.next_multiple_of(4096);
    let told = explain(&place.look(), &place.look().contents(), &config(), false).unwrap();
    assert_eq!(told.room.physical_bytes, blocks(measured(1)) + blocks(measured(2)) + blocks(measured(9)));
    // A table may claim anything.
    place.change("2.meta", |bytes| {
        let mut table = crate::format::table::Table::decode(bytes, BucketId(2), u64::MAX).unwrap();
        table.data_len = u64::MAX;
        *bytes = table.encode().unwrap();
    });
    let told = explain(&place.look(), &place.look().contents(), &config(), false).unwrap();
    assert_eq!(told.room.physical_bytes, blocks(measured(1)) + blocks(measured(9)) + place.disk.used_bytes());
    in_place("a table that claims everything", &place);
}
