//! Random histories with crashes at any moment, against a model that is a list of effects (S4, S8, M1–M3, M5, M7, M8).
//!
//! After a crash the new primary's state must be a prefix of the effects, and hold all that were promised durable. No range may be
//! handed out while any client of any primary may still use it.

use std::collections::{BTreeMap, BTreeSet};

use ha_types::{Entropy, ObjectIncarnation, SeededEntropy, SegmentId};
use master::{
    Contents, MasterError, ObjectContents, Policy, Promise, PutGrant, PutStart, ReplicaRange, SegmentContents,
};

use crate::kit::*;

#[derive(Clone, Debug)]
enum Effect {
    Put { key: String, object: ObjectContents },
    Remove { key: String, incarnation: ObjectIncarnation },
    Mount { id: SegmentId, at: SegmentContents },
    Unmount { id: SegmentId },
    Move { id: SegmentId, endpoint: String },
}

/// The state after some effects, by the simplest means.
fn fold(effects: &[Effect]) -> Contents {
    let mut all = Contents {
        objects: BTreeMap::new(),
        segments: BTreeMap::new(),
        known_segments: BTreeSet::new(),
        policy: Policy::INITIAL,
        quarantine_ms: 30_000,
    };
    for effect in effects {
        match effect {
            Effect::Put { key: k, object } => {
                assert!(all.objects.insert((tenant(), key(k)), object.clone()).is_none(), "put over an object");
            }
            Effect::Remove { key: k, incarnation } => {
                let gone = all.objects.remove(&(tenant(), key(k)));
                assert_eq!(gone.map(|o| o.incarnation), Some(*incarnation));
            }
            Effect::Mount { id, at } => {
                all.segments.insert(id.clone(), at.clone());
                all.known_segments.insert(id.clone());
            }
            Effect::Unmount { id } => {
                all.segments.remove(id);
                all.objects.retain(|_, object| {
                    object.replicas.retain(|(segment, _)| segment != id);
                    !object.replicas.is_empty()
                });
            }
            Effect::Move { id, endpoint } => {
                if let Some(at) = all.segments.get_mut(id) {
                    at.endpoint = endpoint.as_str().into();
                }
            }
        }
    }
    all
}

/// Until when a client of some primary may use a range.
struct Use {
    range: ReplicaRange,
    until_ms: u64,
}

/// A put that some primary granted and that has not ended.
struct Running {
    key: String,
    grant: PutGrant,
    until_ms: u64,
    epoch: u64,
}

struct History {
    cluster: Cluster,
    node: Node,
    old: Vec<Node>,
    dice: SeededEntropy,
    effects: Vec<Effect>,
    /// So many of them were promised durable.
    durable: usize,
    holding: bool,
    uses: Vec<Use>,
    running: Vec<Running>,
    incarnations: BTreeSet<ObjectIncarnation>,
    epoch: u64,
    now_ms: u64,
    seen: BTreeMap<&'static str, u64>,
}

const SEGMENT_BYTES: u64 = 64;
const SEEDS: u64 = 30;
const STEPS: u32 = 150;

impl History {
    async fn new(seed: u64) -> Self {
        let cluster = Cluster::seeded(seed);
        let node = cluster.promote().await;
        Self {
            cluster,
            node,
            old: Vec::new(),
            dice: SeededEntropy::new(seed),
            effects: Vec::new(),
            durable: 0,
            holding: false,
            uses: Vec::new(),
            running: Vec::new(),
            incarnations: BTreeSet::new(),
            epoch: 1,
            now_ms: 0,
            seen: BTreeMap::new(),
        }
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.next_u64() % sides
    }

    fn saw(&mut self, situation: &'static str) {
        *self.seen.entry(situation).or_default() += 1;
    }

    fn key(&self) -> String {
        format!("k{}", self.roll(6))
    }

    fn promise(&self) -> Promise {
        if self.holding || self.roll(2) == 0 { Promise::Accepted } else { Promise::Durable }
    }

