//! Owns the creation of the first prefix, over a legacy log or over nothing (design §3.1, §3.4).

use bytes::Bytes;
use ha_types::{BatchId, Seq};
use oplog_core::DurablePrefix;
use oplog_core::proof::legacy::cutover_txn;

use super::Turn;
use crate::model::action::Fate;
use crate::model::invariant::Invariant;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::store::{Check, Request, Sort, keys, prefix_key};
use crate::model::world::Role;

impl Turn<'_> {
    pub(super) fn send_first_prefix(&mut self, at: usize, latest: Option<u64>, fate: Fate) {
        let request = self.first_prefix_request(latest);
        let answer = self.send(request, fate);
        if answer == Some(false) {
            match self.world.store.prefix() {
                Some(_) => self.note(Situation::TwoCutovers),
                None if self.old_primary_elected() => self.note(Situation::ElectionRace),
                None => self.note(Situation::CutoverRace),
            }
        }
        self.become_role(
            at,
            match answer {
                Some(true) => Role::Following,
                Some(false) => Role::Starting,
                None => Role::CuttingOver { latest, unsure: true },
            },
        );
    }

    fn first_prefix_request(&self, latest: Option<u64>) -> Request {
        let first = DurablePrefix { last_seq: Seq::new(latest.unwrap_or(0)), ..DurablePrefix::FRESH };
        let latest: Option<Bytes> = latest.map(|seq| seq.to_string().into());
        let mut request = Request::of(Sort::FirstPrefix, cutover_txn(keys(), latest.as_ref(), None, &first));
        if !self.keep(Rule::CutoverComparesPrefix) {
            request.checks.retain(|check| check.key() != prefix_key());
        }
        if !self.keep(Rule::MissingIsNotFresh) {
            request.checks.retain(|check| *check.key() != keys().batch(BatchId::new(1)));
        }
        if !self.keep(Rule::CutoverComparesElection) {
            request.checks.retain(|check| *check.key() != keys().old_master_view());
        }
        if !self.keep(Rule::CutoverLooksForOldPrimary) {
            // The key is compared as it was read, whatever that was.
            self.compare_election_as_it_is(&mut request);
        }
        if !self.keep(Rule::CutoverComparesLatest) {
            request.checks.retain(|check| *check.key() != keys().legacy_latest());
        }
        request
    }

    /// L14, and the log that the entries up to the base make.
    pub(super) fn first_prefix_landed(&mut self, new: &DurablePrefix) {
        let base = new.last_seq.get();
        self.world.truth.created += 1;
        let entries: Option<Vec<_>> = (1..=base).map(|seq| self.world.store.legacy_entry(seq)).collect();
        let exact = self.world.store.latest().map_or(0, Seq::get) == base;
        if self.world.truth.created > 1 || !exact || self.old_primary_elected() {
            self.broken(Invariant::L14);
        }
        match entries {
            Some(entries) => self.world.truth.log = entries,
            None => self.broken(Invariant::L14),
        }
        self.world.truth.base = base;
    }

    /// Whether a primary of the original's is elected.
    pub(super) fn old_primary_elected(&self) -> bool {
        self.world.store.get(&keys().old_master_view()).is_some()
    }

    fn compare_election_as_it_is(&self, request: &mut Request) {
        let key = keys().old_master_view();
        request.checks.retain(|check| *check.key() != key);
        request.checks.push(match self.world.store.get(&key) {
            Some(value) => Check::Equals(key, value.clone()),
            None => Check::Absent(key),
        });
    }

    /// A primary of the original's is elected, or is one no longer: the store's own doing, by a lease.
    pub(in crate::model) fn old_election(&mut self, elected: bool) {
        self.world.spent.elections += 1;
        match elected {
            true => self.world.store.put(keys().old_master_view(), "10.0.0.9:50051".into()),
            false => self.world.store.delete(&keys().old_master_view()),
        }
    }
}
