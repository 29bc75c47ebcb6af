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
use crate::model::store::{Request, Sort, keys, prefix_key};
use crate::model::world::Role;

impl Turn<'_> {
    pub(super) fn send_first_prefix(&mut self, at: usize, latest: Option<u64>, fate: Fate) {
        let request = self.first_prefix_request(latest);
        let answer = self.send(request, fate);
        if answer == Some(false) {
            match self.world.store.prefix() {
                Some(_) => self.note(Situation::TwoCutovers),
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
        if self.world.truth.created > 1 || !exact {
            self.broken(Invariant::L14);
        }
        match entries {
            Some(entries) => self.world.truth.log = entries,
            None => self.broken(Invariant::L14),
        }
        self.world.truth.base = base;
    }
}