    fn effect(&mut self, effect: Effect, promise: Promise) {
        self.effects.push(effect);
        if promise == Promise::Durable {
            self.durable = self.effects.len();
        }
    }

    async fn step(&mut self) {
        match self.roll(100) {
            0..30 => self.put_start(),
            30..50 => self.put_end().await,
            50..54 => self.put_revoke(),
            54..66 => self.get(),
            66..80 => self.remove().await,
            80..84 => self.segment().await,
            84..90 => self.hold_or_release().await,
            90..98 => self.wait(),
            _ => self.crash().await,
        }
        assert_eq!(self.node.master.state().contents(), fold(&self.effects), "S8, M5");
        let live: Vec<PutGrant> =
            self.running.iter().filter(|r| r.epoch == self.epoch).map(|r| r.grant.clone()).collect();
        assert_eq!(self.node.master.stats().running_puts, live.len() as u64);
        if self.roll(4) == 0 {
            self.check_space(&live);
        }
    }

    /// Free, held and used add up; with removals on their way the difference is theirs.
    fn check_space(&self, live: &[PutGrant]) {
        if self.node.master.stats().pending_removals == 0 && !self.holding {
            assert_space_adds_up(&self.node.master, live);
        }
    }

    fn put_start(&mut self) {
        let key_name = self.key();
        let request =
            PutStart { replicas: 1 + self.roll(2) as usize, ..put(&key_name, 1 + self.roll(SEGMENT_BYTES / 2)) };
        let running_here = |r: &Running| r.epoch == self.epoch && r.key == key_name && self.now_ms <= r.until_ms;
        let taken = fold(&self.effects).objects.contains_key(&(tenant(), request.key.clone()))
            || self.running.iter().any(running_here);
        match self.node.master.put_start(&request) {
            Ok(grant) => {
                assert!(!taken, "{key_name} exists");
                self.granted(key_name, grant);
            }
            Err(e) => {
                let code = e.code();
                assert_eq!(taken, code == "OBJECT_ALREADY_EXISTS", "{e}");
                assert!(matches!(code, "OBJECT_ALREADY_EXISTS" | "NO_AVAILABLE_SPACE" | "RETRY_AFTER"), "{e}");
                self.saw(code);
            }
        }
        self.forget_expired();
    }

    fn granted(&mut self, key: String, grant: PutGrant) {
        assert!(self.incarnations.insert(grant.incarnation), "M8");
        let contents = fold(&self.effects);
        for range in &grant.replicas {
            let end = range.address + range.length;
            for object in contents.objects.values() {
                for (segment, address) in &object.replicas {
                    let apart = *segment != range.segment || end <= *address || address + object.size <= range.address;
                    assert!(apart, "M7: {range:?} belongs to {object:?}");
                }
            }
            for other in self.uses.iter().filter(|u| u.range.segment == range.segment) {
                let apart = end <= other.range.address || other.range.address + other.range.length <= range.address;
                assert!(
                    apart || other.until_ms < self.now_ms,
                    "M7: {range:?} is in use until {} of {:?}; now {}",
                    other.until_ms,
                    other.range,
                    self.now_ms
                );
                if !apart {
                    self.seen.entry("range used again").and_modify(|n| *n += 1).or_insert(1);
                }
            }
        }
        let until_ms = self.now_ms + grant.grant_ms;
        self.uses.extend(grant.replicas.iter().map(|r| Use { range: r.clone(), until_ms }));
        if let Some(Effect::Remove { key: k, .. }) =
            self.effects.iter().rev().find(|e| matches!(e, Effect::Remove { key: k, .. } if *k == key))
            && *k == key
            && self.node.master.stats().pending_removals > 0
        {
            self.saw("put over a removal on its way");
        }
        self.running.push(Running { key, grant, until_ms, epoch: self.epoch });
    }

