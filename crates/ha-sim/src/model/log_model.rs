//! Owns the model as the checker sees it: first states, the steps open in a state, and the invariants as properties.

use std::sync::atomic::{AtomicBool, Ordering};

use stateright::{Model, Property};

use super::action::{Action, Fate, Step};
use super::invariant::{Invariant, look};
use super::rules::{Rule, Rules};
use super::scenario::{Bounds, Scenario, Start};
use super::situation::{Reached, Situation};
use super::store::{keys, prefix_key};
use super::turn::{PRODUCER_VIEW, Turn, mooncakes_batch};
use super::world::{LegacyNext, Next, Node, Role, World, content};
use ha_types::{BatchId, Epoch, Owner};
use oplog_core::DurablePrefix;

/// One scenario under a set of rules.
#[derive(Debug)]
pub struct LogModel {
    scenario: Scenario,
    rules: Rules,
    reached: Reached,
    /// A broken state was found: nothing is looked at after it, so that the first one, which is the nearest, stays.
    broken_at: AtomicBool,
}

/// The one property: every invariant holds.
pub(crate) const HOLDS: &str = "every invariant holds";

impl LogModel {
    /// The model of `scenario` in which nodes follow `rules`.
    #[must_use]
    pub fn new(scenario: Scenario, rules: Rules) -> Self {
        Self { scenario, rules, reached: Reached::new(), broken_at: AtomicBool::new(false) }
    }

    /// How often a situation was met so far.
    #[must_use]
    pub fn count(&self, situation: Situation) -> u64 {
        self.reached.count(situation)
    }

    /// What does not hold in `world`.
    #[must_use]
    pub fn broken(&self, world: &World) -> Vec<Invariant> {
        let broken = look(world);
        Invariant::ALL.iter().copied().filter(|invariant| broken.has(*invariant)).collect()
    }

    /// Ends the search; paths may be replayed afterwards.
    pub(crate) fn close(&self) {
        self.broken_at.store(false, Ordering::Relaxed);
    }

    fn holds(&self, world: &World) -> bool {
        if self.broken_at.load(Ordering::Relaxed) {
            return true;
        }
        let broken = look(world).any();
        self.broken_at.fetch_or(broken, Ordering::Relaxed);
        !broken
    }

    pub(super) fn rules(&self) -> Rules {
        self.rules
    }

    pub(super) fn reached(&self) -> &Reached {
        &self.reached
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.scenario.bounds
    }

    pub(super) fn is_original(&self) -> bool {
        matches!(self.scenario.start, Start::Legacy { original: true, .. })
    }

    fn first_world(&self) -> World {
        let mut world = World::default();
        match self.scenario.start {
            Start::Primary => {
                let at = DurablePrefix { epoch: Epoch::new(1), owner: Owner::new(1), ..DurablePrefix::FRESH };
                world.store.put(prefix_key().clone(), at.encode().into());
                world.truth.claims.push((1, 1));
                world.truth.created = 1;
                world.nodes.push(Node::new(Role::Serving { at }));
            }
            Start::Mooncake => first_of_mooncakes(&mut world),
            Start::Legacy { writers, .. } => {
                world.nodes = (0..writers).map(|_| Node::new(Role::Legacy { last: 0 })).collect();
            }
        }
        let others = usize::from(self.bounds().nodes) - world.nodes.len();
        let legacy = matches!(self.scenario.start, Start::Legacy { .. });
        let role = if legacy { Role::Starting } else { Role::Following };
        world.nodes.extend((0..others).map(|_| Node::new(role.clone())));
        world
    }

    fn node_steps(&self, world: &World, at: usize, steps: &mut Vec<Step>) {
        let (bounds, node) = (self.bounds(), &world.nodes[at]);
        let room = bounds.entries.saturating_sub(node.committed);
        match &node.role {
            Role::Starting | Role::CuttingOver { unsure: true, .. } => steps.push(Step::StartUp),
            Role::CuttingOver { unsure: false, .. } | Role::Ready { .. } => self.fates(world, steps),
            Role::Following => {
                let behind = world.store.prefix().is_none_or(|p| p.batch_id != node.fold.position.batch_id);
                if bounds.snapshots + bounds.losses > 0 && behind {
                    steps.push(Step::Follow);
                }
                if world.spent.claims < bounds.claims || !self.rules.keep(Rule::ClaimBeforeWriting) {
                    steps.push(Step::Campaign);
                }
            }
            Role::Reading { .. } => steps.push(Step::CatchUp),
            Role::Missed { .. } => steps.push(Step::ReadCatalogue),
            Role::Unsure { .. } => steps.push(Step::Look),
            Role::Claimed { .. } => steps.push(Step::Promote),
            Role::Serving { at } if at.batch_id.get() < u64::from(bounds.batches) => {
                steps.extend((1..=room.min(bounds.batch_entries)).map(Step::Seal));
            }
            Role::Writing(writing) if writing.next == Next::Append => self.fates(world, steps),
            Role::Writing(_) => steps.push(Step::Look),
            Role::Mooncake { batch, .. } if room > 0 && *batch < u64::from(bounds.batches) => self.fates(world, steps),
            Role::Legacy { last } => {
                if room > 0 {
                    steps.push(Step::LegacyCommit);
                }
                if self.is_original() && world.store.latest().map(|seq| seq.get()) != Some(*last) {
                    steps.push(Step::PutLatest);
                }
            }
            Role::LegacyWriting(writing) if writing.next == LegacyNext::Send => self.fates(world, steps),
            Role::LegacyWriting(_) => steps.push(Step::Look),
            Role::Serving { .. } | Role::Mooncake { .. } | Role::Out => {}
        }
        if world.spent.failed_reads < bounds.failed_reads && reads(&node.role) {
            steps.push(Step::FailRead);
        }
        if matches!(node.role, Role::Serving { .. } | Role::Writing(_)) && world.spent.stops < bounds.stops {
            steps.push(Step::Stop);
        }
        if world.spent.crashes < bounds.crashes && node.role != Role::Starting {
            steps.push(Step::Crash);
        }
    }

