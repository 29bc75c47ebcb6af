//! Owns replaying the legacy log up to the base, and the holes found on the way: each is looked for a second time before it counts, for
//! one reading may be torn, or older than what an old primary wrote out of order. It writes nothing.

use bytes::Bytes;
use ha_types::{Clock, Seq};

use super::{CutoverError, LegacyHole};
use crate::legacy::{LegacyLog, LegacyReplica};
use crate::{FaultKind, ReplayFault, StateMachine};

/// What is missing below the base.
#[derive(Debug, Default)]
pub(super) struct Missing {
    holes: Vec<LegacyHole>,
    entries: u64,
}

impl Missing {
    fn note(&mut self, hole: LegacyHole) {
        self.entries = self.entries.saturating_add(hole.last.distance_from(hole.first)).saturating_add(1);
        if self.holes.len() < CutoverError::MAX_HOLES {
            self.holes.push(hole);
        }
    }
}

/// Applies the entries up to `base`. Without `accept_holes` the first hole ends the applying, the rest is read to say what all is
/// missing, and that is refused. Gives how many entries were applied and the holes that were passed, at most as many as an error lists.
pub(super) async fn replay<S: StateMachine>(
    log: &LegacyLog,
    replica: &mut LegacyReplica<S>,
    base: Seq,
    accept_holes: bool,
    page_bytes: usize,
    clock: &dyn Clock,
) -> Result<(u64, Vec<LegacyHole>), CutoverError> {
    let mut scan = log.scan(replica.applied(), base, page_bytes);
    let at = replica.applied();
    let mut replay =
        Replay { log, replica, accept_holes, page_bytes, clock, missing: Missing::default(), applied: 0, at };
    let mut page = scan.next_page().await?;
    while !page.is_empty() {
        // The request is on its way before the page is applied: the first branch is polled first.
        let (next, done) = tokio::join!(scan.next_page(), replay.page(&page));
        done?;
        page = next?;
        tokio::task::yield_now().await;
    }
    replay.close(base).await?;
    let Replay { missing, applied, .. } = replay;
    match missing.holes.first() {
        Some(first) if !accept_holes => {
            let key = log.keys().legacy_entry(first.first).escape_ascii().to_string();
            Err(CutoverError::Holes { key, missing: missing.entries, base, holes: missing.holes })
        }
        _ => Ok((applied, missing.holes)),
    }
}

/// How far a replay is.
struct Replay<'a, S> {
    log: &'a LegacyLog,
    replica: &'a mut LegacyReplica<S>,
    accept_holes: bool,
    page_bytes: usize,
    clock: &'a dyn Clock,
    missing: Missing,
    applied: u64,
    /// The last entry that was there, or the end of the last hole.
    at: Seq,
}

impl<S: StateMachine> Replay<'_, S> {
    async fn page(&mut self, page: &[(Seq, Bytes)]) -> Result<(), CutoverError> {
        for (seq, value) in page {
            self.close(Seq::new(seq.get() - 1)).await?;
            self.entry(*seq, value)?;
        }
        Ok(())
    }

    /// Whether the state is still made: without `accept_holes` up to the first hole.
    fn applies(&self) -> bool {
        self.missing.entries == 0 || self.accept_holes
    }

    fn entry(&mut self, seq: Seq, value: &Bytes) -> Result<(), CutoverError> {
        if self.applies() {
            self.replica.apply_record(self.log.keys(), seq, value, self.clock.now())?;
            self.applied += 1;
        }
        self.at = seq;
        Ok(())
    }

    /// Deals with what is missing up to `last`, if anything is. Once it is refused, what else is missing is only told.
    async fn close(&mut self, last: Seq) -> Result<(), CutoverError> {
        if self.at >= last {
            return Ok(());
        }
        if self.applies() {
            let mut again = self.log.scan(self.at, last, self.page_bytes);
            loop {
                let page = again.next_page().await?;
                if page.is_empty() {
                    break;
                }
                for (seq, value) in &page {
                    self.hole(Seq::new(seq.get() - 1))?;
                    self.entry(*seq, value)?;
                }
            }
        }
        self.hole(last)
    }

    /// Deals with the hole that ends at `last`, if it is one.
    fn hole(&mut self, last: Seq) -> Result<(), CutoverError> {
        let Some(first) = self.at.next().filter(|first| *first <= last) else { return Ok(()) };
        if self.at == Seq::ZERO {
            let key = self.log.keys().legacy_entry(first);
            let expected = format!("entry {first}, or a snapshot of ours that holds what it said");
            let found = format!("no such key, and none up to {last}");
            return Err(ReplayFault::new(FaultKind::LegacyStartGone, &key, expected, found).at(first).into());
        }
        self.missing.note(LegacyHole { first, last });
        if self.accept_holes {
            self.replica.pass_hole(self.log.keys(), last)?;
        }
        self.at = last;
        Ok(())
    }
}
