//! Owns the store, the reference log made of every transaction that applied, and the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::faulty::{FaultyKv, Op, RuntimeClock, Stage};
use ha_kv::{Kv, LeaseId, LeaseKv, MemoryKv, Txn};
use ha_types::{Clock, ClusterId, LeaderGuard};
use oplog_core::record::BatchRef;
use oplog_core::{CaughtUp, DurablePrefix, LogKey, LogKeys, Outcome, Seq};
use parking_lot::Mutex;
use standby::Standby;

use crate::node::{Fold, Node};
use crate::situation::Situation;

/// The log as the transactions that applied made it, and what clients were told.
#[derive(Default)]
struct Oracle {
    prefix: Option<DurablePrefix>,
    /// The payload of each entry up to the prefix; entry 1 first.
    log: Vec<Vec<u8>>,
    told: BTreeMap<u64, (Seq, Outcome)>,
    guards: BTreeMap<u64, Arc<dyn LeaderGuard>>,
    leases: BTreeMap<u64, LeaseId>,
    /// Nodes whose lease the store forgot: until their next keep-alive they rightly believe that they lead.
    forgotten: BTreeSet<u64>,
    situations: BTreeMap<Situation, u64>,
    submitted: u64,
}

/// Everything that the nodes share.
pub struct World {
    pub seed: u64,
    pub store: Arc<MemoryKv>,
    pub clock: Arc<RuntimeClock>,
    pub keys: LogKeys,
    oracle: Mutex<Oracle>,
    storm: AtomicBool,
    clients: AtomicBool,
    next_payload: AtomicU64,
}

impl World {
    #[allow(clippy::disallowed_methods, reason = "this is the clock, over the time that the runtime pauses")]
    pub fn new(seed: u64) -> Arc<Self> {
        let clock = Arc::new(RuntimeClock::new());
        Arc::new(Self {
            seed,
            store: Arc::new(MemoryKv::with_clock(clock.clone()).with_limits(2 << 20, 128, 16 << 20)),
            clock,
            keys: LogKeys::of(&ClusterId::new("sim").expect("a cluster id")),
            oracle: Mutex::default(),
            storm: AtomicBool::new(true),
            clients: AtomicBool::new(true),
            next_payload: AtomicU64::new(1),
        })
    }

    pub fn now(&self) -> Duration {
        self.clock.now().since_origin()
    }

    pub fn calm(&self) {
        self.storm.store(false, Ordering::SeqCst);
    }

    pub fn storm(&self) -> bool {
        self.storm.load(Ordering::SeqCst)
    }

    pub fn stop_clients(&self) {
        self.clients.store(false, Ordering::SeqCst);
    }

    pub fn clients(&self) -> bool {
        self.clients.load(Ordering::SeqCst)
    }

    pub fn note(&self, situation: Situation) {
        *self.oracle.lock().situations.entry(situation).or_default() += 1;
    }

    pub fn situations(&self) -> BTreeMap<Situation, u64> {
        self.oracle.lock().situations.clone()
    }

    /// A payload that no other entry has.
    pub fn payload(&self) -> u64 {
        self.oracle.lock().submitted += 1;
        self.next_payload.fetch_add(1, Ordering::SeqCst)
    }

    /// Watches one connection of node `id`.
    pub fn watch(self: &Arc<Self>, id: u64, link: &FaultyKv) {
        let world = Arc::downgrade(self);
        link.observe(move |op, stage| {
            let Some(world) = world.upgrade() else { return };
            if let Op::KeepAlive { lease } = op {
                world.oracle.lock().leases.insert(id, *lease);
            }
            if let Op::Txn(txn) = op {
                match stage {
                    Stage::Called => world.called(id, txn),
                    Stage::Applied => world.applied(txn),
                    Stage::NotTaken => world.not_taken(txn),
                    Stage::Refused => {}
                }
            }
        });
    }

