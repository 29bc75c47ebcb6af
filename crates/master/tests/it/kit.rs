//! A cluster in one process: a store, nodes that claim its log one after the other, and a clock moved by hand.
#![allow(unreachable_pub, reason = "a module of a test binary")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::MemoryKv;
use ha_kv::faulty::{Fault, FaultyKv, OpKind};
use ha_types::{Clock, LeaderGuard, ManualClock, MonoTime, ObjectKey, SeededEntropy, SegmentId, TenantId};
use master::{
    ClientId, Contents, Master, MasterConfig, MasterError, MasterState, MountSegment, Promise, PutGrant, PutStart,
    ServeEnv,
};
use oplog_core::{BatchStorage, CaughtUp, LogKeys, OpenOptions, Replica, WriterConfig, catch_up, claim_and_verify};
use parking_lot::Mutex;

/// The leadership TTL of the cluster.
pub const TTL: Duration = Duration::from_secs(5);

/// Leadership that a test ends by hand: it answers *yes* so many times more.
pub struct Guard {
    left: AtomicU64,
    hook: Mutex<Option<(u64, Hook)>>,
}

/// What a test does in the middle of a call.
type Hook = Box<dyn FnOnce() + Send>;

impl Guard {
    fn new() -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(u64::MAX), hook: Mutex::default() })
    }

    /// Ends it.
    pub fn lose(&self) {
        self.lose_after(0);
    }

    /// Ends it after `asked` more questions.
    pub fn lose_after(&self, asked: u64) {
        self.left.store(asked, Ordering::SeqCst);
    }

    /// Runs `hook` inside the next question but `skipped`.
    pub fn when_asked(&self, skipped: u64, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock() = Some((skipped, Box::new(hook)));
    }

    fn run_hook(&self) {
        let mut slot = self.hook.lock();
        match slot.take() {
            Some((0, hook)) => {
                drop(slot);
                hook();
            }
            Some((skipped, hook)) => *slot = Some((skipped - 1, hook)),
            None => {}
        }
    }
}

impl LeaderGuard for Guard {
    fn serve_until(&self) -> Option<MonoTime> {
        self.holds().then(|| MonoTime::from_origin(Duration::MAX))
    }

    fn holds(&self) -> bool {
        let less = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(1) };
        self.run_hook();
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

/// A store and a clock that all nodes share.
pub struct Cluster {
    pub kv: Arc<MemoryKv>,
    pub clock: Arc<ManualClock>,
    pub entropy: Arc<SeededEntropy>,
    keys: LogKeys,
}

/// A promoted node.
pub struct Node {
    pub master: Master,
    pub kv: Arc<FaultyKv>,
    pub guard: Arc<Guard>,
    held_from: AtomicU64,
}

impl Cluster {
    pub fn new() -> Self {
        Self::seeded(1)
    }

    pub fn seeded(seed: u64) -> Self {
        Self {
            kv: Arc::new(MemoryKv::new()),
            clock: Arc::new(ManualClock::new()),
            entropy: Arc::new(SeededEntropy::new(seed)),
            keys: LogKeys::new("/oplog", &"test".parse().expect("a cluster id")).expect("a root"),
        }
    }

    pub fn now(&self) -> MonoTime {
        self.clock.now()
    }

    pub fn advance(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Claims the log for a new node, through a connection of its own.
    pub async fn claim(&self, kv: Arc<FaultyKv>, guard: &Guard) -> CaughtUp<MasterState> {
        let storage = BatchStorage::open(
            kv,
            self.keys.clone(),
            OpenOptions { accept_lost_writes: true, ..OpenOptions::default() },
        )
        .await
        .expect("a log");
        storage.create_first_prefix().await.expect("a first prefix");
        let replica = Replica::empty(MasterState::new());
        let pause = Duration::from_millis(1);
        claim_and_verify(storage, replica, guard, &*self.clock, &*self.entropy, pause).await.expect("a claim")
    }

    /// A new primary.
    pub async fn promote(&self) -> Node {
        self.promote_with(|_| ()).await
    }

    /// The same, with other settings.
    pub async fn promote_with(&self, change: impl FnOnce(&mut ServeEnv)) -> Node {
        let guard = Guard::new();
        let kv = FaultyKv::txn_only(self.kv.clone(), 1);
        let caught_up = self.claim(kv.clone(), &guard).await;
        let mut env = self.env(guard.clone());
        change(&mut env);
        let master = Master::serve(caught_up, env).unwrap_or_else(|e| panic!("{e}"));
        Node::of(master, kv, guard)
    }

    pub fn env(&self, guard: Arc<Guard>) -> ServeEnv {
        ServeEnv {
            config: MasterConfig::default(),
            writer: WriterConfig::default(),
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            guard,
            ttl: TTL,
        }
    }

    pub fn guard() -> Arc<Guard> {
        Guard::new()
    }

    /// What the log says: a fresh fold of all of it.
    pub async fn fold(&self) -> MasterState {
        let storage = BatchStorage::open_for_reading(self.kv.clone(), self.keys.clone());
        let prefix = storage.require_prefix().await.expect("a prefix");
        let mut replica = Replica::empty(MasterState::new());
        catch_up(&storage, &mut replica, &prefix, 1 << 20).await.expect("a log that can be replayed");
        replica.into_machine()
    }

    pub async fn fold_contents(&self) -> Contents {
        self.fold().await.contents()
    }
}

impl Node {
    /// A primary whose transactions go through `kv`.
    pub fn of(master: Master, kv: Arc<FaultyKv>, guard: Arc<Guard>) -> Self {
        Self { master, kv, guard, held_from: AtomicU64::new(0) }
    }

