//! Uses the crate as a fork does, by its public names only: what does not compile here any more breaks forks.

use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use bucket_store::format::marker::Marker;
use bucket_store::format::names::BucketId;
use bucket_store::gc::plan::{Idle, Plan, Verdict};
use bucket_store::gc::{EvictedObject, Evictor, GcStep};
use bucket_store::inspect::{
    Adopting, Contents, Explanation, FsckOptions, FsckProgress, FsckReport, Look, MarkerLook, RecordState, Standing,
    adopting, explain, fsck, look, repair,
};
use bucket_store::vfs::{Access, DirEntry, DirError, DiskDir, EntryKind, Space, Vfs, VfsFile};
use bucket_store::{
    Adoption, ByteRange, Config, ConfigError, DeleteOutcome, DeleteRequest, DiskOp, Durability, Event, Figures,
    ListCursor, ListPage, NoObserver, ObjectInfo, Observer, ReadOnlyReason, ReadRequest, StorageKey, Store,
    StoreBuilder, StoreError, StoreErrorKind, Usage, WriteObject, WriteOutcome,
};
use ha_types::{Clock, ClusterId, ManualClock, ObjectIncarnation, ObjectKey, SegmentId, TenantId};

fn shared<T: Debug + Send + Sync + ?Sized + 'static>() {}

#[test]
fn what_is_handed_around_crosses_threads() {
    shared::<Store>();
    shared::<StoreBuilder>();
    shared::<StoreError>();
    shared::<Config>();
    shared::<ConfigError>();
    shared::<Event>();
    shared::<Figures>();
    shared::<Usage>();
    shared::<DeleteOutcome>();
    shared::<WriteOutcome>();
    shared::<ListCursor>();
    shared::<ListPage>();
    shared::<ObjectInfo>();
    shared::<ReadOnlyReason>();
    shared::<NoObserver>();
    shared::<dyn Observer>();
    shared::<dyn Evictor>();
    shared::<dyn Vfs>();
    shared::<dyn VfsFile>();
    shared::<DiskDir>();
    #[cfg(feature = "tokio")]
    shared::<bucket_store::AsyncStore>();
    fn error<E: Error>() {}
    error::<StoreError>();
    error::<ConfigError>();
}

/// A disk of a fork around ours. It names nothing but this crate and `std`.
#[derive(Debug)]
struct Wrapped(DiskDir);

