//! Owns the wrapper that makes a store misbehave on purpose, one client at a time. It never changes what the store itself does.

mod fault;
mod kv;
mod lease;
mod link;
mod op;
mod plan;
mod run;
mod runtime_clock;
mod server;
mod situation;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use ha_types::SeededEntropy;
use parking_lot::Mutex;
use tokio::sync::watch as channel;

use self::run::HeldCall;
use self::server::{Observer, Server};
use crate::{Capabilities, LeaseKv, Txn, TxnKv, WatchKv};

pub use self::fault::Fault;
pub use self::link::Link;
pub use self::op::{Op, OpKind, Stage};
pub use self::plan::FaultPlan;
pub use self::runtime_clock::RuntimeClock;
pub use self::server::ServerLimits;
pub use self::situation::Situation;

/// One client's connection to a store, with faults. Several over one store are several nodes.
///
/// What befalls a call is decided in this order: the next fault [scripted](Self::script) for its kind, else the
/// [standing](Self::always) fault of its kind, else a draw from the [plan](Self::plan). The [link](Self::set_link) is asked twice:
/// when the request would arrive and when the reply would.
///
/// Futures never block a thread; delays are `tokio` timers, so paused time works.
pub struct FaultyKv {
    server: Arc<Server>,
    entropy: SeededEntropy,
    link: channel::Sender<Link>,
    releases: channel::Sender<u64>,
    calls: channel::Sender<BTreeMap<OpKind, u64>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    scripts: BTreeMap<OpKind, VecDeque<Fault>>,
    standing: BTreeMap<OpKind, Fault>,
    plan: FaultPlan,
    plans: BTreeMap<OpKind, FaultPlan>,
    held: VecDeque<HeldCall>,
    declared: Option<Capabilities>,
}

impl FaultyKv {
    /// A client of `store`, which has all three interfaces. No faults until told; `seed` feeds the random ones.
    #[must_use]
    pub fn new<S: TxnKv + LeaseKv + WatchKv>(store: Arc<S>, seed: u64) -> Arc<Self> {
        Self::from_parts(store.clone(), Some(store.clone()), Some(store), seed)
    }

    /// A client of a store that has transactions only; leases and watches answer `Unsupported`.
    #[must_use]
    pub fn txn_only(store: Arc<dyn TxnKv>, seed: u64) -> Arc<Self> {
        Self::from_parts(store, None, None, seed)
    }

