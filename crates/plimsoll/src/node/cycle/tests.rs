//! Nodes in one process on one store, each behind a link that can fail; time is paused.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::faulty::{Fault, FaultyKv, OpKind, RuntimeClock};
use ha_kv::{KvErrorKind, MemoryKv};
use ha_rpc::v1::ErrorCode;
use ha_types::{AlwaysLeads, Clock, SeededEntropy};
use leadership::ElectionConfig;
use master::{MasterError, MountSegment};
use oplog_core::{LogKeys, OpenOptions, claim_and_verify};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::super::leader_lookup::LeaderLookup;
use super::super::shared::NodeInfo;
use super::*;

const TTL: Duration = Duration::from_secs(3);
const DRAIN: Duration = Duration::from_secs(30);

struct World {
    clock: Arc<dyn Clock>,
    store: Arc<MemoryKv>,
}

struct Node {
    link: Arc<FaultyKv>,
    shared: Arc<Shared>,
    elector: Arc<Elector>,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

impl World {
    fn new() -> Self {
        let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::new());
        Self { store: Arc::new(MemoryKv::with_clock(Arc::clone(&clock))), clock }
    }

    fn keys() -> LogKeys {
        LogKeys::of(&"c".parse().unwrap())
    }

    fn elector(&self, name: &str, link: &Arc<FaultyKv>, seed: u64) -> Arc<Elector> {
        let entropy = Arc::new(SeededEntropy::new(seed));
        let config = ElectionConfig { ttl: TTL, ..ElectionConfig::default() };
        let candidate = Bytes::from(format!("{name}:1"));
        let lease = Arc::clone(link) as _;
        Arc::new(Elector::new(lease, Self::keys().leader(), candidate, config, self.clock.clone(), entropy).unwrap())
    }

    async fn storage(kv: Arc<dyn ha_kv::TxnKv>) -> BatchStorage {
        let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
        BatchStorage::open(kv, Self::keys(), options).await.unwrap()
    }

    async fn node(&self, name: &str, seed: u64) -> Node {
        self.node_that_writes(name, seed, WriterConfig::default()).await
    }

    async fn node_that_writes(&self, name: &str, seed: u64, writer: WriterConfig) -> Node {
        let link = FaultyKv::new(Arc::clone(&self.store), seed);
        let elector = self.elector(name, &link, seed);
        let info =
            NodeInfo { node: name.parse().unwrap(), cluster: "c".parse().unwrap(), address: format!("{name}:1") };
        let shared = Arc::new(Shared::new(info, LeaderLookup::new(Arc::clone(&elector))));
        let shutdown = Shutdown::new();
        let cycle = Cycle {
            shared: Arc::clone(&shared),
            store: Store { txn: link.clone(), lease: link.clone(), watch: link.clone() },
            storage: Self::storage(link.clone()).await,
            elector: Arc::clone(&elector),
            legacy: None,
            standby: StandbyConfig::default(),
            master: MasterConfig::default(),
            writer,
            ttl: TTL,
            drain: DRAIN,
            clock: Arc::clone(&self.clock),
            entropy: Arc::new(SeededEntropy::new(seed + 1)),
            shutdown: shutdown.clone(),
        };
        Node { link, shared, elector, shutdown, task: tokio::spawn(cycle.run()) }
    }
}

