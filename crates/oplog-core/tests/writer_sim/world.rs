//! Owns one run: a store, three nodes with faulty clients that claim the log from each other, chaos, and the healing at the end.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultPlan, FaultyKv, Link, OpKind, RuntimeClock, ServerLimits, Situation as Seen};
use ha_kv::{KvErrorKind, MemoryKv};
use ha_types::{Clock, ClusterId, Entropy, LeaderGuard, MonoTime, SeededEntropy, Seq};
use oplog_core::{
    ApplyError, BatchStorage, ClaimedLog, EntryRef, LogKeys, OpenOptions, OrderedWriter, Replica, StateMachine,
    Terminal, WriterConfig, WriterEnv, claim_and_verify,
};
use tokio::task::JoinSet;

use crate::node::Producer;
use crate::oracle::{EntryId, Oracle};
use crate::situation::{Counts, Situation};

const NODES: usize = 3;

/// The oracle, and the tasks that must end well.
#[derive(Clone)]
pub(crate) struct Judge {
    oracle: Arc<Mutex<Oracle>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    ids: Arc<AtomicU64>,
}

impl Judge {
    /// A judge that found a fault is poisoned: every later step fails, too.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut Oracle) -> T) -> T {
        f(&mut self.oracle.lock().expect("the oracle found a fault before"))
    }

    pub(crate) fn note(&self, situation: Situation) {
        self.with(|oracle| oracle.counts.note(situation));
    }

    pub(crate) fn fresh_id(&self) -> EntryId {
        self.ids.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().expect("the list of tasks").spawn(task);
    }
}

/// A state that keeps the ids of its entries.
#[derive(Debug, Default)]
struct Ids(Vec<EntryId>);

impl StateMachine for Ids {
    fn last_applied(&self) -> Seq {
        Seq::new(self.0.len() as u64)
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.0.push(EntryId::from_le_bytes(entry.payload[..8].try_into().expect("eight bytes")));
        Ok(())
    }
}

/// Leadership until a moment. Safety does not rest on it, so several may hold it at once.
struct Until(MonoTime, Arc<RuntimeClock>);

impl LeaderGuard for Until {
    fn serve_until(&self) -> Option<MonoTime> {
        self.holds().then_some(self.0)
    }

    fn holds(&self) -> bool {
        self.1.now() < self.0
    }
}

struct Node {
    kv: Arc<FaultyKv>,
    storage: BatchStorage,
}

pub(crate) struct World {
    seed: u64,
    dice: SeededEntropy,
    clock: Arc<RuntimeClock>,
    nodes: Vec<Node>,
    judge: Judge,
    writers: Vec<OrderedWriter>,
    /// They end with their writers.
    watchers: JoinSet<()>,
    lifetimes: u64,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({})", self.seed)
    }
}