    /// Node `id` has won. S9: all nodes share one clock here, so the terms of two never overlap.
    pub fn leads(&self, id: u64, guard: Arc<dyn LeaderGuard>) {
        let mut oracle = self.oracle.lock();
        oracle.guards.insert(id, guard);
        oracle.forgotten.remove(&id);
        let bound = |id: &u64| !oracle.forgotten.contains(id);
        let leaders = oracle.guards.iter().filter(|(id, guard)| bound(id) && guard.holds());
        let leaders: Vec<_> = leaders.map(|(id, _)| id).collect();
        assert!(leaders.len() <= 1, "seed {}: S9: nodes {leaders:?} lead at once", self.seed);
    }

    /// The store loses the lease that node `id` kept alive last.
    pub async fn forget_lease(&self, id: u64) {
        let lease = self.oracle.lock().leases.get(&id).copied();
        if let Some(lease) = lease {
            self.oracle.lock().forgotten.insert(id);
            self.store.revoke(lease).await.expect("memory does not fail");
        }
    }

    fn put_prefix(&self, txn: &Txn) -> Option<DurablePrefix> {
        let key = self.keys.durable_prefix();
        let put = txn.puts.iter().find(|p| p.key == key)?;
        Some(DurablePrefix::decode(&put.value).expect("a writer of ours writes prefixes that decode"))
    }

    /// S9: a claim is sent by a node that holds leadership at that moment.
    fn called(&self, id: u64, txn: &Txn) {
        let Some(new) = self.put_prefix(txn) else { return };
        let oracle = self.oracle.lock();
        let batches = txn.puts.len() - 1;
        if batches == 0 {
            let holds = oracle.guards.get(&id).is_some_and(|guard| guard.holds());
            assert!(holds, "seed {}: S9: node {id} claims {new} without leadership", self.seed);
        }
    }

    /// L1, L2, L3, L11, W19 at every transaction that applied; then it becomes part of the reference log.
    fn applied(&self, txn: &Txn) {
        let Some(new) = self.put_prefix(txn) else { return };
        let mut oracle = self.oracle.lock();
        let seed = self.seed;
        assert!(!txn.compares.is_empty() && txn.deletes.is_empty(), "seed {seed}: W19");
        if let Some(old) = oracle.prefix {
            assert!(old.may_become(&new), "seed {seed}: L3, L11: {old} became {new}");
        } else {
            *oracle.situations.entry(Situation::FirstPrefix).or_default() += 1;
        }
        for put in &txn.puts {
            let LogKey::Batch(id) = self.keys.classify(&put.key) else { continue };
            let batch = BatchRef::decode(&put.value).expect("a batch of ours decodes");
            assert_eq!(id, new.batch_id, "seed {seed}: L1");
            assert_eq!(batch.header().epoch, new.epoch, "seed {seed}: L11");
            for entry in batch.entries() {
                assert_eq!(entry.seq.get(), oracle.log.len() as u64 + 1, "seed {seed}: L1");
                oracle.log.push(entry.payload.to_vec());
            }
        }
        assert_eq!(new.last_seq.get(), oracle.log.len() as u64, "seed {seed}: L2");
        oracle.prefix = Some(new);
    }

    fn not_taken(&self, txn: &Txn) {
        let Some(new) = self.put_prefix(txn) else { return };
        let mut oracle = self.oracle.lock();
        if oracle.prefix.is_some_and(|now| now.epoch > new.epoch) {
            *oracle.situations.entry(Situation::LateWriteRefused).or_default() += 1;
        }
    }

    /// S1: the state is the fold of the log up to what it has applied, and that is not above the prefix.
    pub fn check_standby(&self, standby: &Standby<Fold>) {
        let oracle = self.oracle.lock();
        let state = &standby.machine().payloads;
        assert!(state.len() <= oracle.log.len(), "seed {}: S1: applied above the prefix", self.seed);
        assert!(state[..] == oracle.log[..state.len()], "seed {}: S1: the state is not the fold of the log", self.seed);
    }

