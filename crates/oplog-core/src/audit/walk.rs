//! Owns the walk over all keys of one log, page by page, and what each of them is.

use bytes::Bytes;
use ha_kv::{KvError, KvPair};
use ha_types::{BatchId, Seq};

use super::reader::{PrefixRead, Reader};
use super::{AuditFaults, AuditOptions, AuditProgress, AuditReport, BatchChain};
use crate::{BatchStorage, FaultKind, LogKey, LogKeys, ReplayFault};

/// One audit on its way.
pub(super) struct Audit<'a> {
    pub(super) reader: Reader,
    pub(super) keys: LogKeys,
    pub(super) options: AuditOptions,
    pub(super) progress: &'a mut (dyn FnMut(&AuditProgress) + Send),
    pub(super) expected_keys: u64,
    pub(super) report: AuditReport,
    pub(super) chain: BatchChain,
    #[cfg(feature = "legacy")]
    pub(super) legacy: super::legacy_chain::LegacyChain,
    /// A key of the per-entry log was met, which this build cannot check.
    #[cfg(not(feature = "legacy"))]
    unchecked: bool,
}

/// Which keys a walk judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// All of them.
    Whole,
    /// Batch records alone: what was added behind a walk that saw all the rest.
    Batches,
}

impl<'a> Audit<'a> {
    pub(super) fn new(
        storage: &BatchStorage,
        options: &AuditOptions,
        progress: &'a mut (dyn FnMut(&AuditProgress) + Send),
    ) -> Self {
        let keys = storage.keys().clone();
        Self {
            reader: Reader::new(storage, options),
            options: options.clone(),
            progress,
            expected_keys: 0,
            report: AuditReport { faults: AuditFaults::at_most(options.max_faults), ..AuditReport::default() },
            chain: BatchChain::new(keys.clone()),
            #[cfg(feature = "legacy")]
            legacy: super::legacy_chain::LegacyChain::new(keys.clone()),
            #[cfg(not(feature = "legacy"))]
            unchecked: false,
            keys,
        }
    }

    pub(super) async fn run(mut self) -> Result<AuditReport, KvError> {
        let first = self.reader.prefix().await?;
        self.expected_keys = first.found().map_or(0, |prefix| prefix.batch_id.get());
        self.report.snapshot_of_ours = self.reader.has_snapshot().await?;
        #[cfg(feature = "legacy")]
        self.look_before_legacy(&first).await?;
        let (start, end) = self.keys.whole_log();
        self.walk(start, &end, Walk::Whole).await?;
        self.end(&first).await?;
        self.tell();
        Ok(self.report)
    }

    /// Judges the keys with `start <= key < end`. A page that shows a hole among the batches is read a second time from there on.
    pub(super) async fn walk(&mut self, mut start: Bytes, end: &[u8], walk: Walk) -> Result<(), KvError> {
        let mut read_again: Option<BatchId> = None;
        'pages: loop {
            let page = self.reader.page(&start, end).await?;
            let next = page.pairs.last().filter(|_| page.more).map(|last| after(&last.key));
            for pair in page.pairs {
                let kind = self.keys.classify(&pair.key);
                if let LogKey::Batch(id) = kind
                    && let Some(missing) = self.chain.hole_before(id)
                {
                    if read_again != Some(missing) {
                        read_again = Some(missing);
                        start = self.keys.batch(missing);
                        continue 'pages;
                    }
                    // Truncation goes oldest first: if nothing below the hole is left, there is no hole.
                    if self.reader.oldest_batch().await?.is_none_or(|oldest| oldest > missing) {
                        self.chain.shortened_to(id);
                    }
                }
                self.pair(kind, pair, walk);
            }
            #[cfg(feature = "legacy")]
            self.settle_holes().await?;
            self.tell();
            match next {
                Some(next) => start = next,
                None => return Ok(()),
            }
            tokio::task::yield_now().await;
        }
    }

    fn pair(&mut self, kind: LogKey, pair: KvPair, walk: Walk) {
        let zero = matches!(kind, LogKey::Batch(BatchId::ZERO) | LogKey::LegacyEntry(Seq::ZERO));
        if walk == Walk::Batches && (zero || !matches!(kind, LogKey::Batch(_))) {
            return;
        }
        self.report.keys += 1;
        self.report.bytes += pair.value.len() as u64;
        match kind {
            _ if zero => self.stray(&pair, "no entry or batch 0: numbers begin at 1"),
            LogKey::Batch(id) => {
                let faults = self.chain.value(id, pair.value);
                self.report.faults.extend(faults);
            }
            LogKey::DurablePrefix | LogKey::ProducerView => {}
            LogKey::Unknown => {
                let expected = match pair.key.starts_with(&self.keys.all_batches().0) {
                    true => "only batch records, each under 20 decimal digits",
                    false => "only keys of a log: entries, batches, durable_prefix, latest, producer_view, snapshot",
                };
                self.stray(&pair, expected);
            }
            LogKey::LegacyEntry(seq) => self.legacy_entry(seq, pair),
            LogKey::LegacyLatest => self.unchecked(&pair),
            LogKey::LegacySnapshot => self.legacy_snapshot(pair),
        }
    }

    pub(super) fn stray(&mut self, pair: &KvPair, expected: &str) {
        self.report.stray_keys += 1;
        let found = format!("this key, with a value of {} bytes", pair.value.len());
        self.report.faults.add(ReplayFault::new(FaultKind::StrayKey, &pair.key, expected, found));
    }

    #[cfg(feature = "legacy")]
    fn legacy_entry(&mut self, seq: Seq, pair: KvPair) {
        let faults = self.legacy.entry(seq, &pair.value);
        self.report.faults.extend(faults);
    }

    #[cfg(not(feature = "legacy"))]
    fn legacy_entry(&mut self, _: Seq, pair: KvPair) {
        self.unchecked(&pair);
    }

    #[cfg(not(feature = "legacy"))]
    fn legacy_snapshot(&mut self, pair: KvPair) {
        self.unchecked(&pair);
    }

    /// `latest` is read at the end, where it can be compared with what is there.
    #[cfg(feature = "legacy")]
    #[allow(clippy::unused_self, reason = "its other form says that nothing was checked")]
    fn unchecked(&mut self, _: &KvPair) {}

    #[cfg(not(feature = "legacy"))]
    fn unchecked(&mut self, pair: &KvPair) {
        if !std::mem::replace(&mut self.unchecked, true) {
            let expected = "a build with the feature `legacy`, which checks the per-entry log";
            self.report.faults.add(ReplayFault::new(FaultKind::ForeignState, &pair.key, expected, "its first key"));
        }
    }

    fn tell(&mut self) {
        let (report, expected_keys) = (&self.report, self.expected_keys.max(self.report.keys));
        let (keys, bytes, faults) = (report.keys, report.bytes, report.faults.total());
        (self.progress)(&AuditProgress { keys, bytes, expected_keys, faults });
    }

    pub(super) async fn second_look(&self) -> Result<PrefixRead, KvError> {
        tokio::time::sleep(self.options.second_look).await;
        self.reader.prefix().await
    }
}

/// The first key after `key`.
pub(super) fn after(key: &[u8]) -> Bytes {
    [key, b"\0"].concat().into()
}
