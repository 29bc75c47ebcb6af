//! Owns the way to leadership: catch up, claim, catch up, serve. The claim's transaction and the verdict about it are the
//! product's own. Leases do not occur: any follower may try at any time, and safety must not notice.

use ha_types::{Epoch, Owner};
use oplog_core::DurablePrefix;
use oplog_core::proof::{ClaimVerdict, claim_txn, judge_claim};

use super::Turn;
use crate::model::action::Fate;
use crate::model::invariant::Invariant;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::store::{Check, Request, Sort, keys, prefix_key};
use crate::model::world::{Next, Role};

impl Turn<'_> {
    pub(super) fn campaign(&mut self, at: usize) {
        let Some(through) = self.world.store.prefix() else { return self.alarm(at) };
        // Only a reader that asks the catalogue too early knows anything of it here.
        let known = if self.keep(Rule::CatalogueAfterMiss) { 0 } else { self.verified() };
        self.become_role(at, Role::Reading { through, known });
    }

    fn verified(&self) -> usize {
        self.world.catalogue.iter().take_while(|s| s.verified).count()
    }

    pub(super) fn catch_up_to_claim(&mut self, at: usize, through: DurablePrefix, known: usize) {
        if self.catch_up(at, &through, known) {
            self.prepare_claim(at, through);
        }
    }

    fn prepare_claim(&mut self, at: usize, expected: DurablePrefix) {
        if !self.keep(Rule::ClaimBeforeWriting) {
            return self.become_role(at, Role::Serving { at: expected });
        }
        if self.world.spent.claims >= self.model.bounds().claims {
            return self.become_role(at, Role::Out);
        }
        let mine = self.next_claim(at, &expected);
        self.world.spent.claims += 1;
        self.world.nodes[at].claims += 1;
        self.become_role(at, Role::Ready { expected, mine });
    }

    fn next_claim(&self, at: usize, expected: &DurablePrefix) -> DurablePrefix {
        let number = u64::from(self.world.nodes[at].claims);
        let owner = match self.keep(Rule::FreshOwner) {
            true => 16 * (at as u64 + 1) + number + 1,
            false => 1000 + expected.epoch.get(),
        };
        let epoch = if self.keep(Rule::ClaimRaisesEpoch) { 1 } else { 0 };
        let epoch = Epoch::new((expected.epoch.get() + epoch).max(1));
        DurablePrefix { epoch, owner: Owner::new(owner), ..*expected }
    }

    pub(super) fn send_claim(&mut self, at: usize, mut expected: DurablePrefix, mut mine: DurablePrefix, fate: Fate) {
        if !self.keep(Rule::CatchUpAfterClaim) {
            // The claim of whatever is there by now, which was caught up with before it moved.
            let Some(now) = self.world.store.prefix() else { return self.alarm(at) };
            let owner = if now.owner == mine.owner { Owner::new(mine.owner.get() + 8) } else { mine.owner };
            (expected, mine) = (now, DurablePrefix { epoch: Epoch::new(now.epoch.get() + 1), owner, ..now });
        }
        let answer = self.send(self.claim_request(&expected, &mine), fate);
        let moved = self.world.store.prefix().filter(|p| p.epoch == expected.epoch && p.batch_id > expected.batch_id);
        if answer != Some(true) && moved.is_some() {
            self.note(Situation::AppendBetweenReadAndClaim);
        }
        let claimed = answer.unwrap_or(!self.keep(Rule::ClaimIsConfirmed));
        self.become_role(at, if claimed { Role::Claimed { mine } } else { Role::Unsure { expected, mine } });
    }

    fn claim_request(&self, expected: &DurablePrefix, mine: &DurablePrefix) -> Request {
        if !self.keep(Rule::ClaimRaisesEpoch) {
            let key = prefix_key().clone();
            let checks = vec![Check::Equals(key.clone(), expected.encode().into())];
            return Request { sort: Sort::Claim, checks, puts: vec![(key, mine.encode().into())] };
        }
        if expected.is_mooncakes() {
            return self.take_over_request(expected, mine);
        }
        let txn = claim_txn(keys(), expected, mine).expect("the next claim of what was read");
        let mut request = Request::of(Sort::Claim, txn);
        if !self.keep(Rule::ClaimComparesPrefix) {
            request.checks.clear();
        }
        request
    }

    pub(super) fn look_as_claimant(&mut self, at: usize, expected: DurablePrefix, mine: DurablePrefix) {
        match judge_claim(&expected, &mine, self.world.store.prefix()) {
            ClaimVerdict::Claimed => {
                self.note(Situation::ClaimFoundByReading);
                self.become_role(at, Role::Claimed { mine });
            }
            ClaimVerdict::Resend => {
                self.note(Situation::ClaimSentAgain);
                self.become_role(at, Role::Ready { expected, mine });
            }
            ClaimVerdict::CatchUp(through) => {
                self.note(Situation::ClaimMoved);
                let known = self.verified();
                self.become_role(at, Role::Reading { through, known });
            }
            ClaimVerdict::Superseded(_) => {
                self.note(Situation::ClaimSuperseded);
                self.become_role(at, Role::Following);
            }
            ClaimVerdict::Corrupt(_) => self.alarm(at),
        }
    }

    pub(super) fn promote(&mut self, at: usize, mine: DurablePrefix) {
        if self.keep(Rule::CatchUpAfterClaim) && !self.catch_up(at, &mine, self.world.catalogue.len()) {
            return;
        }
        self.check_promoted(at, &mine);
        self.note_promoted(at);
        self.become_role(at, Role::Serving { at: mine });
    }

    /// S3 and S4, at the instant at which serving begins.
    fn check_promoted(&mut self, at: usize, mine: &DurablePrefix) {
        let truth = &self.world.truth;
        let state = &self.world.nodes[at].fold.entries;
        let claimed = truth.claims.contains(&(mine.epoch.get(), mine.owner.get()));
        let whole = truth.log.get(..mine.last_seq.get() as usize) == Some(&state[..]);
        let older = truth.told.iter().filter(|told| told.epoch < mine.epoch.get());
        let lost = older.clone().any(|told| state.get(told.seq as usize - 1) != Some(&told.content));
        if self.world.truth.lost {
            return;
        }
        if !claimed || !whole {
            self.broken(Invariant::S3);
        }
        if lost {
            self.broken(Invariant::S4);
        }
    }

    fn note_promoted(&self, at: usize) {
        for (other, node) in self.world.nodes.iter().enumerate().filter(|(other, _)| *other != at) {
            match &node.role {
                Role::Serving { .. } => self.note(Situation::TwoServe),
                Role::Writing(writing) => {
                    self.note(Situation::TwoServe);
                    let theirs = &writing.contents;
                    if writing.sent && writing.next != Next::ReadBatch && other != at {
                        self.note(Situation::PromotionWithUnknownBatch);
                    }
                    if theirs.iter().any(|content| self.world.nodes[at].fold.entries.contains(content)) {
                        self.note(Situation::PromotedOverLandedBatch);
                    }
                }
                _ => {}
            }
        }
        if self.world.nodes[at].restored {
            self.note(Situation::PromotedFromSnapshot);
        }
    }
}