impl Vfs for Wrapped {
    fn create(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.0.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn VfsFile>> {
        self.0.open(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn unlink(&self, name: &str) -> io::Result<()> {
        self.0.unlink(name)
    }
    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.0.list().inspect(|all| assert!(all.iter().all(|entry| entry.kind == EntryKind::File)))
    }
    fn sync_dir(&self) -> io::Result<()> {
        self.0.sync_dir()
    }
    fn space(&self) -> io::Result<Space> {
        self.0.space()
    }
}

#[derive(Debug)]
struct Nobody;

impl Observer for Nobody {
    fn event(&self, event: &Event) {
        if let Event::Opened { buckets, objects } = event {
            assert_eq!((*buckets, *objects), (0, 0));
        }
    }
}

impl Evictor for Nobody {
    fn evict(&self, _: BucketId, _: &[EvictedObject]) -> Result<(), String> {
        Err("never".into())
    }
}

#[test]
fn a_fork_embeds_it_with_a_disk_an_observer_and_an_evictor_of_its_own() {
    let path = tempfile::tempdir().unwrap();
    let identity = Marker { segment: SegmentId::new("s").unwrap(), cluster: ClusterId::new("c").unwrap() };
    let config = Config { durability: Durability::Relaxed, ..Config::default() };
    let builder = Store::builder(identity.clone(), Arc::new(ManualClock::new()))
        .config(config.clone())
        .adoption(Adoption::Refuse)
        .observer(Arc::new(Nobody))
        .evictor(Arc::new(Nobody));
    let store = builder.open(Arc::new(Wrapped(DiskDir::open(path.path(), Access::Store).unwrap()))).unwrap();
    assert_eq!((store.identity(), store.config()), (&identity, &config));

    let key = StorageKey::new(&TenantId::new("t").unwrap(), &ObjectKey::new(b"k").unwrap());
    let key = key.as_bytes();
    let incarnation = ObjectIncarnation::without_log(7, 1).unwrap();
    let object = WriteObject { key, incarnation, value: b"value", placement: Some(1) };
    assert_eq!(store.write(&[object]).unwrap(), [WriteOutcome::Stored]);
    assert_eq!(store.publish_pending().unwrap(), 1);

    let part = ReadRequest { key, incarnation: Some(incarnation), range: Some(ByteRange { offset: 1, len: 3 }) };
    assert_eq!(store.read(&part).unwrap(), b"alu");
    let mut buf = [0; 8];
    assert_eq!(store.read_into(&ReadRequest::whole(key), &mut buf).unwrap(), 5);
    assert_eq!(store.read_batch(&[part]).unwrap().remove(0).unwrap(), b"alu");
    let ListPage { objects, next } = store.list(None, 10).unwrap();
    assert_eq!((objects.len(), next), (1, None));
    assert_eq!(store.find(key).as_ref(), objects.first());

    let outcomes = store.delete(&[DeleteRequest { key, incarnation }]).unwrap();
    assert!(matches!(outcomes[..], [DeleteOutcome::Removed]) && outcomes[0].is_terminal());
    let step: GcStep = store.gc_step();
    assert_eq!(step, GcStep::Again);
    assert!(store.read_only().is_none() && store.quarantined().len() == 0);
    let error: StoreError = store.read(&ReadRequest::whole(key)).unwrap_err();
    assert_eq!(error.to_string(), format!("{}; {}", error.what(), error.remedy()));
    assert_eq!(error.place(), "key \"t\\x00k\"");
    let error_of_a_setting: ConfigError = Config { bucket_keys: 0, ..Config::default() }.validate().unwrap_err();
    assert_eq!((error_of_a_setting.field(), error_of_a_setting.remedy()), ("bucket_keys", "give 1 to 12000"));
    let missing: DirError = DiskDir::open(&path.path().join("missing"), Access::Store).unwrap_err();
    assert_eq!((missing.code(), missing.path()), ("DIR_MISSING", &*path.path().join("missing")));
    assert!(missing.to_string().ends_with(missing.remedy()), "{}", missing.what());
    assert_eq!((error.kind(), error.code(), error.is_retryable()), (StoreErrorKind::NotFound, "NOT_FOUND", false));
    assert_eq!(DiskOp::SyncDir.to_string(), "sync of the directory");
}

#[test]
fn a_fork_looks_at_a_directory_that_no_store_has_open_and_repairs_it() {
    let path = tempfile::tempdir().unwrap();
    let identity = Marker { segment: SegmentId::new("s").unwrap(), cluster: ClusterId::new("c").unwrap() };
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new());
    let disk = |access| Arc::new(Wrapped(DiskDir::open(path.path(), access).unwrap()));
    let store = Store::builder(identity.clone(), Arc::clone(&clock)).open(disk(Access::Store)).unwrap();
    let (key, incarnation) = (b"t\0k", ObjectIncarnation::without_log(7, 1).unwrap());
    store.write(&[WriteObject { key, incarnation, value: b"value", placement: None }]).unwrap();
    drop(store);

    let dir = disk(Access::Inspect);
    let seen: Look = look(&*dir).unwrap();
    assert!(matches!(&seen.marker, MarkerLook::Ours(marker) if *marker == identity));
    let contents: Contents = seen.contents();
    let [bucket] = &contents.buckets[..] else { panic!("{contents:?}") };
    assert_eq!((&bucket.standing, bucket.records[0].state), (&Standing::Served, RecordState::Live));
    let mut last = FsckProgress::default();
    let report: FsckReport = fsck(&*dir, &seen, &FsckOptions::default(), &mut |progress| last = progress);
    assert!(report.is_sound() && report.verified_records == 1, "{report:?}");
    assert_eq!(last.bytes, last.expected_bytes);
    let told: Explanation = explain(&seen, &contents, &Config::default(), false).unwrap();
    assert!(told.refused.is_empty() && told.buckets[0].verdict == Verdict::AllLive);
    let Adopting { refused, live, superseded, .. } = adopting(&seen, &contents);
    assert!(refused.is_empty() && (live.records, superseded.records) == (1, 0));
    assert_eq!(told.plan, Plan::Nothing(Idle::EnoughRoom));
    drop(dir);
    assert!(repair(disk(Access::Store), clock).unwrap().is_nothing());
}