    /// A client of one store, given as the interfaces it has.
    #[must_use]
    pub fn from_parts(
        store: Arc<dyn TxnKv>,
        lease: Option<Arc<dyn LeaseKv>>,
        watch: Option<Arc<dyn WatchKv>>,
        seed: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            server: Arc::new(Server::new(store, lease, watch)),
            entropy: SeededEntropy::new(seed),
            link: channel::Sender::new(Link::Up),
            releases: channel::Sender::new(0),
            calls: channel::Sender::new(BTreeMap::new()),
            state: Mutex::default(),
        })
    }

    /// Queues `fault` for the next call of `kind` that has none queued before it.
    pub fn script(&self, kind: OpKind, fault: Fault) {
        self.state.lock().scripts.entry(kind).or_default().push_back(fault);
    }

    /// Makes `fault` befall every call of `kind` that has no scripted one; `None` ends it.
    pub fn always(&self, kind: OpKind, fault: Option<Fault>) {
        let mut state = self.state.lock();
        match fault {
            Some(fault) => state.standing.insert(kind, fault),
            None => state.standing.remove(&kind),
        };
    }

    /// Draws random faults for all calls from now on; [`FaultPlan::NONE`] ends it. Forgets plans of single kinds.
    ///
    /// # Panics
    /// If the probabilities sum to more than 1000.
    pub fn plan(&self, plan: FaultPlan) {
        plan.check();
        self.server.set_lose_hint(plan.lose_hint);
        let mut state = self.state.lock();
        state.plan = plan;
        state.plans.clear();
    }

    /// Draws random faults for calls of `kind` from `plan` instead.
    ///
    /// # Panics
    /// If the probabilities sum to more than 1000.
    pub fn plan_for(&self, kind: OpKind, plan: FaultPlan) {
        plan.check();
        if kind == OpKind::Watch {
            self.server.set_lose_hint(plan.lose_hint);
        }
        self.state.lock().plans.insert(kind, plan);
    }

    /// Cuts this client off ([`Link::Cut`]), or connects it again.
    pub fn partition(&self, cut: bool) {
        self.set_link(if cut { Link::Cut } else { Link::Up });
    }

    /// Swallows everything ([`Link::BlackHole`]), or connects again.
    pub fn black_hole(&self, swallow: bool) {
        self.set_link(if swallow { Link::BlackHole } else { Link::Up });
    }

    /// Sets the link.
    pub fn set_link(&self, link: Link) {
        self.link.send_replace(link);
    }

    /// Lets go every call held by [`Fault::HoldRequest`] and [`Fault::HoldReply`].
    pub fn release(&self) {
        self.releases.send_modify(|n| *n += 1);
    }

    /// Applies the requests held by [`Fault::ApplyLater`]`(None)`, oldest first, and says how many there were.
    pub async fn land_held(&self) -> usize {
        let mut landed = 0;
        while self.land_one().await {
            landed += 1;
        }
        landed
    }

    /// Applies the oldest held request; `false` if there is none.
    pub async fn land_one(&self) -> bool {
        let next = self.state.lock().held.pop_front();
        match next {
            Some(held) => {
                held.land().await;
                true
            }
            None => false,
        }
    }

    /// Loses the held requests for good, and says how many there were.
    pub fn drop_held(&self) -> usize {
        std::mem::take(&mut self.state.lock().held).len()
    }

    /// How many requests are held by [`Fault::ApplyLater`]`(None)`.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state.lock().held.len()
    }

    /// How many calls of `kind` the client has made, whatever befell them.
    #[must_use]
    pub fn calls(&self, kind: OpKind) -> u64 {
        self.calls.borrow().get(&kind).copied().unwrap_or(0)
    }

    /// Resolves once the client has made `count` calls of `kind`.
    pub async fn reached(&self, kind: OpKind, count: u64) {
        let mut calls = self.calls.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = calls.wait_for(|c| c.get(&kind).copied().unwrap_or(0) >= count).await;
    }

    /// Shows every transaction to `hook` as the client sends it, before anything befalls it.
    pub fn on_txn(&self, hook: impl Fn(&Txn) + Send + Sync + 'static) {
        self.observe(move |op, stage| {
            if let (Op::Txn(txn), Stage::Called) = (op, stage) {
                hook(txn);
            }
        });
    }

    /// Shows every call to `observer` at each [`Stage`]. It runs inside the call and must not call this client.
    pub fn observe(&self, observer: impl Fn(&Op, Stage) + Send + Sync + 'static) {
        let observer: Observer = Arc::new(observer);
        self.server.observers.write().push(observer);
    }

    /// What the client believes of the store; `None` for what the store says.
    pub fn declare(&self, capabilities: Option<Capabilities>) {
        self.state.lock().declared = capabilities;
    }

    /// What the server really takes, declared or not. Above it a request is refused as `TooLarge`, `NotApplied`.
    pub fn limit_server(&self, limits: ServerLimits) {
        *self.server.limits.write() = limits;
    }

    /// Fills the server up, as etcd is full: it refuses lease grants and everything that puts, and still deletes and reads.
    pub fn fill_server(&self, full: bool) {
        self.server.set_full(full);
    }

    /// What happened so far, and how often.
    #[must_use]
    pub fn occurred(&self) -> BTreeMap<Situation, u64> {
        self.server.occurred.lock().clone()
    }

    /// How often `situation` happened.
    #[must_use]
    pub fn count(&self, situation: Situation) -> u64 {
        self.server.occurred.lock().get(&situation).copied().unwrap_or(0)
    }
}

impl fmt::Debug for FaultyKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyKv")
            .field("store", &self.server.store)
            .field("link", &*self.link.borrow())
            .finish_non_exhaustive()
    }
}
