//! Owns one node's lives: follow, campaign, be promoted, serve, start again from nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::faulty::{FaultPlan, FaultyKv, Link};
use ha_types::{Entropy, LeaderGuard, SeededEntropy};
use leadership::{ElectionConfig, Elector, Leadership, LossReason};
use oplog_core::{
    ApplyError, BatchStorage, CaughtUp, ClaimError, EntryRef, LogError, NewEntry, OpenOptions, OrderedWriter, Replica,
    Seq, StateMachine, Terminal, WriterConfig, WriterEnv,
};
use parking_lot::Mutex;
use standby::{Observer, PromoteError, Standby, StandbyConfig, StandbyEnv, StandbyMetrics};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::situation::Situation;
use crate::world::World;

/// A state that keeps every payload.
#[derive(Debug, Default)]
pub struct Fold {
    pub payloads: Vec<Vec<u8>>,
}

impl StateMachine for Fold {
    fn last_applied(&self) -> Seq {
        Seq::new(self.payloads.len() as u64)
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        assert_eq!(Some(entry.seq), self.last_applied().next(), "S1: no entry is skipped or applied twice");
        self.payloads.push(entry.payload.to_vec());
        Ok(())
    }
}

/// What is seen of a node from outside.
#[derive(Default)]
struct Face {
    guard: Option<Arc<dyn LeaderGuard>>,
    observer: Option<Observer>,
    /// What it does, for a failure's report.
    does: &'static str,
}

/// One node over all its lives.
pub struct Node {
    world: Arc<World>,
    id: u64,
    seed: u64,
    life: Option<JoinHandle<()>>,
    link: Arc<FaultyKv>,
    face: Arc<Mutex<Face>>,
    step_down: Arc<Notify>,
}

impl Node {
    pub fn new(world: &Arc<World>, id: u64, seed: u64) -> Self {
        let link = FaultyKv::new(world.store.clone(), seed);
        let (face, step_down) = (Arc::default(), Arc::default());
        Self { world: world.clone(), id, seed, life: None, link, face, step_down }
    }

    pub fn link(&self) -> Arc<FaultyKv> {
        self.link.clone()
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn leads(&self) -> bool {
        self.face.lock().guard.as_ref().is_some_and(|guard| guard.holds())
    }

    pub fn metrics(&self) -> Option<StandbyMetrics> {
        self.face.lock().observer.as_ref().map(Observer::metrics)
    }

    pub fn does(&self) -> &'static str {
        self.face.lock().does
    }

    pub fn step_down(&self) {
        self.step_down.notify_waiters();
    }

    /// The process is gone at once, and its connection with it.
    pub fn kill(&mut self) {
        self.link.set_link(Link::Cut);
        if let Some(life) = self.life.take() {
            life.abort();
        }
        *self.face.lock() = Face::default();
    }

    /// A new process on a new connection.
    pub fn start(&mut self) {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.link = FaultyKv::new(self.world.store.clone(), self.seed);
        self.world.watch(self.id, &self.link);
        if self.world.storm() {
            self.link.plan(FaultPlan::rough(Duration::from_millis(80)));
        }
        let life = Life {
            world: self.world.clone(),
            id: self.id,
            link: self.link.clone(),
            face: self.face.clone(),
            step_down: self.step_down.clone(),
            entropy: Arc::new(SeededEntropy::new(self.seed)),
        };
        self.life = Some(tokio::spawn(life.run()));
    }
}

/// One process.
struct Life {
    world: Arc<World>,
    id: u64,
    link: Arc<FaultyKv>,
    face: Arc<Mutex<Face>>,
    step_down: Arc<Notify>,
    entropy: Arc<SeededEntropy>,
}

impl Life {
    async fn run(self) {
        let storage = self.open().await;
        let config =
            ElectionConfig { ttl: Duration::from_secs(2), margin: Duration::from_millis(300), ..Default::default() };
        let name = Bytes::from(format!("node-{}", self.id));
        let (clock, entropy) = (self.world.clock.clone(), self.entropy.clone());
        let elector = Elector::new(self.link.clone(), self.world.keys.leader(), name, config, clock, entropy);
        let elector = elector.expect("the settings are valid").with_watch(self.link.clone());
        loop {
            let config =
                StandbyConfig { page_bytes: 4 << 10, request_timeout: Duration::from_secs(1), ..Default::default() };
            let env = StandbyEnv {
                clock: self.world.clock.clone(),
                entropy: self.entropy.clone(),
                watch: Some(self.link.clone()),
            };
            let standby = Standby::new(storage.clone(), Replica::empty(Fold::default()), config, env);
            let (caught_up, term) = self.follow_until_promoted(standby.expect("valid"), &elector).await;
            self.serve(caught_up, term).await;
        }
    }