    /// The master forgets a put some time after its grant; the model when it has.
    fn forget_expired(&mut self) {
        let margin_over = |r: &Running| r.epoch == self.epoch && self.now_ms >= r.until_ms + 100;
        let master = &self.node.master;
        let gone = |r: &Running| {
            code(master.put_revoke(&tenant(), &key(&r.key), r.grant.incarnation, CLIENT)) == "OBJECT_NOT_FOUND"
        };
        let before = self.running.len();
        let expired: Vec<_> =
            self.running.iter().map(|r| r.epoch != self.epoch || (margin_over(r) && gone(r))).collect();
        let superseded: Vec<_> = self
            .running
            .iter()
            .enumerate()
            .map(|(i, r)| self.running[i + 1..].iter().any(|later| later.key == r.key && later.epoch == r.epoch))
            .collect();
        let mut keep = expired.into_iter().zip(superseded).map(|(expired, superseded)| !expired && !superseded);
        self.running.retain(|_| keep.next() == Some(true));
        if self.running.len() < before {
            self.saw("put forgotten");
        }
    }

    async fn put_end(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let at = self.roll(self.running.len() as u64) as usize;
        let promise = self.promise();
        let Running { key: k, grant, until_ms, epoch } = &self.running[at];
        let (k, grant, until_ms, in_time) =
            (k.clone(), grant.clone(), *until_ms, *epoch == self.epoch && self.now_ms <= *until_ms);
        match self.node.end(&k, &grant, promise).await {
            Ok(()) => {
                assert!(in_time, "put end after its grant");
                self.running.remove(at);
                // Its client has said that it writes no more.
                let written = |u: &Use| grant.replicas.contains(&u.range) && u.until_ms == until_ms;
                if let Some(first) = self.uses.iter().position(written) {
                    self.uses.drain(first..first + grant.replicas.len());
                }
                let replicas = grant.replicas.iter().map(|r| (r.segment.clone(), r.address)).collect();
                let object = ObjectContents {
                    incarnation: grant.incarnation,
                    client: CLIENT,
                    size: grant.replicas[0].length,
                    replicas,
                };
                self.effect(Effect::Put { key: k, object }, promise);
            }
            Err(e) => {
                assert!(!in_time, "{e}");
                self.saw(e.code());
            }
        }
    }

    fn put_revoke(&mut self) {
        let Some(at) = self.running.iter().position(|r| r.epoch == self.epoch && self.now_ms <= r.until_ms) else {
            return;
        };
        let r = self.running.remove(at);
        self.node.master.put_revoke(&tenant(), &key(&r.key), r.grant.incarnation, CLIENT).unwrap();
        self.saw("revoked");
    }

    fn get(&mut self) {
        let k = self.key();
        let lease_ms = 1 + self.roll(30_000);
        let expected = fold(&self.effects).objects.remove(&(tenant(), key(&k)));
        match (self.node.master.get(&tenant(), &key(&k), Some(lease_ms)), expected) {
            (Ok(got), Some(object)) => {
                assert_eq!(got.incarnation, object.incarnation);
                let found: Vec<_> = got.replicas.iter().map(|r| (r.segment.clone(), r.address)).collect();
                assert_eq!(found, object.replicas);
                let until_ms = self.now_ms + lease_ms;
                self.uses.extend(got.replicas.into_iter().map(|range| Use { range, until_ms }));
                self.saw("read");
            }
            (Err(MasterError::ReplicaIsNotReady { .. } | MasterError::ObjectNotFound { .. }), None) => {}
            (got, expected) => panic!("M1: got {got:?}, expected {expected:?}"),
        }
    }

    async fn remove(&mut self) {
        let k = self.key();
        let promise = self.promise();
        let expected = fold(&self.effects).objects.remove(&(tenant(), key(&k)));
        match (self.node.remove(&k, promise).await, expected) {
            (Ok(()), Some(object)) => {
                self.effect(Effect::Remove { key: k, incarnation: object.incarnation }, promise);
                self.saw("removed");
            }
            (Err(MasterError::ReplicaIsNotReady { .. } | MasterError::ObjectNotFound { .. }), None) => {}
            (done, expected) => panic!("{done:?}, expected {expected:?}"),
        }
    }

