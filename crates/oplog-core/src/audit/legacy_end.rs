//! Owns what an audit does about the per-entry log beside its walk: base, `latest`, snapshots, holes, and entries above the base.

use ha_kv::{KvError, KvPair};
use ha_types::{BatchId, Seq};

use super::AuditSnapshot;
use super::reader::{Pages, PrefixRead};
use super::walk::Audit;
use crate::legacy::{LegacyHole, above_base_fault, parse_latest};
use crate::record::BatchRecord;
use crate::{DurablePrefix, FaultKind, ReplayFault};

/// The most snapshots that are listed.
const MOST_SNAPSHOTS: usize = 256;

/// How many accepted holes are named.
const MOST_NOTED: u64 = 64;

impl Audit<'_> {
    /// Where the entries end is known beforehand, if the log was cut over.
    pub(super) async fn look_before_legacy(&mut self, first: &PrefixRead) -> Result<(), KvError> {
        let mut end = self.read_latest().await?.and_then(Result::ok);
        if let Some(prefix) = first.found() {
            let base = self.base_of(prefix).await?;
            self.legacy.end_at(base);
            end = base;
        }
        self.expected_keys = self.expected_keys.saturating_add(end.map_or(0, Seq::get));
        Ok(())
    }

    async fn base_of(&self, prefix: &DurablePrefix) -> Result<Option<Seq>, KvError> {
        if prefix.batch_id == BatchId::ZERO {
            return Ok(Some(prefix.last_seq));
        }
        let one = BatchId::new(1);
        let record = self.reader.get(&self.keys.batch(one)).await?;
        let record = record.and_then(|record| BatchRecord::decode(record).ok());
        let record = record.filter(|record| record.header().batch_id == one);
        Ok(record.and_then(|record| record.header().first_seq.get().checked_sub(1)).map(Seq::new))
    }

    async fn read_latest(&self) -> Result<Option<Result<Seq, ReplayFault>>, KvError> {
        let key = self.keys.legacy_latest();
        Ok(self.reader.get(&key).await?.map(|value| parse_latest(&key, &value)))
    }

    /// Something below `snapshot/`.
    pub(super) fn legacy_snapshot(&mut self, pair: KvPair) {
        let below = self.keys.legacy_snapshots().0;
        let id = pair.key.strip_prefix(&below[..]).and_then(|rest| rest.strip_suffix(b"/sequence_id"));
        if id.is_none_or(|id| id.is_empty() || id.contains(&b'/')) {
            return self.stray(&pair, "only `snapshot/{id}/sequence_id` of the original's snapshots");
        }
        let sequence = parse_latest(&pair.key, &pair.value);
        self.report.faults.extend(sequence.as_ref().err().cloned());
        let legacy = &mut self.legacy.summary;
        legacy.snapshot_count += 1;
        if legacy.snapshots.len() < MOST_SNAPSHOTS {
            legacy.snapshots.push(AuditSnapshot { key: pair.key.escape_ascii().to_string(), sequence });
        }
    }

    /// Judges where the entries end, the prefix being `now`.
    pub(super) async fn end_legacy(&mut self, now: &PrefixRead) -> Result<(), KvError> {
        let base = match now {
            // It never changes, and truncation may have taken batch 1 since it was told.
            PrefixRead::Found(prefix) => self.base_of(prefix).await?.or(self.legacy.base()),
            // A prefix that was lost leaves batch 1, if there is one.
            PrefixRead::Absent | PrefixRead::Undecodable(_) => self.chain.base(),
        };
        let cut_over = now.found().is_some() || self.chain.summary().batches() > 0;
        let latest = self.judge_latest(cut_over).await?;
        self.legacy.end_at(base);
        let end = if cut_over { base } else { latest };
        if let Some(end) = end {
            self.entries_through(end).await?;
            self.legacy.nothing_through(end);
        }
        let holes = self.legacy.take_holes();
        if !holes.is_empty() {
            tokio::time::sleep(self.options.second_look).await;
        }
        for hole in holes {
            self.second_look_at(hole, base).await?;
        }
        if let Some(base) = base {
            self.entries_above(base).await?;
        }
        if self.legacy.has_more_keys() {
            self.report.notes.push("there are so many keys that the key sequences of some were not checked".to_owned());
        }
        self.report.legacy = std::mem::take(&mut self.legacy.summary);
        (self.report.legacy.base, self.report.legacy.latest) = (base, latest);
        Ok(())
    }

    /// `latest` counts until the log is cut over.
    async fn judge_latest(&mut self, cut_over: bool) -> Result<Option<Seq>, KvError> {
        let key = self.keys.legacy_latest();
        let last = self.legacy.last();
        match (self.read_latest().await?, cut_over) {
            (Some(Ok(latest)), _) => {
                if latest < last && !cut_over {
                    self.report.notes.push(format!("latest lags: it says {latest}, and entry {last} is there"));
                }
                return Ok(Some(latest));
            }
            (Some(Err(fault)), true) => {
                self.report.notes.push(format!("latest no longer counts, and is no number: {}", fault.found));
            }
            (Some(Err(fault)), false) => self.report.faults.add(fault),
            (None, false) if last > Seq::ZERO => {
                // An original that begins writes an entry first.
                tokio::time::sleep(self.options.second_look).await;
                if let Some(Ok(latest)) = self.read_latest().await? {
                    return Ok(Some(latest));
                }
                let found = format!("no such key, beside entry {last}");
                let expected = "the latest sequence in decimal";
                self.report.faults.add(ReplayFault::new(FaultKind::LegacyLatest, &key, expected, found));
            }
            (None, _) => {}
        }
        Ok(None)
    }

    /// The entries that were added behind the walk, up to `through`.
    async fn entries_through(&mut self, through: Seq) -> Result<(), KvError> {
        if self.legacy.last() >= through {
            return Ok(());
        }
        let mut pages = Pages::of(self.keys.legacy_range(self.legacy.last(), through));
        while let Some(pairs) = pages.next(&self.reader).await? {
            for pair in &pairs {
                if let Some(seq) = self.keys.legacy_seq(&pair.key) {
                    self.report.keys += 1;
                    self.report.bytes += pair.value.len() as u64;
                    let faults = self.legacy.entry(seq, &pair.value);
                    self.report.faults.extend(faults);
                }
            }
            self.settle_holes().await?;
        }
        Ok(())
    }

    /// Looks again whether `hole` is still one. What was removed since, oldest first, and what lies above the base is none.
    async fn second_look_at(&mut self, hole: LegacyHole, base: Option<Seq>) -> Result<(), KvError> {
        let last = base.map_or(hole.last, |base| hole.last.min(base));
        let mut next = hole.first;
        if next > last {
            return Ok(());
        }
        let mut pages = Pages::of(self.keys.legacy_range(Seq::new(hole.first.get().saturating_sub(1)), last));
        while let Some(pairs) = pages.next(&self.reader).await? {
            for pair in &pairs {
                let Some(seq) = self.keys.legacy_seq(&pair.key) else { continue };
                let fault = self.legacy.late_entry(seq, &pair.value);
                self.report.faults.extend(fault);
                if let Some(before) = seq.get().checked_sub(1).filter(|before| *before >= next.get()) {
                    self.still_missing(LegacyHole { first: next, last: Seq::new(before) }).await?;
                }
                next = seq.next().unwrap_or(seq);
            }
        }
        if next <= last { self.still_missing(LegacyHole { first: next, last }).await } else { Ok(()) }
    }

    /// The holes after which so much came that nobody can still be writing what is missing.
    pub(super) async fn settle_holes(&mut self) -> Result<(), KvError> {
        for hole in self.legacy.take_settled() {
            self.second_look_at(hole, self.legacy.base()).await?;
        }
        Ok(())
    }

    async fn still_missing(&mut self, hole: LegacyHole) -> Result<(), KvError> {
        // If all below it was removed meanwhile, oldest first, there is no hole.
        if hole.first.get() == 1 || self.reader.has_entry_below(hole.first).await? {
            self.hole(hole);
        }
        Ok(())
    }

    /// `hole` is missing for good.
    fn hole(&mut self, hole: LegacyHole) {
        let LegacyHole { first, last } = hole;
        let key = self.keys.legacy_entry(first);
        if self.options.accept_holes && first.get() > 1 {
            return self.accepted(hole);
        }
        let (kind, expected) = match first.get() {
            1 if self.report.snapshot_of_ours => {
                let note = format!(
                    "entries {hole} are gone from the legacy log's start; whether a snapshot in the catalogue holds them was not checked"
                );
                return self.report.notes.push(note);
            }
            1 => (FaultKind::LegacyStartGone, format!("entry {first}, or a snapshot of ours that holds what it said")),
            _ => (FaultKind::LegacyGap, format!("entry {first}")),
        };
        let found = match first == last {
            true => "no such key".to_owned(),
            false => format!("no such key, and none up to entry {last}"),
        };
        self.report.faults.add(ReplayFault::new(kind, &key, expected, found).at(first));
    }

    fn accepted(&mut self, hole: LegacyHole) {
        self.legacy.summary.accepted_holes += 1;
        match self.legacy.summary.accepted_holes {
            count if count < MOST_NOTED => {
                self.report.notes.push(format!("entries {hole} of the legacy log are missing, and that is accepted"));
            }
            MOST_NOTED => self.report.notes.push("there are more holes in the legacy log that are accepted".to_owned()),
            _ => {}
        }
    }

    /// Entries that are not in the log, each an alarm.
    async fn entries_above(&mut self, base: Seq) -> Result<(), KvError> {
        let mut pages = Pages::of(self.keys.legacy_range(base, Seq::new(u64::MAX)));
        while let Some(pairs) = pages.next(&self.reader).await? {
            for pair in &pairs {
                if let Some(seq) = self.keys.legacy_seq(&pair.key) {
                    self.legacy.summary.above_base += 1;
                    self.report.faults.add(above_base_fault(&pair.key, seq, &pair.value, base));
                }
            }
        }
        Ok(())
    }
}