impl World {
    /// One run; what occurred in it.
    pub(crate) async fn run(seed: u64) -> Counts {
        let mut world = Self::new(seed).await;
        let stop_chaos = Arc::new(AtomicBool::new(false));
        let chaos = tokio::spawn(world.chaos(stop_chaos.clone()));
        for _ in 0..3 + world.roll(4) {
            world.turn().await;
        }
        stop_chaos.store(true, Ordering::SeqCst);
        chaos.await.expect("the chaos ends well");
        world.heal().await
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    async fn new(seed: u64) -> Self {
        let store = Arc::new(MemoryKv::new());
        let keys = LogKeys::of(&ClusterId::new("sim").expect("an id"));
        let oracle = Oracle::new(store.clone(), keys.clone());
        let judge = Judge { oracle: Arc::new(Mutex::new(oracle)), tasks: Arc::default(), ids: Arc::default() };
        let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
        let mut nodes = Vec::new();
        for client in 0..NODES {
            let kv = FaultyKv::new(store.clone(), seed.wrapping_mul(31).wrapping_add(client as u64));
            let storage = BatchStorage::open(kv.clone(), keys.clone(), options).await.expect("opened");
            storage.create_first_prefix().await.expect("the first prefix");
            let judging = judge.clone();
            kv.observe(move |op, stage| judging.with(|oracle| oracle.step(client, op, stage)));
            nodes.push(Node { kv, storage });
        }
        let clock = Arc::new(RuntimeClock::new());
        Self {
            seed,
            dice: SeededEntropy::new(seed),
            clock,
            nodes,
            judge,
            writers: Vec::new(),
            watchers: JoinSet::new(),
            lifetimes: 0,
        }
    }

    /// Somebody claims the log and writes; the writers before may go on, stop, drain, or be dropped.
    async fn turn(&mut self) {
        let node = self.roll(NODES as u64) as usize;
        if let Some(log) = self.claim(node).await {
            self.start(log);
        } else {
            self.judge.note(Situation::ClaimFailed);
        }
        tokio::time::sleep(Duration::from_micros(self.roll(40_000))).await;
        for writer in std::mem::take(&mut self.writers) {
            match self.roll(8) {
                0 => {
                    writer.stop().await;
                    self.tally(&writer);
                }
                1 => {
                    let deadline = self.clock.now().saturating_add(Duration::from_millis(1 + self.roll(30)));
                    if writer.drain(deadline).await.is_ok() {
                        self.judge.note(Situation::Drained);
                        // After its end a writer's reservations can only be refused: nothing waits for them.
                        let ended = writer.status().borrow().terminal.is_some();
                        assert!(ended || writer.metrics().slots == 0, "L9: slots are taken at rest");
                    }
                    self.writers.push(writer);
                }
                2 => {
                    self.judge.note(Situation::LastHandleDropped);
                    self.tally(&writer);
                    drop(writer);
                }
                _ => self.writers.push(writer),
            }
        }
        if self.writers.iter().filter(|w| w.status().borrow().terminal.is_none()).count() > 1 {
            self.judge.note(Situation::TwoWriters);
        }
    }

    async fn claim(&self, node: usize) -> Option<ClaimedLog> {
        let until = self.clock.now().saturating_add(Duration::from_millis(300));
        let guard = Until(until, self.clock.clone());
        let (storage, replica) = (self.nodes[node].storage.clone(), Replica::empty(Ids::default()));
        let pause = Duration::from_millis(1);
        let claim = claim_and_verify(storage, replica, &guard, &*self.clock, &self.dice, pause);
        let (state, log) = tokio::time::timeout(Duration::from_millis(400), claim).await.ok()?.ok()?.into_parts();
        self.judge.with(|oracle| {
            if oracle.holds(log.prefix()) {
                oracle.check_state(&state.0);
            }
        });
        Some(log)
    }

    fn start(&mut self, log: ClaimedLog) {
        self.lifetimes += 1;
        let config = WriterConfig {
            oplog_batch_max_entries: 2 + self.roll(12) as usize,
            oplog_batch_max_bytes: 800 + self.roll(2000) as usize,
            oplog_waiting_max_bytes: 3000 + self.roll(4000) as usize,
            oplog_retry_max: Duration::from_millis(1 + self.roll(8)),
            oplog_max_seal_delay: Duration::from_micros(self.roll(2) * 200),
            ..WriterConfig::default()
        };
        let entropy = Arc::new(SeededEntropy::new(self.dice.next_u64()));
        let env = WriterEnv { clock: self.clock.clone(), entropy };
        let writer = OrderedWriter::start(log, config, env).expect("the writer starts");
        for _ in 0..3 {
            let dice = SeededEntropy::new(self.dice.next_u64());
            let producer =
                Producer { writer: writer.clone(), lifetime: self.lifetimes, dice, judge: self.judge.clone() };
            self.judge.spawn(producer.run(40));
        }
        self.watchers.spawn(watch(writer.clone(), self.judge.clone()));
        self.writers.push(writer);
    }

    /// Faults of all kinds until told to stop.
    fn chaos(&self, stop: Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static {
        let clients: Vec<_> = self.nodes.iter().map(|n| n.kv.clone()).collect();
        let dice = SeededEntropy::new(self.dice.next_u64());
        async move {
            let roll = |sides: u64| dice.next_u64() % sides;
            for kv in &clients {
                kv.plan(FaultPlan::rough(Duration::from_millis(3)));
            }
            while !stop.load(Ordering::SeqCst) {
                let kv = &clients[roll(clients.len() as u64) as usize];
                match roll(16) {
                    0 => kv.set_link(Link::Cut),
                    1 => kv.set_link(Link::RepliesCut),
                    2 => kv.set_link(Link::BlackHole),
                    3 | 4 => kv.script(OpKind::Txn, Fault::HoldRequest),
                    5 => kv.script(OpKind::Txn, Fault::ApplyLater(None)),
                    6 => kv.script(OpKind::Get, Fault::HoldReply),
                    7 => {
                        kv.limit_server(ServerLimits { request_bytes: 600 + roll(1500) as usize, ..ServerLimits::NONE })
                    }
                    8 => {
                        kv.land_one().await;
                    }
                    9 => kv.fill_server(roll(4) == 0),
                    // The reply of an append is lost and the read that would tell hangs: time for a claim in between.
                    10..=13 => {
                        kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
                        kv.script(OpKind::Get, Fault::HoldRequest);
                        kv.script(OpKind::Get, Fault::Delay(Duration::from_millis(1)));
                    }
                    14 => kv.limit_server(ServerLimits { request_bytes: 700, ..ServerLimits::NONE }),
                    _ => {
                        kv.set_link(Link::Up);
                        kv.release();
                        kv.limit_server(ServerLimits::NONE);
                        kv.fill_server(false);
                    }
                }
                tokio::time::sleep(Duration::from_micros(roll(6000))).await;
                if roll(3) == 0 {
                    kv.release();
                    kv.set_link(Link::Up);
                }
            }
        }
    }

    /// Faults stop: everybody gets an answer, and one more writer works.
    async fn heal(mut self) -> Counts {
        for node in &self.nodes {
            node.kv.plan(FaultPlan::NONE);
            node.kv.set_link(Link::Up);
            node.kv.limit_server(ServerLimits::NONE);
            node.kv.fill_server(false);
            // What was scripted and not met is met by harmless reads.
            for _ in 0..64 {
                node.kv.release();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            node.kv.land_held().await;
        }
        let log = tokio::time::timeout(Duration::from_secs(60), self.claim_at_last()).await.expect("V1: a claim");
        self.start(log);
        let last = self.writers.pop().expect("just started");
        for writer in std::mem::take(&mut self.writers) {
            writer.stop().await;
            self.tally(&writer);
        }
        let tasks = std::mem::take(&mut *self.judge.tasks.lock().expect("the list of tasks"));
        self.settle(tasks).await;
        self.drain_at_last(&last).await;
        let metrics = last.metrics();
        assert_eq!((metrics.slots, metrics.callback_panics), (0, 0), "L9 at rest");
        last.stop().await;
        self.tally(&last);
        let watchers = std::mem::take(&mut self.watchers);
        self.settle(watchers).await;
        self.judge.with(|oracle| oracle.check_end());
        self.count()
    }

    /// Drains, releasing what a script still holds.
    async fn drain_at_last(&self, writer: &OrderedWriter) {
        let deadline = self.clock.now().saturating_add(Duration::from_secs(60));
        while let Err(open) = writer.drain(self.clock.now().saturating_add(Duration::from_millis(5))).await {
            assert!(self.clock.now() < deadline, "V1: the last writer does not drain: {open}");
            self.nodes.iter().for_each(|n| n.kv.release());
        }
    }

    fn tally(&self, writer: &OrderedWriter) {
        let metrics = writer.metrics();
        assert_eq!(metrics.callback_panics, 0, "the oracle found a fault in a callback");
        self.judge.with(|oracle| {
            oracle.counts.many(Situation::UnknownResolvedAsCommitted, metrics.recovered_unknown);
            oracle.counts.many(Situation::SameTransactionRetried, metrics.retries);
            oracle.counts.many(Situation::BatchCut, metrics.cuts);
        });
    }

    async fn claim_at_last(&self) -> ClaimedLog {
        loop {
            if let Some(log) = self.claim(0).await {
                return log;
            }
            for node in &self.nodes {
                node.kv.release();
            }
        }
    }

    /// Waits for tasks, releasing what a script still holds.
    async fn settle(&self, mut tasks: JoinSet<()>) {
        let deadline = self.clock.now().saturating_add(Duration::from_secs(120));
        while !tasks.is_empty() {
            assert!(self.clock.now() < deadline, "V1: somebody still waits");
            match tokio::time::timeout(Duration::from_millis(5), tasks.join_next()).await {
                Ok(Some(joined)) => joined.expect("a task ends well"),
                Ok(None) => return,
                Err(_) => self.nodes.iter().for_each(|n| n.kv.release()),
            }
            let more = std::mem::take(&mut *self.judge.tasks.lock().expect("the list of tasks"));
            let mut more = more;
            while let Some(joined) = more.try_join_next() {
                joined.expect("a task ends well");
            }
            if !more.is_empty() {
                Box::pin(self.settle(more)).await;
            }
        }
    }

    fn count(&self) -> Counts {
        let pairs = [
            (Situation::LateAppendApplied, Seen::LandedApplied),
            (Situation::LateAppendRefused, Seen::LandedRefused),
            (Situation::Partitioned, Seen::RequestCut),
            (Situation::RepliesCut, Seen::ReplyCut),
            (Situation::ReplyLost, Seen::ReplyLost),
            (Situation::Duplicated, Seen::DuplicateRefused),
        ];
        self.judge.with(|oracle| {
            for node in &self.nodes {
                for (situation, seen) in pairs {
                    oracle.counts.many(situation, node.kv.count(seen));
                }
            }
            oracle.counts.clone()
        })
    }
}

/// Watches one writer to its end, and takes its figures.
async fn watch(writer: OrderedWriter, judge: Judge) {
    let mut status = writer.status();
    // The handle must not keep a dropped writer alive: only the status is held.
    let fenced_at = {
        drop(writer);
        let status = status.wait_for(|s| s.terminal.is_some()).await.expect("a writer ends before it is gone").clone();
        matches!(status.terminal, Some(Terminal::Fenced { .. })).then_some(status.durable)
    };
    if let Some(durable) = fenced_at {
        // Nothing follows once the writer is gone: a closed channel is the end of the wait.
        let moved = status.wait_for(|s| s.durable != durable).await.is_ok();
        if moved {
            judge.note(Situation::FencedDurable);
        }
    }
}
