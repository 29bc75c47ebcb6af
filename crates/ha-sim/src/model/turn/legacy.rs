//! Owns the steps of a writer of the legacy per-entry log: ours, which the cutover fences, and the original's, which nothing can.
//! Our transactions and the verdict about one are the product's own; a reading takes three steps, as it does there.

use bytes::Bytes;
use ha_kv::KvPair;
use ha_types::Seq;
use oplog_core::Outcome;
use oplog_core::proof::legacy::{LegacyReading, LegacySent, LegacyVerdict, judge_legacy, legacy_txn};

use super::Turn;
use crate::model::action::Fate;
use crate::model::fold::{Content, base};
use crate::model::invariant::Invariant;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::store::{Check, Request, Sort, keys, prefix_key};
use crate::model::truth::Told;
use crate::model::world::{LegacyNext, LegacyWriting, Role, content};

impl Turn<'_> {
    pub(super) fn legacy_commit(&mut self, at: usize, last: u64) {
        let node = &mut self.world.nodes[at];
        let content = content(at, node.committed);
        node.committed += 1;
        let writing = LegacyWriting { last, content, unknown: false, doubted: false, next: LegacyNext::Send };
        self.become_role(at, Role::LegacyWriting(writing));
    }

    pub(super) fn send_legacy(&mut self, at: usize, mut writing: LegacyWriting, fate: Fate) {
        match self.send(self.legacy_request(&writing), fate) {
            Some(true) => return self.legacy_committed(at, &writing),
            Some(false) => {}
            None => writing.unknown = true,
        }
        // The original sends again without a look.
        writing.next = if self.model.is_original() { LegacyNext::Send } else { LegacyNext::ReadPrefix };
        self.become_role(at, Role::LegacyWriting(writing));
    }

    fn legacy_request(&self, writing: &LegacyWriting) -> Request {
        let entry = KvPair::new(keys().legacy_entry(Seq::new(writing.last + 1)), vec![writing.content]);
        let (key, latest) = (entry.key.clone(), keys().legacy_latest());
        if self.model.is_original() {
            return Request { sort: Sort::Legacy, checks: Vec::new(), puts: vec![(entry.key, entry.value)] };
        }
        let new_latest = (writing.last + 1).to_string().into();
        let txn = legacy_txn(keys(), writing.expected().as_ref(), new_latest, vec![entry]);
        let mut request = Request::of(Sort::Legacy, txn);
        if !self.keep(Rule::LegacyPutsLatest) {
            request.puts.retain(|(key, _)| *key != latest);
            request.checks.retain(|check| check.key() != &latest);
        }
        if !self.keep(Rule::LegacyComparesPrefix) {
            request.checks.retain(|check| check.key() != prefix_key());
        }
        if !self.keep(Rule::LegacyFencesAnother) {
            request.checks.retain(|check: &Check| *check.key() != latest && *check.key() != key);
        }
        request
    }

    /// The observer's side of a legacy entry.
    pub(super) fn legacy_written(&mut self, after_cutover: bool) {
        if after_cutover {
            self.broken(Invariant::L14);
            if self.model.is_original() {
                self.note(Situation::OriginalAboveBase);
            }
            return;
        }
        self.world.truth.log = (1..).map_while(|seq| self.world.store.legacy_entry(seq)).collect();
    }

    /// One of the three reads: the prefix with its base, then `latest`, then the entry.
    pub(super) fn look_as_legacy(&mut self, at: usize, mut writing: LegacyWriting) {
        let store = &self.world.store;
        writing.next = match writing.next {
            LegacyNext::Send => unreachable!("nothing is read before a transaction is sent"),
            LegacyNext::ReadPrefix => {
                let prefix = store.prefix();
                LegacyNext::ReadLatest { prefix: prefix.map(|prefix| (prefix, base(store, &prefix))) }
            }
            LegacyNext::ReadLatest { prefix } => {
                LegacyNext::ReadEntry { prefix, latest: store.get(&keys().legacy_latest()).cloned() }
            }
            LegacyNext::ReadEntry { prefix, latest } => {
                let key = keys().legacy_entry(Seq::new(writing.last + 1));
                let reading = LegacyReading { prefix, latest, stored: vec![store.get(&key).cloned()] };
                writing.next = LegacyNext::ReadPrefix;
                return self.judge_legacy_reading(at, writing, &reading);
            }
        };
        self.become_role(at, Role::LegacyWriting(writing));
    }

    fn judge_legacy_reading(&mut self, at: usize, mut writing: LegacyWriting, reading: &LegacyReading) {
        let sent = LegacySent {
            first: Seq::new(writing.last + 1),
            values: vec![Bytes::copy_from_slice(&[writing.content])],
            expected: writing.expected(),
            unknown: writing.unknown,
        };
        let outcomes = match judge_legacy(&sent, reading) {
            LegacyVerdict::Committed => {
                self.note(Situation::LegacyFoundByReading);
                return self.legacy_committed(at, &writing);
            }
            LegacyVerdict::Resend => {
                writing.next = LegacyNext::Send;
                return self.become_role(at, Role::LegacyWriting(writing));
            }
            LegacyVerdict::Doubtful(_) if !writing.doubted && self.keep(Rule::LegacyDoubtIsConfirmed) => {
                self.note(Situation::LegacyDoubt);
                writing.doubted = true;
                return self.become_role(at, Role::LegacyWriting(writing));
            }
            LegacyVerdict::Ended(outcomes) | LegacyVerdict::Doubtful(outcomes) => outcomes,
        };
        self.note(if reading.prefix.is_some() { Situation::LegacyFenced } else { Situation::TwoLegacyWriters });
        let alone = (1..).map_while(|seq| self.world.store.legacy_entry(seq)).all(|c| c / 16 == writing.content / 16);
        if reading.prefix.is_none() && alone {
            self.broken(Invariant::Calm);
        }
        for outcome in outcomes {
            match outcome {
                Outcome::Durable => {
                    self.note(Situation::LegacyFoundByReading);
                    self.legacy_durable(writing.last + 1, writing.content);
                }
                Outcome::Never => self.world.truth.tell_never(writing.content),
                Outcome::Unknown => {}
            }
        }
        self.become_role(at, Role::Out);
    }

    fn legacy_committed(&mut self, at: usize, writing: &LegacyWriting) {
        let seq = writing.last + 1;
        self.legacy_durable(seq, writing.content);
        self.become_role(at, Role::Legacy { last: seq });
    }

    fn legacy_durable(&mut self, seq: u64, content: Content) {
        // Before the cutover the entry itself is the boundary, after it the base.
        let through = match self.world.store.prefix() {
            Some(prefix) => prefix.last_seq.get(),
            None => self.world.truth.log.len() as u64,
        };
        self.world.truth.tell_durable(Told { seq, content, epoch: 0 }, Some(through));
    }

    /// The original writes `latest` now and then, as it stands.
    pub(super) fn put_latest(&mut self, last: u64) {
        let puts = vec![(keys().legacy_latest(), last.to_string().into())];
        let request = Request { sort: Sort::Legacy, checks: Vec::new(), puts };
        self.arrive(&request);
    }
}