    pub async fn mount(&self, id: &str, base: u64, size: u64) {
        self.master.mount_segment(mount(id, base, size)).await.expect("a mount");
    }

    pub fn start(&self, key: &str, size: u64) -> Result<PutGrant, MasterError> {
        self.master.put_start(&put(key, size))
    }

    pub async fn end(&self, k: &str, grant: &PutGrant, promise: Promise) -> Result<(), MasterError> {
        self.master.put_end(&tenant(), &key(k), grant.incarnation, CLIENT, promise).await
    }

    pub async fn put(&self, k: &str, size: u64) -> PutGrant {
        let grant = self.start(k, size).unwrap_or_else(|e| panic!("{e}"));
        self.end(k, &grant, Promise::Durable).await.unwrap_or_else(|e| panic!("{e}"));
        grant
    }

    pub async fn remove(&self, k: &str, promise: Promise) -> Result<(), MasterError> {
        self.master.remove(&tenant(), &key(k), promise).await
    }

    pub fn get(&self, k: &str) -> Result<master::GetReply, MasterError> {
        self.master.get(&tenant(), &key(k), None)
    }

    /// Holds the next transaction of this node before it reaches the store.
    pub fn hold(&self) {
        self.kv.script(OpKind::Txn, Fault::HoldRequest);
        self.held_from.store(self.kv.calls(OpKind::Txn), Ordering::SeqCst);
    }

    /// Waits until that transaction is there.
    pub async fn held(&self) {
        self.kv.reached(OpKind::Txn, self.held_from.load(Ordering::SeqCst) + 1).await;
    }

    /// Lets it go.
    pub async fn release(&self) {
        self.held().await;
        self.kv.release();
    }

    /// Lets what was committed become durable and its callbacks run.
    pub async fn settle(&self) {
        for _ in 0..2000 {
            let metrics = self.master.writer().metrics();
            if metrics.waiting_entries == 0
                && metrics.durable == metrics.committed
                && self.master.stats().pending_removals == 0
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("what was committed did not become durable");
    }
}

pub const CLIENT: ClientId = ClientId::new(77);

pub fn tenant() -> TenantId {
    TenantId::default_tenant()
}

pub fn key(k: &str) -> ObjectKey {
    ObjectKey::new(k.as_bytes()).expect("a key")
}

pub fn segment(id: &str) -> SegmentId {
    SegmentId::new(id).expect("a segment id")
}

pub fn mount(id: &str, base: u64, size: u64) -> MountSegment {
    MountSegment { segment: segment(id), endpoint: "host:1".into(), base, size }
}

pub fn put(k: &str, size: u64) -> PutStart {
    PutStart { tenant: tenant(), key: key(k), size, replicas: 1, client: CLIENT }
}

/// The code of a refusal.
pub fn code<T: std::fmt::Debug>(result: Result<T, MasterError>) -> &'static str {
    result.expect_err("a refusal").code()
}

/// Every segment's bytes are free, kept, or in exactly one object or put (M2).
pub fn assert_space_adds_up(master: &Master, running: &[PutGrant]) {
    let contents = master.state().contents();
    let mut used = std::collections::BTreeMap::<SegmentId, Vec<(u64, u64)>>::new();
    for object in contents.objects.values() {
        for (segment, address) in &object.replicas {
            used.entry(segment.clone()).or_default().push((*address, *address + object.size));
        }
    }
    for range in running.iter().flat_map(|g| &g.replicas) {
        used.entry(range.segment.clone()).or_default().push((range.address, range.address + range.length));
    }
    for info in master.list_segments().expect("it serves") {
        let mut ranges = used.remove(&info.segment).unwrap_or_default();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{} hands {pair:x?} out twice", info.segment);
        }
        let bytes: u64 = ranges.iter().map(|(start, end)| end - start).sum();
        assert_eq!(
            info.used_bytes, bytes,
            "segment {}: free {} held {}",
            info.segment, info.free_bytes, info.held_bytes
        );
    }
    assert!(used.is_empty(), "ranges in segments that are not mounted: {used:?}");
}
