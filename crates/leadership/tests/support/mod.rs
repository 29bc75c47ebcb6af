//! Owns what the tests share: a clock over tokio's paused time, a cluster of faulty clients, and the oracle of one leader.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses its part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ha_kv::MemoryKv;
use ha_kv::faulty::{FaultyKv, Op, RuntimeClock, Stage};
use ha_types::{Clock, LeaderGuard, MonoTime, SeededEntropy};
use leadership::{ElectionConfig, Elector, Leadership};

pub const TTL: Duration = Duration::from_secs(3);
pub const MARGIN: Duration = Duration::from_millis(500);
pub const KEY: &[u8] = b"/plimsoll/test/leader";

pub fn config() -> ElectionConfig {
    ElectionConfig { ttl: TTL, margin: MARGIN, ..ElectionConfig::default() }
}

/// One store, one clock, any number of nodes.
pub struct Cluster {
    pub clock: Arc<RuntimeClock>,
    pub store: Arc<MemoryKv>,
}

/// One node: its connection and its elector.
pub struct Node {
    pub link: Arc<FaultyKv>,
    pub elector: Arc<Elector>,
    pub leases: Arc<Leases>,
}

/// What a node's connection did to leases.
#[derive(Default)]
pub struct Leases {
    pub granted: AtomicU64,
    pub revoked: AtomicU64,
}

impl Leases {
    pub fn alive(&self) -> u64 {
        self.granted.load(Ordering::SeqCst) - self.revoked.load(Ordering::SeqCst)
    }
}

impl Cluster {
    pub fn new() -> Self {
        let clock = Arc::new(RuntimeClock::new());
        let store = Arc::new(MemoryKv::with_clock(clock.clone()));
        Self { clock, store }
    }

    pub fn node(&self, name: &str, seed: u64) -> Node {
        self.node_with(name, seed, config(), self.clock.clone())
    }

    pub fn node_with(&self, name: &str, seed: u64, config: ElectionConfig, clock: Arc<dyn Clock>) -> Node {
        let link = FaultyKv::new(self.store.clone(), seed);
        let leases = Arc::new(Leases::default());
        let seen = leases.clone();
        link.observe(move |op, stage| match (op, stage) {
            (Op::Grant { .. }, Stage::Applied) => drop(seen.granted.fetch_add(1, Ordering::SeqCst)),
            (Op::Revoke { .. }, Stage::Applied) => drop(seen.revoked.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        });
        let elector = Elector::new(
            link.clone(),
            Bytes::from_static(KEY),
            Bytes::from(name.to_owned()),
            config,
            clock,
            Arc::new(SeededEntropy::new(seed)),
        );
        let elector = Arc::new(elector.expect("the settings are valid").with_watch(link.clone()));
        Node { link, elector, leases }
    }

    pub fn since(&self, before: MonoTime) -> Duration {
        self.clock.now().saturating_since(before)
    }

    /// Who the store says leads.
    pub async fn holder(&self) -> Option<Bytes> {
        ha_kv::Kv::get(&*self.store, KEY).await.expect("memory does not fail")
    }
}

/// Waits at most `limit` of paused time.
pub async fn within<T>(limit: Duration, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, what).await.expect("it happens in time")
}

pub async fn win(node: &Node) -> Leadership {
    within(Duration::from_secs(60), node.elector.campaign()).await.expect("the store can hold an election")
}

pub fn holds(leadership: &Leadership) -> bool {
    leadership.guard().holds()
}

pub fn until(guard: &dyn LeaderGuard) -> MonoTime {
    guard.serve_until().expect("the term goes on")
}