    fn fates(&self, world: &World, steps: &mut Vec<Step>) {
        steps.push(Step::Send(Fate::Answered));
        if world.spent.silences < self.bounds().silences {
            steps.extend([Step::Send(Fate::Unanswered), Step::Send(Fate::Lost)]);
            if world.flying.len() < usize::from(self.bounds().flying) {
                steps.push(Step::Send(Fate::Late));
            }
        }
    }

    fn snapshot_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let newest = world.catalogue.iter().map(|s| s.fold.position.batch_id).max().unwrap_or(BatchId::ZERO);
        for (at, node) in world.nodes.iter().enumerate() {
            let new = node.role == Role::Following && node.fold.position.batch_id > newest;
            if new && world.catalogue.len() < usize::from(self.bounds().snapshots) {
                actions.extend([Action::Snapshot(at, true), Action::Snapshot(at, false)]);
            }
        }
        for (at, snapshot) in world.catalogue.iter().enumerate() {
            if snapshot.sound && !snapshot.verified {
                actions.push(Action::Verify(at));
            }
        }
        match world.truncating {
            Some(_) => actions.push(Action::Truncate),
            None if !world.catalogue.is_empty() => actions.push(Action::PlanTruncation),
            None => {}
        }
    }

    fn take(&self, turn: &mut Turn<'_>, action: Action) {
        match action {
            Action::Arrives(at) => turn.arrive_late(at),
            Action::Node(at, step) => turn.node(at, step),
            Action::PlanTruncation => turn.plan_truncation(),
            Action::Truncate => turn.truncate_next(),
            Action::Snapshot(at, sound) => turn.take_snapshot(at, sound),
            Action::Verify(at) => turn.verify(at),
            Action::StoreLosesLast => turn.lose_last(),
            Action::StoreLosesPrefix => turn.lose_prefix(),
            Action::OldElection(elected) => turn.old_election(elected),
        }
    }
}

impl Model for LogModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.first_world()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if self.broken_at.load(Ordering::Relaxed) {
            return;
        }
        actions.extend((0..world.flying.len()).map(Action::Arrives));
        let mut steps = Vec::new();
        for at in 0..world.nodes.len() {
            self.node_steps(world, at, &mut steps);
            actions.extend(steps.drain(..).map(|step| Action::Node(at, step)));
        }
        if self.bounds().snapshots > 0 {
            self.snapshot_actions(world, actions);
        }
        if world.spent.elections < self.bounds().elections {
            actions.push(Action::OldElection(world.store.get(&keys().old_master_view()).is_none()));
        }
        if world.spent.losses < self.bounds().losses && !between_two_reads(world) {
            if world.truth.undo.is_some() {
                actions.push(Action::StoreLosesLast);
            }
            // Before the first batch a lost prefix leaves a fresh log, of which nobody was promised anything.
            if world.store.batches().next().is_some() {
                actions.push(Action::StoreLosesPrefix);
            }
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut turn = Turn { model: self, world: world.clone() };
        self.take(&mut turn, action);
        Some(turn.world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(HOLDS, |model: &Self, world| model.holds(world))]
    }
}

/// A log of Mooncake's with one batch, of which its primary knows that it is durable.
fn first_of_mooncakes(world: &mut World) {
    let content = content(0, 0);
    for (key, value) in mooncakes_batch(1, 1, content) {
        world.store.put(key, value);
    }
    world.store.put(keys().producer_view(), PRODUCER_VIEW.into());
    world.truth.log.push(content);
    world.truth.writers.push(0);
    world.truth.created = 1;
    world.nodes.push(Node { committed: 1, ..Node::new(Role::Mooncake { batch: 1, last: 1 }) });
}

/// Whether a node of this role reads next, and a read that fails is more than another moment of waiting.
fn reads(role: &Role) -> bool {
    match role {
        Role::Reading { .. } | Role::Missed { .. } | Role::Unsure { .. } | Role::Claimed { .. } => true,
        Role::Writing(writing) => writing.next != Next::Append,
        Role::LegacyWriting(writing) => writing.next != LegacyNext::Send,
        _ => false,
    }
}

/// A fenced writer has read the prefix and is about to read the record: a loss now is one after what it will say was true.
fn between_two_reads(world: &World) -> bool {
    world.nodes.iter().any(|node| matches!(&node.role, Role::Writing(writing) if writing.next == Next::ReadBatch))
}
