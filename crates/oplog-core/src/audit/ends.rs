//! Owns the end of an audit: the durable prefix, read after all that it covers, and what has to fit it.

use ha_kv::KvError;
use ha_types::{BatchId, Owner};

use super::reader::{Pages, PrefixRead};
use super::walk::{Audit, Walk};
use crate::{DurablePrefix, FaultKind, LogKey, ReplayFault};

/// The most bytes of a value that are shown.
const MOST_SHOWN: usize = 256;

impl Audit<'_> {
    /// Judges what moves while others write, `first` being the prefix as it was before the walk.
    pub(super) async fn end(&mut self, first: &PrefixRead) -> Result<(), KvError> {
        self.report.snapshot_of_ours |= self.reader.has_snapshot().await?;
        self.report.election = self.shown(&self.keys.old_master_view()).await?;
        self.report.producer_view = self.shown(&self.keys.producer_view()).await?;
        let mut now = self.reader.prefix().await?;
        if self.is_doubtful(first, &now) {
            now = self.second_look().await?;
        }
        self.judge_prefix(first, &now);
        if let PrefixRead::Found(prefix) = now {
            self.report.prefix = Some(prefix);
            self.judge_batches(&prefix).await?;
        }
        self.judge_start();
        self.judge_producer_view();
        self.report.batches = self.chain.summary().clone();
        let owners = [first.found(), now.found()].into_iter().flatten().map(|prefix| prefix.owner);
        self.report.owners = owners.filter(|owner| *owner != Owner::NOBODY).collect();
        self.report.owners.dedup();
        #[cfg(feature = "legacy")]
        self.end_legacy(&now).await?;
        Ok(())
    }

    async fn shown(&self, key: &[u8]) -> Result<Option<bytes::Bytes>, KvError> {
        let value = self.reader.get(key).await?;
        Ok(value.map(|value| value.slice(..value.len().min(MOST_SHOWN))))
    }

    /// Whether the prefix may have been read in an unlucky moment, or from the past.
    fn is_doubtful(&self, first: &PrefixRead, now: &PrefixRead) -> bool {
        match now {
            PrefixRead::Undecodable(_) => true,
            PrefixRead::Absent => self.needs_prefix(first),
            PrefixRead::Found(now) => {
                now.batch_id < self.chain.last_id() || first.found().is_some_and(|first| !first.may_become(now))
            }
        }
    }

    /// Whether a missing prefix was lost, and not merely never made.
    fn needs_prefix(&self, first: &PrefixRead) -> bool {
        let batches = self.chain.summary().batches() > 0;
        batches || self.report.producer_view.is_some() || self.report.snapshot_of_ours || *first != PrefixRead::Absent
    }

    fn judge_prefix(&mut self, first: &PrefixRead, now: &PrefixRead) {
        let key = self.keys.durable_prefix();
        match now {
            PrefixRead::Undecodable(fault) => self.report.faults.add(fault.clone()),
            PrefixRead::Absent if self.needs_prefix(first) => {
                let beside = match (self.chain.summary().first, first.found()) {
                    (_, Some(first)) => format!("a durable prefix, as there was one ({first})"),
                    (Some(id), None) => format!("a durable prefix, as there is batch {id}"),
                    (None, None) if self.report.producer_view.is_some() => {
                        "a durable prefix, as there is Mooncake's producer view".to_owned()
                    }
                    (None, None) => "a durable prefix, as there is a snapshot".to_owned(),
                };
                self.report.faults.add(ReplayFault::new(FaultKind::PrefixMissing, &key, beside, "no such key"));
            }
            PrefixRead::Absent => {}
            PrefixRead::Found(now) => {
                if let Some(first) = first.found().filter(|first| !first.may_become(now)) {
                    let expected = format!("one that ({first}) can become, which it was when the audit began");
                    self.report.faults.add(ReplayFault::new(FaultKind::PrefixRegressed, &key, expected, now));
                }
            }
        }
    }

    async fn judge_batches(&mut self, prefix: &DurablePrefix) -> Result<(), KvError> {
        if self.chain.last_id() > prefix.batch_id {
            self.judge_above(prefix).await?;
        } else {
            self.walk_to(prefix.batch_id).await?;
            if self.chain.last_id() < prefix.batch_id {
                tokio::time::sleep(self.options.second_look).await;
                self.walk_to(prefix.batch_id).await?;
            }
            let faults = self.chain.end_faults(Some(prefix));
            self.report.faults.extend(faults);
        }
        for range in &self.chain.summary().epochs {
            if let Some(fault) = super::BatchChain::above_epoch(&self.keys, range.first, range.epoch, prefix) {
                self.report.faults.add(fault);
            }
        }
        Ok(())
    }

    /// What was added behind the walk.
    async fn walk_to(&mut self, through: BatchId) -> Result<(), KvError> {
        if self.chain.last_id() < through {
            let (start, end) = self.keys.batch_range(self.chain.last_id(), through);
            self.walk(start, &end, Walk::Batches).await?;
        }
        Ok(())
    }

    /// There are batches above a prefix that was read after them. Those that were added later still are not looked at.
    async fn judge_above(&mut self, prefix: &DurablePrefix) -> Result<(), KvError> {
        let mut pages = Pages::of(self.keys.batch_range(prefix.batch_id, self.chain.last_id()));
        while let Some(pairs) = pages.next(&self.reader).await? {
            for pair in &pairs {
                if let LogKey::Batch(id) = self.keys.classify(&pair.key) {
                    self.report.faults.extend(super::BatchChain::above_prefix(&self.keys, id, prefix));
                }
            }
        }
        let record = self.reader.get(&self.keys.batch(prefix.batch_id)).await?;
        // What cannot be read was met by the walk.
        let record = record.and_then(|record| crate::record::BatchRecord::decode(record).ok());
        if let Some(record) = record.filter(|record| record.header().batch_id == prefix.batch_id) {
            let fault = self.chain.end_fault(prefix.batch_id, record.last_seq(), prefix);
            self.report.faults.extend(fault);
        }
        Ok(())
    }

    fn judge_start(&mut self) {
        let Some(fault) = self.chain.start_fault() else { return };
        match self.report.snapshot_of_ours {
            false => self.report.faults.add(fault),
            true => {
                let note = "batches are gone from the log's start; whether a snapshot in the catalogue holds them was not checked";
                self.report.notes.push(note.to_owned());
            }
        }
    }

    #[cfg(feature = "mooncake")]
    fn judge_producer_view(&mut self) {
        let Some(view) = &self.report.producer_view else { return };
        if let Err(error) = crate::mooncake::ProducerView::decode(view) {
            let (key, expected) =
                (self.keys.producer_view(), "a decimal from 1 to 2^63 - 1 without sign or leading zeros");
            self.report.faults.add(ReplayFault::new(FaultKind::ForeignState, &key, expected, error.found));
        }
    }

    #[cfg(not(feature = "mooncake"))]
    fn judge_producer_view(&mut self) {
        if self.report.producer_view.is_some() {
            let expected = "a build with the feature `mooncake`, which checks what Mooncake writes";
            let key = self.keys.producer_view();
            self.report.faults.add(ReplayFault::new(FaultKind::ForeignState, &key, expected, "its producer view"));
        }
    }
}