    async fn open(&self) -> BatchStorage {
        loop {
            let options = OpenOptions { accept_lost_writes: true, ..Default::default() };
            match BatchStorage::open(self.link.clone(), self.world.keys.clone(), options).await {
                Ok(storage) => return storage,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn follow_until_promoted(
        &self,
        mut standby: Standby<Fold>,
        elector: &Elector,
    ) -> (CaughtUp<Fold>, Leadership) {
        let world = &self.world;
        loop {
            let observer = standby.observer();
            *self.face.lock() = Face { guard: None, observer: Some(observer.clone()), does: "follows" };
            let errors = observer.metrics().store_errors;
            let won = async {
                observer.close_to_prefix().await.expect("it is healthy");
                elector.campaign().await.expect("the store can hold an election")
            };
            let term = tokio::select! {
                fault = standby.run() => panic!("seed {}: a verdict on a log that is right: {fault}", world.seed),
                term = won => term,
            };
            if observer.metrics().store_errors > errors {
                world.note(Situation::FollowedOn);
            }
            world.check_standby(&standby);
            world.leads(self.id, term.guard());
            let before = standby.position().last_seq;
            match standby.promote(&*term.guard()).await {
                Ok(caught_up) => {
                    world.check_promoted(&caught_up);
                    let behind = caught_up.prefix().last_seq > before;
                    world.note(if behind { Situation::PromotedFromBehind } else { Situation::PromotedAtLagZero });
                    if caught_up.prefix().last_seq > Seq::ZERO {
                        world.note(Situation::PromotedOverEntries);
                    }
                    return (caught_up, term);
                }
                Err(refused) => {
                    world.note(match &refused.error {
                        // A claim ends with the store's own error after a whole lease of silence (W16).
                        PromoteError::NotCaughtUp(_) | PromoteError::Claim(ClaimError::Log(LogError::Store(_))) => {
                            Situation::RefusedByStore
                        }
                        PromoteError::NotLeader => Situation::RefusedWithoutLeadership,
                        PromoteError::Claim(ClaimError::Superseded(_)) => Situation::RefusedSuperseded,
                        other => panic!("seed {}: {other}", world.seed),
                    });
                    standby = refused.standby;
                    world.check_standby(&standby);
                    let _ = term.resign().await;
                }
            }
        }
    }

    /// Serves until leadership or the log ends; then the state is dropped (S9).
    async fn serve(&self, caught_up: CaughtUp<Fold>, term: Leadership) {
        *self.face.lock() = Face { guard: Some(term.guard()), observer: None, does: "serves" };
        let (_state, log) = caught_up.into_parts();
        let env = WriterEnv { clock: self.world.clock.clone(), entropy: self.entropy.clone() };
        let writer = OrderedWriter::start(log, WriterConfig::default(), env).map_err(|(_, why)| why).expect("valid");
        let clients: Vec<_> = (0..4).map(|n| self.client(&writer, n)).collect();
        let status = writer.status();
        let rule = term.enforce({
            let status = status.clone();
            move || status.borrow().unanswered_since
        });
        let mut ended = status.clone();
        let terminal = async {
            let _ = ended.wait_for(|s| s.terminal.is_some()).await;
        };
        tokio::select! {
            reason = rule => self.world.note(match reason {
                LossReason::Expired { .. } => Situation::LeaseExpired,
                LossReason::LeaseLost { .. } => Situation::LeaseLost,
                LossReason::StoreSilent { .. } => Situation::StoreSilent,
                LossReason::Resigned | LossReason::Dropped => unreachable!("nobody else holds the term"),
            }),
            () = terminal => {}
            () = self.step_down.notified() => {
                // Drain, then resign: serving ends before leadership is given up.
                let deadline = ha_types::Clock::now(&*self.world.clock).saturating_add(Duration::from_secs(1));
                let _ = writer.drain(deadline).await;
                let _ = term.resign().await;
                self.world.note(Situation::Resigned);
            }
        }
        // A process that is stopped right here goes on writing for a while after its leadership ended (W3, W15): only the fence
        // is left to refuse it.
        if self.entropy.next_u64().is_multiple_of(2) {
            tokio::time::sleep(Duration::from_millis(self.entropy.next_u64() % 5000)).await;
        }
        self.face.lock().does = "resigns";
        let _ = term.resign().await;
        self.face.lock().does = "stops its writer";
        if tokio::time::timeout(Duration::from_secs(5), writer.stop()).await.is_err() {
            panic!("seed {}: the writer does not stop: {:?} {:?}", self.world.seed, status.borrow(), writer.metrics());
        }
        self.face.lock().does = "waits for its clients";
        if matches!(status.borrow().terminal, Some(Terminal::Fenced { .. })) {
            self.world.note(Situation::WriterFenced);
        }
        if let Some(Terminal::Corrupt { reason }) = &status.borrow().terminal {
            panic!("seed {}: a writer calls a right log corrupt: {reason}", self.world.seed);
        }
        for client in clients {
            let _ = tokio::time::timeout(Duration::from_secs(5), client).await.expect("V1: every ticket is told");
        }
        *self.face.lock() = Face::default();
    }

    /// A client that commits and waits, until the writer has ended.
    fn client(&self, writer: &OrderedWriter, n: u64) -> JoinHandle<()> {
        let (world, writer) = (self.world.clone(), writer.clone());
        tokio::spawn(async move {
            while world.clients() {
                let Ok(slot) = writer.ready().await else {
                    let ended = writer.status().borrow().terminal.is_some();
                    if ended {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                };
                let payload = world.payload();
                let entry = NewEntry { op_type: 1, tenant: "default", key: b"k", payload: &payload.to_le_bytes() };
                let Ok(ticket) = slot.commit(entry) else { return };
                let seq = ticket.seq();
                let outcome = ticket.await;
                world.told(payload, seq, outcome);
                tokio::time::sleep(Duration::from_millis(40 + (payload * 7 + n) % 150)).await;
            }
        })
    }
}
