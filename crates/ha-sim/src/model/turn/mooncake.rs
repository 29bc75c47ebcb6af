//! Owns the steps of a primary of Mooncake's batches, and the take-over of its log. The take-over's transaction is the product's own; what
//! the primary writes is as the original writes it.

use bytes::Bytes;
use ha_types::BatchId;
use oplog_core::DurablePrefix;
use oplog_core::mooncake::encode;
use oplog_core::proof::mooncake::{OldLogRead, take_over};

use super::Turn;
use crate::model::action::Fate;
use crate::model::fold::Content;
use crate::model::rules::Rule;
use crate::model::situation::Situation;
use crate::model::store::{Check, Request, Sort, keys, prefix_key};
use crate::model::truth::Told;
use crate::model::world::{Role, content};

/// The view under which the original's primary writes; a take-over puts the next one.
pub(in crate::model) const PRODUCER_VIEW: &str = "7";

/// The record of one entry and the prefix that names it.
pub(in crate::model) fn mooncakes_batch(batch: u64, seq: u64, content: Content) -> Vec<(Bytes, Bytes)> {
    let record = encode::batch(batch, seq, &[(1, "default", "k", &[content])]);
    vec![(keys().batch(BatchId::new(batch)), record.into()), (prefix_key().clone(), prefix(batch, seq))]
}

fn prefix(batch: u64, last: u64) -> Bytes {
    encode::prefix(batch, last, None).into()
}

impl Turn<'_> {
    /// It compares its prefix and its view, as the original does, and knows nothing of what comes without an answer.
    pub(super) fn send_as_mooncake(&mut self, at: usize, batch: u64, last: u64, fate: Fate) {
        let content = content(at, self.world.nodes[at].committed);
        self.world.nodes[at].committed += 1;
        let (batch, last, before) = (batch + 1, last + 1, prefix(batch, last));
        let request = Request {
            sort: Sort::Append,
            checks: vec![
                Check::Equals(prefix_key().clone(), before),
                Check::Equals(keys().producer_view(), PRODUCER_VIEW.into()),
            ],
            puts: mooncakes_batch(batch, last, content),
        };
        match self.send(request, fate) {
            Some(true) => {
                let durable = self.world.store.prefix().map(|p| p.last_seq.get());
                self.world.truth.tell_durable(Told { seq: last, content, epoch: 0 }, durable);
                self.become_role(at, Role::Mooncake { batch, last });
            }
            Some(false) => {
                self.note(Situation::OriginalFenced);
                self.become_role(at, Role::Out);
            }
            None => self.become_role(at, Role::Out),
        }
    }

    /// The claim `mine` of a log that Mooncake writes. Its view was read with its prefix: as long as that stands nobody has stepped it.
    pub(super) fn take_over_request(&self, expected: &DurablePrefix, mine: &DurablePrefix) -> Request {
        let read = OldLogRead {
            prefix: prefix(expected.batch_id.get(), expected.last_seq.get()),
            view: Some(PRODUCER_VIEW.into()),
            election: None,
        };
        let mut request =
            Request::of(Sort::Claim, take_over(keys(), read, mine).expect("the take-over of what was read"));
        if !self.keep(Rule::TakeOverComparesPrefix) {
            request.checks.retain(|check| check.key() != prefix_key());
        }
        request
    }
}