impl Node {
    async fn wait_for(&self, role: Role) -> u64 {
        let until = Instant::now() + Duration::from_secs(120);
        while self.shared.role().role != role {
            assert!(Instant::now() < until, "the node is {:?}, not {role:?}", self.shared.role());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.shared.figures().epoch()
    }

    /// Mounts a segment: one durable change.
    async fn mount(&self, id: &str, base: u64) -> Result<(), MasterError> {
        let call = self.shared.enter().await.expect("the node leads");
        let mount = MountSegment { segment: id.parse().unwrap(), endpoint: "h:1".into(), base, size: 100 };
        call.term.master.mount_segment(mount).await
    }

    async fn ends(self) {
        self.shutdown.begin(Ending::Asked);
        self.task.await.unwrap();
    }
}

/// W16: the store answers keep-alives and never the writer; after a whole TTL another node may try.
#[tokio::test(start_paused = true)]
async fn w16_silent_store_releases_leadership() {
    let world = World::new();
    let a = world.node("a", 1).await;
    a.wait_for(Role::Leader).await;
    let b = world.node("b", 10).await;
    b.wait_for(Role::Standby).await;
    a.mount("s", 0).await.unwrap();
    a.link.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let began = Instant::now();
    let cut = a.mount("t", 1000).await.unwrap_err();
    assert!(!matches!(cut, MasterError::Invalid(_)), "{cut}");
    assert!(began.elapsed() >= TTL, "not before a whole TTL of silence: {:?}", began.elapsed());
    b.wait_for(Role::Leader).await;
    assert!(began.elapsed() < TTL * 4, "{:?}", began.elapsed());
    a.wait_for(Role::Standby).await;
    b.mount("u", 2000).await.unwrap();
}

/// The same while the leader hands over: a drain that the store holds up does not keep leadership for its whole time.
#[tokio::test(start_paused = true)]
async fn w16_silent_store_releases_leadership_in_a_drain_too() {
    let world = World::new();
    let a = world.node("a", 1).await;
    a.wait_for(Role::Leader).await;
    let b = world.node("b", 10).await;
    b.wait_for(Role::Standby).await;
    a.link.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let began = Instant::now();
    let call = a.shared.enter().await.unwrap();
    let cut = tokio::spawn(async move {
        let mount = MountSegment { segment: "s".parse().unwrap(), endpoint: "h:1".into(), base: 0, size: 100 };
        call.term.master.mount_segment(mount).await
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    a.shared.term().unwrap().ask_to_step_down();
    b.wait_for(Role::Leader).await;
    assert!((TTL..TTL * 2).contains(&began.elapsed()), "{:?} of a drain of {DRAIN:?}", began.elapsed());
    assert!(matches!(cut.await.unwrap(), Err(MasterError::Unknown { .. })), "the call was told the truth");
    a.wait_for(Role::Standby).await;
}

/// The other half of W16, and W7: a store that refuses definitely keeps its leader, which recovers without a word.
#[tokio::test(start_paused = true)]
async fn w7_full_store_keeps_its_leader_and_recovers() {
    let world = World::new();
    let a = world.node("a", 1).await;
    let epoch = a.wait_for(Role::Leader).await;
    let b = world.node("b", 10).await;
    b.wait_for(Role::Standby).await;
    for node in [&a, &b] {
        node.link.fill_server(true);
    }
    let waiting = {
        let call = a.shared.enter().await.unwrap();
        let mount = MountSegment { segment: "s".parse().unwrap(), endpoint: "h:1".into(), base: 0, size: 100 };
        tokio::spawn(async move { call.term.master.mount_segment(mount).await })
    };
    tokio::time::sleep(TTL * 5).await;
    assert_eq!(a.shared.role().role, Role::Leader);
    let refused = a.mount("t", 1000).await.unwrap_err();
    assert!(matches!(refused, MasterError::RetryAfter { .. } | MasterError::NotApplied { .. }), "{refused}");
    // The reason stands beside `accepting`, and in the figures, as does what was refused for it.
    let closed = |node: &Node| node.shared.figures().term.and_then(|term| term.status.closed);
    assert_eq!(closed(&a), Some(oplog_core::Closed::Store(KvErrorKind::NoSpace)));
    let text = crate::admin::metrics::encode(&a.shared).unwrap();
    let value = |text: &str, name: &str, labels: &str| {
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(labels));
        line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned())
    };
    let full = r#"reason="no_space",class="operator""#;
    assert_eq!(value(&text, "plimsoll_writer_closed", full).as_deref(), Some("1"), "{text}");
    assert_eq!(value(&text, "plimsoll_writer_refused_total", r#"reason="no_space""#).as_deref(), Some("1"), "{text}");
    for node in [&a, &b] {
        node.link.fill_server(false);
    }
    waiting.await.unwrap().unwrap();
    a.mount("t", 1000).await.unwrap();
    assert_eq!((a.shared.role().role, a.shared.figures().epoch()), (Role::Leader, epoch));
    assert_eq!(closed(&a), None);
    let text = crate::admin::metrics::encode(&a.shared).unwrap();
    assert_eq!(value(&text, "plimsoll_writer_closed", full).as_deref(), Some("0"), "{text}");
}

/// A writer whose retry budget is used up ends its term, earlier than the stop rule would; the other node leads.
#[tokio::test(start_paused = true)]
async fn a_retry_budget_that_is_used_up_steps_the_leader_down() {
    let world = World::new();
    let budget = TTL / 3;
    let a =
        world.node_that_writes("a", 1, WriterConfig { oplog_retry_budget: Some(budget), ..Default::default() }).await;
    a.wait_for(Role::Leader).await;
    let b = world.node("b", 10).await;
    b.wait_for(Role::Standby).await;
    a.link.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let began = Instant::now();
    let cut = a.mount("s", 0).await.unwrap_err();
    assert!(matches!(cut, MasterError::Unknown { .. }), "{cut}");
    assert!((budget..TTL).contains(&began.elapsed()), "{:?}", began.elapsed());
    b.wait_for(Role::Leader).await;
    a.link.always(OpKind::Txn, None);
    b.mount("t", 1000).await.unwrap();
    a.wait_for(Role::Standby).await;
}

/// Another claim fences the writer: its change is not acknowledged, serving ends, leadership is given up, and the node comes
/// back through following with a higher epoch.
#[tokio::test(start_paused = true)]
async fn a_fenced_leader_stops_and_comes_back_through_the_log() {
    let world = World::new();
    let a = world.node("a", 1).await;
    let epoch = a.wait_for(Role::Leader).await;
    a.mount("s", 0).await.unwrap();
    let storage = World::storage(Arc::clone(&world.store) as _).await;
    let entropy = SeededEntropy::new(99);
    let replica = Replica::empty(MasterState::new());
    let other =
        claim_and_verify(storage, replica, &AlwaysLeads, &*world.clock, &entropy, Duration::from_millis(10)).await;
    assert_eq!(other.unwrap().claim().epoch.get(), epoch + 1);

    let fenced = a.mount("t", 1000).await.unwrap_err();
    assert!(matches!(fenced, MasterError::NotApplied { .. } | MasterError::NotLeader { .. }), "{fenced}");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_ne!(a.shared.role().role, Role::Leader, "serving has ended");
    assert_eq!(a.wait_for(Role::Leader).await, epoch + 2);
    let call = a.shared.enter().await.unwrap();
    let segments = call.term.master.list_segments().unwrap();
    assert_eq!(segments.len(), 1, "what was refused is not in the log");
}

/// A promotion that is refused gives leadership up, so that a node which reaches the store better can have it.
#[tokio::test(start_paused = true)]
async fn a_refused_promotion_releases_leadership() {
    let world = World::new();
    let a = world.node("a", 1).await;
    // The first prefix cannot be created, so the promotion is refused before anything is claimed.
    a.link.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
    while a.elector.metrics().terms_won == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let link = FaultyKv::new(Arc::clone(&world.store), 77);
    let other = world.elector("other", &link, 77);
    let won = tokio::time::timeout(TTL * 10, other.campaign()).await.expect("leadership becomes free").unwrap();
    let reason = a.shared.role().reason.unwrap_or_default();
    assert!(reason.contains("promotion was refused"), "{reason}");
    assert!(a.elector.metrics().terms_won < 20, "with backoff: {:?}", a.elector.metrics());
    a.link.always(OpKind::Txn, None);
    let _ = won.resign().await;
    a.wait_for(Role::Leader).await;
    a.mount("s", 0).await.unwrap();
}

/// No keep-alive is confirmed: the gate shuts by the node's own clock, the other node serves, the state is dropped.
#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_from_the_store_stops_and_follows_later() {
    let world = World::new();
    let a = world.node("a", 1).await;
    a.wait_for(Role::Leader).await;
    let b = world.node("b", 10).await;
    b.wait_for(Role::Standby).await;
    a.mount("s", 0).await.unwrap();
    let old = a.shared.term().unwrap().master;
    a.link.partition(true);
    b.wait_for(Role::Leader).await;
    assert!(matches!(old.list_segments(), Err(MasterError::NotLeader { .. })), "reads of the old state are over");
    let refused = a.shared.enter().await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NotLeader);
    b.mount("t", 1000).await.unwrap();
    a.link.partition(false);
    a.wait_for(Role::Standby).await;
    let refused = a.shared.enter().await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(refused.code(), ErrorCode::NotLeader);
    assert_eq!(a.shared.not_leader("x").await.leader_address, "b:1");
    assert_eq!(a.shared.figures().applied(), b.shared.figures().durable().1);
}

/// Stepping down leaves the other node the time to win; without another the node leads again.
#[tokio::test(start_paused = true)]
async fn stepping_down_lets_another_lead() {
    let world = World::new();
    let a = world.node("a", 1).await;
    a.wait_for(Role::Leader).await;
    let b = world.node("b", 10).await;
    b.wait_for(Role::Standby).await;
    a.mount("s", 0).await.unwrap();
    let began = Instant::now();
    a.shared.term().unwrap().ask_to_step_down();
    b.wait_for(Role::Leader).await;
    assert!(began.elapsed() < TTL, "handed over, not expired: {:?}", began.elapsed());
    a.wait_for(Role::Standby).await;
    b.ends().await;
    a.wait_for(Role::Leader).await;
    a.shared.term().unwrap().ask_to_step_down();
    a.wait_for(Role::Standby).await;
    a.wait_for(Role::Leader).await;
}

/// The node's end while it leads: calls end first, leadership is given up last.
#[tokio::test(start_paused = true)]
async fn the_end_waits_for_the_last_call_before_it_resigns() {
    let world = World::new();
    let a = world.node("a", 1).await;
    a.wait_for(Role::Leader).await;
    let call = a.shared.enter().await.unwrap();
    let guard_holds = {
        let elector = Arc::clone(&a.elector);
        move || elector.metrics().leading
    };
    a.shutdown.begin(Ending::Asked);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(a.shared.role().role, Role::Draining);
    assert!(guard_holds(), "a call is still being answered");
    assert_eq!(a.shared.enter().await.unwrap_err().code(), ErrorCode::NotLeader, "no new call enters");
    drop(call);
    a.task.await.unwrap();
    assert!(!guard_holds());
    assert_eq!(a.elector.leader().await.unwrap(), None, "handed over at once");
}
