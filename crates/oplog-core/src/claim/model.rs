//! Owns the exhaustive model of claims: two and three nodes, every order of their steps, every fate of every message.
//!
//! The store is one prefix; what a node does after a message is the verdict's to say. Messages may be lost, answered, answered
//! to nobody, or arrive at any later time.

use std::collections::{BTreeMap, BTreeSet};

use ha_types::{BatchId, Epoch, Owner, Seq};

use super::verdict::{Verdict, judge};
use crate::DurablePrefix;

/// A transaction on its way: the prefix it compares and the one it puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Message {
    expected: Key,
    new: Key,
}

/// A prefix that can be ordered: epoch, owner, batch, sequence.
type Key = (u64, u64, u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Idle,
    /// Has caught up with this prefix; its claim may have been sent before.
    Ready {
        message: Message,
    },
    /// Does not know what became of its claim.
    Unsure {
        message: Message,
    },
    Leader {
        at: Key,
    },
    /// Gave up, or was fenced.
    Out,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    store: Key,
    /// The highest epoch that was ever in the store.
    claimed: u64,
    nodes: Vec<(Node, u64)>,
    flying: Vec<Message>,
}

const MAX_CLAIMS: u64 = 2;
const MAX_FLYING: usize = 2;
const MAX_BATCH: u64 = 2;

fn prefix((epoch, owner, batch_id, last_seq): Key) -> DurablePrefix {
    DurablePrefix {
        epoch: Epoch::new(epoch),
        owner: Owner::new(owner),
        batch_id: BatchId::new(batch_id),
        last_seq: Seq::new(last_seq),
    }
}

fn key(prefix: &DurablePrefix) -> Key {
    (prefix.epoch.get(), prefix.owner.get(), prefix.batch_id.get(), prefix.last_seq.get())
}

struct Explorer {
    seen: BTreeSet<World>,
    open: Vec<World>,
    situations: BTreeMap<&'static str, u64>,
}

impl Explorer {
    fn note(&mut self, situation: &'static str) {
        *self.situations.entry(situation).or_default() += 1;
    }

    fn push(&mut self, world: World) {
        if self.seen.insert(world.clone()) {
            self.open.push(world);
        }
    }

    /// The store judges a message; the invariants are checked at every change.
    fn arrive(&mut self, world: &mut World, message: Message) -> bool {
        if world.store != message.expected {
            return false;
        }
        let (before, after) = (prefix(world.store), prefix(message.new));
        assert!(before.may_become(&after), "L3: ({before}) became ({after})");
        assert!(message.new.0 >= world.claimed, "L11: epoch {} wrote after {}", message.new.0, world.claimed);
        world.store = message.new;
        world.claimed = world.claimed.max(message.new.0);
        true
    }

    fn explore(&mut self) {
        while let Some(world) = self.open.pop() {
            self.check(&world);
            for at in 0..world.flying.len() {
                let mut next = world.clone();
                let message = next.flying.remove(at);
                let landed = self.arrive(&mut next, message);
                self.note(if landed { "a late message applies" } else { "a late message is refused" });
                let gone = |(node, _): &(Node, u64)| *node == Node::Out;
                if landed && world.nodes.iter().any(gone) && message.new.2 == message.expected.2 {
                    self.note("a claim lands while a node has given up");
                }
                self.push(next);
            }
            for at in 0..world.nodes.len() {
                self.step(&world, at);
            }
        }
    }

    /// At most one node leads under an epoch, and a leader whose epoch is in the store is where the store is.
    fn check(&self, world: &World) {
        let mut leaders = BTreeSet::new();
        for (node, _) in &world.nodes {
            if let Node::Leader { at } = node {
                assert!(leaders.insert(at.0), "two leaders of epoch {} in {world:?}", at.0);
                assert!(at.0 <= world.claimed, "a leader whose claim never landed in {world:?}");
                assert!(world.store.0 != at.0 || world.store == *at, "S3: somebody else wrote under it in {world:?}");
            }
        }
    }

    fn step(&mut self, world: &World, at: usize) {
        let (node, claims) = world.nodes[at];
        let become_node = |this: &mut Self, node: Node, claims: u64| {
            let mut next = world.clone();
            next.nodes[at] = (node, claims);
            this.push(next);
        };
        if node != Node::Out {
            become_node(self, Node::Out, claims);
        }
        match node {
            Node::Idle => self.begin(world, at, world.store),
            Node::Ready { message } => self.send(world, at, message, Node::Unsure { message }),
            Node::Unsure { message } => self.judge(world, at, message),
            Node::Leader { at: mine } if mine.2 < MAX_BATCH => {
                let message = Message { expected: mine, new: (mine.0, mine.1, mine.2 + 1, mine.3 + 1) };
                self.send(world, at, message, Node::Out);
            }
            Node::Leader { .. } | Node::Out => {}
        }
    }