    async fn segment(&mut self) {
        if self.holding {
            return;
        }
        self.segment_number(self.roll(4)).await;
    }

    async fn segment_number(&mut self, i: u64) {
        let id = segment(&format!("s{i}"));
        let mounted = fold(&self.effects).segments.contains_key(&id);
        if !mounted {
            let request = mount(id.as_str(), i * 1000, SEGMENT_BYTES);
            let at = SegmentContents { endpoint: request.endpoint.clone(), base: request.base, size: request.size };
            self.node.master.mount_segment(request).await.unwrap();
            self.effect(Effect::Mount { id, at }, Promise::Durable);
        } else if self.roll(3) == 0 {
            let endpoint = format!("host:{}", 2 + self.effects.len());
            self.node.master.update_segment(&id, endpoint.as_str().into()).await.unwrap();
            self.effect(Effect::Move { id, endpoint }, Promise::Durable);
        } else {
            match self.node.master.unmount_segment(&id).await {
                Ok(()) => {
                    self.effect(Effect::Unmount { id }, Promise::Durable);
                    self.saw("unmounted");
                }
                Err(e) => {
                    assert_eq!(e.code(), "SEGMENT_BUSY", "{e}");
                    self.saw("SEGMENT_BUSY");
                }
            }
            self.forget_expired();
        }
    }

    async fn hold_or_release(&mut self) {
        if !self.holding {
            // Something to hold: an entry that changes nothing.
            self.node.settle().await;
            self.durable = self.effects.len();
            self.node.hold();
            self.holding = true;
            return;
        }
        if self.effects.len() > self.durable {
            self.node.release().await;
            self.node.settle().await;
            self.durable = self.effects.len();
            self.holding = false;
            self.saw("released");
        }
    }

    fn wait(&mut self) {
        let ms = if self.roll(3) == 0 { 20_000 + self.roll(30_000) } else { self.roll(1500) };
        self.cluster.advance(ms);
        self.now_ms += ms;
    }

    /// The primary is gone; another takes its place. What was in flight may land before the claim, or never.
    async fn crash(&mut self) {
        if self.roll(2) == 0 {
            tokio::task::yield_now().await;
        }
        let new = self.cluster.promote().await;
        let dead = std::mem::replace(&mut self.node, new);
        if self.holding {
            dead.kv.release();
        }
        self.old.push(dead);
        self.holding = false;
        self.epoch += 1;
        let found = self.node.master.state().contents();
        let kept = (self.durable..=self.effects.len()).rev().find(|n| fold(&self.effects[..*n]) == found);
        let Some(kept) = kept else {
            panic!("S4: {found:#?} is no prefix of {:#?} from {}", self.effects, self.durable)
        };
        self.saw(if kept < self.effects.len() { "accepted effects lost" } else { "nothing lost" });
        self.effects.truncate(kept);
        self.durable = kept;
    }
}

#[tokio::test]
async fn random_histories_with_crashes_keep_every_promise() {
    let mut seen = BTreeMap::<&'static str, u64>::new();
    for seed in 0..SEEDS {
        let _shown_on_failure = ShowSeed(seed);
        let mut history = History::new(seed).await;
        for i in 0..3 {
            history.segment_number(i).await;
        }
        for _ in 0..STEPS {
            history.step().await;
        }
        for (situation, n) in history.seen {
            *seen.entry(situation).or_default() += n;
        }
    }
    println!("{seen:#?}");
    for situation in [
        "NO_AVAILABLE_SPACE",
        "OBJECT_ALREADY_EXISTS",
        "OBJECT_NOT_FOUND",
        "RETRY_AFTER",
        "GRANT_EXPIRED",
        "SEGMENT_BUSY",
        "accepted effects lost",
        "nothing lost",
        "put forgotten",
        "put over a removal on its way",
        "range used again",
        "read",
        "released",
        "removed",
        "revoked",
        "unmounted",
    ] {
        assert!(seen.contains_key(situation), "never happened: {situation}");
    }
}

struct ShowSeed(u64);

impl Drop for ShowSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}
