//! Owns one step of the model: a copy of the world that the step changes, with the store's side of every transaction.

mod cutover;
mod failed_read;
mod legacy;
mod loss;
mod mooncake;
mod promotion;
mod reader;
mod snapshots;
mod start;
mod writer;

use oplog_core::DurablePrefix;

pub(super) use mooncake::{PRODUCER_VIEW, mooncakes_batch};

use super::action::{Fate, Step};
use super::fold::{contents, epoch};
use super::invariant::Invariant;
use super::log_model::LogModel;
use super::rules::Rule;
use super::situation::Situation;
use super::store::{Request, Sort, keys, prefix_key};
use super::world::{Role, World};

/// A step being taken.
pub(super) struct Turn<'a> {
    pub(super) model: &'a LogModel,
    pub(super) world: World,
}

impl Turn<'_> {
    fn keep(&self, rule: Rule) -> bool {
        self.model.rules().keep(rule)
    }

    /// A node's step, which its role has opened.
    pub(super) fn node(&mut self, at: usize, step: Step) {
        let role = self.world.nodes[at].role.clone();
        match (step, role) {
            (Step::StartUp, _) => self.start_up(at),
            (Step::Follow, _) => self.follow(at),
            (Step::Campaign, _) => self.campaign(at),
            (Step::CatchUp, Role::Reading { through, known }) => self.catch_up_to_claim(at, through, known),
            (Step::ReadCatalogue, Role::Missed { batch, known }) => self.read_catalogue(at, batch, known),
            (Step::Send(fate), Role::CuttingOver { latest, .. }) => self.send_first_prefix(at, latest, fate),
            (Step::Send(fate), Role::Ready { expected, mine }) => self.send_claim(at, expected, mine, fate),
            (Step::Send(fate), Role::Writing(writing)) => self.send_append(at, *writing, fate),
            (Step::Send(fate), Role::LegacyWriting(writing)) => self.send_legacy(at, writing, fate),
            (Step::Send(fate), Role::Mooncake { batch, last }) => self.send_as_mooncake(at, batch, last, fate),
            (Step::Look, Role::Unsure { expected, mine }) => self.look_as_claimant(at, expected, mine),
            (Step::Look, Role::Writing(writing)) => self.look_as_writer(at, *writing),
            (Step::Look, Role::LegacyWriting(writing)) => self.look_as_legacy(at, writing),
            (Step::Promote, Role::Claimed { mine }) => self.promote(at, mine),
            (Step::Seal(entries), Role::Serving { at: prefix }) => self.seal(at, entries, &prefix),
            (Step::LegacyCommit, Role::Legacy { last }) => self.legacy_commit(at, last),
            (Step::PutLatest, Role::Legacy { last }) => self.put_latest(last),
            (Step::FailRead, role) => self.fail_read(at, role),
            (Step::Stop, _) => self.stop(at),
            (Step::Crash, _) => self.crash(at),
            (step, role) => unreachable!("{step:?} is not open to {role:?}"),
        }
    }

    fn note(&self, situation: Situation) {
        self.model.reached().note(situation);
    }

    fn broken(&mut self, invariant: Invariant) {
        self.world.truth.broken.add(invariant);
    }

    /// A node found the log wrong. In a store that keeps its word nothing here can make it so.
    fn alarm(&mut self, at: usize) {
        if !self.world.truth.lost {
            self.broken(Invariant::Calm);
        }
        self.become_role(at, Role::Out);
    }

    fn become_role(&mut self, at: usize, role: Role) {
        self.world.nodes[at].role = role;
    }

    /// Sends a transaction; `None` if the sender hears nothing, else whether it committed.
    fn send(&mut self, request: Request, fate: Fate) -> Option<bool> {
        if fate != Fate::Answered {
            self.world.spent.silences += 1;
        }
        match fate {
            Fate::Answered => Some(self.arrive(&request)),
            Fate::Unanswered => {
                self.arrive(&request);
                None
            }
            Fate::Lost => None,
            Fate::Late => {
                let at = self.world.flying.partition_point(|other| *other < request);
                self.world.flying.insert(at, request);
                None
            }
        }
    }

    /// A transaction arrives that nobody waits for any more.
    pub(super) fn arrive_late(&mut self, at: usize) {
        let request = self.world.flying.remove(at);
        let abandoned = request.new_prefix().is_some_and(|new| !self.is_awaited(&new));
        let applied = self.arrive(&request);
        match (request.sort, applied) {
            (Sort::Append, true) => self.note(Situation::LateAppendApplies),
            (Sort::Append, false) => self.late_append_refused(&request),
            (Sort::Claim, true) => {
                self.note(Situation::LateClaimApplies);
                if abandoned {
                    self.note(Situation::AbandonedClaimApplies);
                }
            }
            (Sort::Claim, false) => self.note(Situation::LateClaimRefused),
            (Sort::Legacy, false) if self.world.store.prefix().is_some() => self.note(Situation::LateLegacyRefused),
            (Sort::FirstPrefix | Sort::Legacy, _) => {}
        }
    }

    fn late_append_refused(&self, request: &Request) {
        let owner = self.world.store.prefix().map(|p| p.epoch);
        if owner > request.new_prefix().map(|p| p.epoch) {
            self.note(Situation::LateAppendMeetsClaim);
        }
    }

    /// Whether a node still means to lead by this claim.
    fn is_awaited(&self, claim: &DurablePrefix) -> bool {
        self.world.nodes.iter().any(|node| match &node.role {
            Role::Ready { mine, .. } | Role::Unsure { mine, .. } => mine == claim,
            _ => false,
        })
    }

    /// The store's side: all puts if all checks hold, else nothing. The observer looks on.
    fn arrive(&mut self, request: &Request) -> bool {
        if !request.checks.iter().all(|check| self.world.store.holds(check)) {
            self.refused(request);
            return false;
        }
        let before = self.world.store.prefix();
        for (key, value) in &request.puts {
            let there = self.world.store.get(key);
            let moves = [keys().legacy_latest(), keys().producer_view()];
            let names_something = key == prefix_key() || moves.contains(key);
            if !names_something && there.is_some_and(|there| there != value) {
                self.broken(Invariant::L4);
            }
            self.world.store.put(key.clone(), value.clone());
        }
        if request.sort == Sort::Legacy {
            self.legacy_written(before.is_some());
        }
        if let Some(new) = request.new_prefix() {
            self.prefix_moved(request, before, &new);
        }
        true
    }

    fn refused(&self, request: &Request) {
        let applied = request.puts.iter().all(|(k, v)| k == prefix_key() || self.world.store.get(k) == Some(v));
        if request.sort == Sort::Append && applied {
            self.note(Situation::SecondCopyRefused);
        }
    }

    fn prefix_moved(&mut self, request: &Request, before: Option<DurablePrefix>, new: &DurablePrefix) {
        if self.model.bounds().losses > 0 && !self.world.truth.lost {
            self.world.truth.undo = before.filter(|before| before.batch_id < new.batch_id);
        }
        if let Some(before) = before.filter(|_| !self.world.truth.lost) {
            let fell = new.epoch < before.epoch || new.batch_id < before.batch_id || new.last_seq < before.last_seq;
            let split = new.batch_id == before.batch_id && new.last_seq != before.last_seq;
            if fell || split {
                self.broken(Invariant::L3);
            }
        }
        match request.sort {
            Sort::Claim => {
                if before.is_some_and(|before| before.is_mooncakes()) {
                    self.note(Situation::TakenOver);
                }
                self.claim_landed(new);
            }
            Sort::Append => self.append_landed(new),
            Sort::FirstPrefix => self.first_prefix_landed(new),
            Sort::Legacy => {}
        }
    }

    fn claim_landed(&mut self, new: &DurablePrefix) {
        let (epoch, owner) = (new.epoch.get(), new.owner.get());
        if epoch <= self.world.truth.highest_claim() && !self.world.truth.lost {
            self.broken(Invariant::L11);
        }
        let rival = |mine: &DurablePrefix| mine.epoch == new.epoch && mine.owner != new.owner;
        let unsure = |role: &Role| matches!(role, Role::Unsure { mine, .. } if rival(mine));
        let flying = |request: &Request| request.sort == Sort::Claim && request.new_prefix().is_some_and(|p| rival(&p));
        if self.world.nodes.iter().any(|n| unsure(&n.role)) || self.world.flying.iter().any(flying) {
            self.note(Situation::TwoClaims);
        }
        self.world.truth.claims.push((epoch, owner));
    }

    fn append_landed(&mut self, new: &DurablePrefix) {
        if new.epoch.get() < self.world.truth.highest_claim() && !self.world.truth.lost {
            self.broken(Invariant::L11);
        }
        let record = self.world.store.batch(new.batch_id).expect("the append put it");
        let (entries, epoch) = (contents(record), epoch(record).get());
        let truth = &mut self.world.truth;
        truth.log.truncate(new.last_seq.get() as usize - entries.len());
        truth.log.extend(entries);
        if !truth.writers.contains(&epoch) {
            truth.writers.push(epoch);
        }
        if truth.writers.len() > 1 {
            self.note(Situation::SecondEpochWrites);
        }
        if new.batch_id.get() == 1 && self.world.truth.base > 0 {
            self.note(Situation::FirstBatchAfterCutover);
        }
    }
}