    /// Prepares a claim of `expected`, under an owner that no other claim has.
    fn begin(&mut self, world: &World, at: usize, expected: Key) {
        let (_, claims) = world.nodes[at];
        let mut next = world.clone();
        let owner = 10 * (at as u64 + 1) + claims;
        let message = Message { expected, new: (expected.0 + 1, owner, expected.2, expected.3) };
        next.nodes[at] = if claims < MAX_CLAIMS { (Node::Ready { message }, claims + 1) } else { (Node::Out, claims) };
        self.push(next);
    }

    /// Every fate of one message. `unsure` is what the node is when it was told nothing.
    fn send(&mut self, world: &World, at: usize, message: Message, unsure: Node) {
        let claims = world.nodes[at].1;
        let leads = matches!(world.nodes[at].0, Node::Leader { .. });
        let mut answered = world.clone();
        let applied = self.arrive(&mut answered, message);
        let mut silent = answered.clone();
        silent.nodes[at] = (unsure, claims);
        answered.nodes[at] = (if applied { Node::Leader { at: message.new } } else { unsure }, claims);
        self.note(match (leads, applied) {
            (false, true) => "claimed at once",
            (false, false) => "a claim is refused",
            (true, true) => "a leader writes",
            (true, false) => "an old leader is refused",
        });
        self.push(answered);
        self.push(silent);
        let mut lost = world.clone();
        lost.nodes[at] = (unsure, claims);
        self.push(lost.clone());
        if world.flying.len() < MAX_FLYING {
            lost.flying.push(message);
            lost.flying.sort_unstable();
            self.push(lost);
        }
    }

    fn judge(&mut self, world: &World, at: usize, message: Message) {
        let claims = world.nodes[at].1;
        let mut next = world.clone();
        match judge(&prefix(message.expected), &prefix(message.new), Some(prefix(world.store))) {
            Verdict::Claimed => {
                self.note("claimed, as the second look shows");
                next.nodes[at] = (Node::Leader { at: message.new }, claims);
            }
            Verdict::Resend => {
                self.note("sent again");
                next.nodes[at] = (Node::Ready { message }, claims);
            }
            Verdict::CatchUp(found) => {
                self.note("an older writer was faster");
                return self.begin(world, at, key(&found));
            }
            Verdict::Superseded(_) => {
                self.note("superseded");
                next.nodes[at] = (Node::Out, claims);
            }
            Verdict::Corrupt(found) => panic!("a sound log was called corrupt: {found:?} in {world:?}"),
        }
        self.push(next);
    }
}

fn explore(nodes: Vec<(Node, u64)>, store: Key) -> BTreeMap<&'static str, u64> {
    let start = World { store, claimed: store.0, nodes, flying: Vec::new() };
    let mut explorer = Explorer { seen: BTreeSet::new(), open: Vec::new(), situations: BTreeMap::new() };
    explorer.push(start);
    explorer.explore();
    println!("{} worlds: {:#?}", explorer.seen.len(), explorer.situations);
    explorer.situations
}

const ALWAYS: [&str; 9] = [
    "a late message applies",
    "a late message is refused",
    "a claim lands while a node has given up",
    "claimed at once",
    "a claim is refused",
    "a leader writes",
    "claimed, as the second look shows",
    "sent again",
    "superseded",
];

#[test]
fn l11_two_claimants_of_a_fresh_log() {
    let occurred = explore(vec![(Node::Idle, 0); 2], (0, 0, 0, 0));
    for situation in ALWAYS {
        assert!(occurred.contains_key(situation), "{situation:?} never occurred");
    }
}

#[test]
fn l11_two_claimants_and_an_old_leader_that_still_writes() {
    let old = (1, 9, 0, 0);
    let occurred = explore(vec![(Node::Leader { at: old }, 2), (Node::Idle, 0), (Node::Idle, 0)], old);
    for situation in ALWAYS.iter().chain(&["an older writer was faster", "an old leader is refused"]) {
        assert!(occurred.contains_key(situation), "{situation:?} never occurred");
    }
}

#[test]
fn l11_three_claimants() {
    let occurred = explore(vec![(Node::Idle, 1); 3], (3, 7, 1, 1));
    for situation in ALWAYS {
        assert!(occurred.contains_key(situation), "{situation:?} never occurred");
    }
}