    /// S3, S4: what begins to serve is the whole log up to its prefix, with everything that was promised before.
    pub fn check_promoted(&self, caught_up: &CaughtUp<Fold>) {
        let oracle = self.oracle.lock();
        let (seed, state, prefix) = (self.seed, &caught_up.machine().payloads, caught_up.prefix());
        assert_eq!(state.len() as u64, prefix.last_seq.get(), "seed {seed}: S3: the state is not at the prefix");
        assert!(state[..] == oracle.log[..state.len()], "seed {seed}: S3: the state is not the fold of the log");
        // A younger claim may have landed already, and its entries with it; what was promised before this one must be here.
        let current = oracle.prefix == Some(*prefix);
        for (payload, (seq, outcome)) in oracle.told.iter().filter(|_| current) {
            if *outcome == Outcome::Durable {
                let index = usize::try_from(seq.get()).expect("it fits") - 1;
                let here = state.get(index).map(Vec::as_slice);
                assert_eq!(here, Some(&payload.to_le_bytes()[..]), "seed {seed}: S4: entry {seq} was promised");
            }
        }
    }

    /// L5, L6: durable means that this very entry is there, now, and told once.
    pub fn told(&self, payload: u64, seq: Seq, outcome: Outcome) {
        let mut oracle = self.oracle.lock();
        let seed = self.seed;
        if outcome == Outcome::Durable {
            let index = usize::try_from(seq.get()).expect("it fits") - 1;
            let here = oracle.log.get(index).map(Vec::as_slice);
            assert_eq!(here, Some(&payload.to_le_bytes()[..]), "seed {seed}: L5: entry {seq} was called durable");
        }
        assert!(oracle.told.insert(payload, (seq, outcome)).is_none(), "seed {seed}: L6: told twice");
        let situation = match outcome {
            Outcome::Durable => Situation::Durable,
            Outcome::Never => Situation::Never,
            Outcome::Unknown => Situation::Unknown,
        };
        *oracle.situations.entry(situation).or_default() += 1;
    }

    /// V1, V2, S4, L12, L13 at the end.
    pub async fn check_at_rest(&self, nodes: &[Node]) {
        for node in nodes.iter().filter(|n| !n.leads()) {
            let metrics = node.metrics().unwrap_or_else(|| panic!("node {} {:?} at rest", node.id(), node.does()));
            let durable = self.oracle.lock().log.len() as u64;
            assert_eq!(metrics.applied_seq, durable, "seed {}: V2: {metrics:?}", self.seed);
        }
        let stored = self.store.get(&self.keys.durable_prefix()).await.expect("memory does not fail");
        let mut oracle = self.oracle.lock();
        let stored = stored.map(|value| DurablePrefix::decode(&value).expect("it decodes"));
        assert_eq!(stored, oracle.prefix, "seed {}: the reference log is the log", self.seed);
        let mut places: BTreeMap<u64, usize> = BTreeMap::new();
        for (index, payload) in oracle.log.iter().enumerate() {
            let payload = u64::from_le_bytes(payload[..].try_into().expect("eight bytes"));
            assert!(places.insert(payload, index).is_none(), "seed {}: an entry is in the log twice", self.seed);
        }
        let (mut there, mut not) = (0, 0);
        for (payload, (seq, outcome)) in &oracle.told {
            let place = places.get(payload).copied();
            match outcome {
                Outcome::Durable => assert_eq!(place.map(|p| p as u64 + 1), Some(seq.get()), "seed {}: S4", self.seed),
                Outcome::Never => assert_eq!(place, None, "seed {}: L12: entry {seq} was called never", self.seed),
                Outcome::Unknown if place.is_some() => there += 1,
                Outcome::Unknown => not += 1,
            }
        }
        *oracle.situations.entry(Situation::UnknownIsThere).or_default() += there;
        *oracle.situations.entry(Situation::UnknownIsNot).or_default() += not;
        oracle.situations.retain(|_, times| *times > 0);
        assert!(oracle.log.len() as u64 <= oracle.submitted, "seed {}: L13", self.seed);
    }
}
