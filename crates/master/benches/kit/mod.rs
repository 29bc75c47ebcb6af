//! What the benchmarks share: a log that a real master wrote, and how results are printed.
#![allow(dead_code, unreachable_pub, reason = "each benchmark uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{MemoryKv, RangeLimit};
use ha_types::{AlwaysLeads, BatchId, MonoTime, ObjectKey, SegmentId, SystemClock, SystemEntropy, TenantId};
use master::{ClientId, Master, MasterConfig, MasterState, MountSegment, Policy, Promise, PutStart, ServeEnv};
use oplog_core::{
    BatchStorage, CaughtUp, DurablePrefix, LogKeys, OpenOptions, Replica, WriterConfig, catch_up, claim_and_verify,
};

/// Bytes of one object: a page of a KV cache.
pub const OBJECT_BYTES: u64 = 16 << 10;
/// How many segments the objects are spread over.
pub const SEGMENTS: u64 = 8;

/// `--quick` and `--json`; anything else of cargo's is ignored.
pub struct Args {
    pub quick: bool,
    pub json: bool,
}

impl Args {
    pub fn read() -> Self {
        let has = |flag: &str| std::env::args().any(|arg| arg == flag);
        Self { quick: has("--quick"), json: has("--json") }
    }
}

/// A log in memory.
pub struct Log {
    kv: Arc<MemoryKv>,
    keys: LogKeys,
    clock: Arc<SystemClock>,
}

impl Log {
    /// A log in which `objects` were put through a real master: one memory replica each, 32-byte keys.
    pub async fn of_puts(objects: usize) -> Self {
        let keys = LogKeys::new("/oplog", &"bench".parse().expect("a cluster id")).expect("a root");
        let log = Self { kv: Arc::new(MemoryKv::new()), keys, clock: Arc::new(SystemClock::new()) };
        let master = log.serve(log.claim(Replica::empty(MasterState::new())).await);
        // The quarantine of this bench is that of the shortest times.
        let policy = Policy { put_grant_ms: 60_000, default_lease_ms: 10, longest_lease_ms: 10 };
        master.set_policy(policy).await.expect("a policy");
        for i in 0..SEGMENTS {
            master.mount_segment(segment(&format!("segment-{i:08}"), i << 44)).await.expect("a segment");
        }
        for i in 0..objects {
            let request = put(object_key(i));
            let grant = master.put_start(&request).expect("space");
            let end = master.put_end(&request.tenant, &request.key, grant.incarnation, CLIENT, Promise::Accepted);
            end.await.expect("a put end");
        }
        let deadline = MonoTime::from_origin(Duration::from_secs(3600));
        master.drain(deadline).await.expect("a durable log");
        master.stop().await;
        log
    }

    fn reading(&self) -> BatchStorage {
        BatchStorage::open_for_reading(self.kv.clone(), self.keys.clone())
    }

    pub async fn prefix(&self) -> DurablePrefix {
        self.reading().require_prefix().await.expect("a prefix")
    }

    /// All records, in memory.
    pub async fn records(&self) -> Vec<(BatchId, Bytes)> {
        let (storage, prefix) = (self.reading(), self.prefix().await);
        let mut records = Vec::new();
        loop {
            let after = records.last().map_or(BatchId::ZERO, |(id, _)| *id);
            let limit = RangeLimit { pairs: usize::MAX, bytes: 1 << 20 };
            let page = storage.read_batches(after, prefix.batch_id, limit).await.expect("records");
            records.extend(page.records);
            if !page.more {
                return records;
            }
        }
    }

    /// A standby that has caught up.
    pub async fn follow(&self) -> Replica<MasterState> {
        let mut replica = Replica::empty(MasterState::new());
        catch_up(&self.reading(), &mut replica, &self.prefix().await, 1 << 20).await.expect("a log");
        replica
    }

    pub async fn claim(&self, replica: Replica<MasterState>) -> CaughtUp<MasterState> {
        let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
        let storage = BatchStorage::open(self.kv.clone(), self.keys.clone(), options).await.expect("a log");
        storage.create_first_prefix().await.expect("a first prefix");
        let pause = Duration::from_millis(1);
        claim_and_verify(storage, replica, &AlwaysLeads, &*self.clock, &SystemEntropy, pause).await.expect("a claim")
    }

    pub fn serve(&self, caught_up: CaughtUp<MasterState>) -> Master {
        let env = ServeEnv {
            config: MasterConfig { max_running_puts: 1 << 24, ..MasterConfig::default() },
            writer: WriterConfig::default(),
            clock: self.clock.clone(),
            entropy: Arc::new(SystemEntropy),
            guard: Arc::new(AlwaysLeads),
            ttl: Duration::from_secs(5),
        };
        Master::serve(caught_up, env).unwrap_or_else(|e| panic!("{e}"))
    }
}

pub const CLIENT: ClientId = ClientId::new(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

/// 32 bytes, as of a hash in hex.
pub fn object_key(i: usize) -> ObjectKey {
    let scattered = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ObjectKey::new(format!("{scattered:016x}{i:016x}").as_bytes()).expect("a key")
}

pub fn put(key: ObjectKey) -> PutStart {
    PutStart { tenant: TenantId::default_tenant(), key, size: OBJECT_BYTES, replicas: 1, client: CLIENT }
}

pub fn segment(id: &str, base: u64) -> MountSegment {
    let segment = SegmentId::new(id).expect("a segment id");
    MountSegment { segment, endpoint: "10.0.0.1:12345".into(), base, size: 1 << 40 }
}

/// The middle of some measurements.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One result: a line of JSON, or of words.
pub fn report(args: &Args, suite: &str, figures: &BTreeMap<&str, f64>) {
    let figures = figures.iter().map(|(name, value)| (name, format!("{value:.1}")));
    if args.json {
        let fields: String = figures.map(|(name, value)| format!(",\"{name}\":{value}")).collect();
        println!("{{\"suite\":\"{suite}\"{fields}}}");
    } else {
        let fields: Vec<String> = figures.map(|(name, value)| format!("{name} {value}")).collect();
        println!("{suite}: {}", fields.join(", "));
    }
}
