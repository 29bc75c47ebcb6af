//! Owns replaying the legacy log up to the base, and the holes found on the way. It writes nothing.

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
    let (mut missing, mut applied) = (Missing::default(), 0);
    let mut at = replica.applied();
    let mut scan = log.scan(at, base, page_bytes);
    let mut page = scan.next_page().await?;
    while !page.is_empty() {
        let apply = async {
            for (seq, value) in &page {
                pass(log, replica, &mut missing, at, Seq::new(seq.get() - 1), accept_holes)?;
                if missing.entries == 0 || accept_holes {
                    replica.apply_record(log.keys(), *seq, value, clock.now())?;
                    applied += 1;
                }
                at = *seq;
            }
            Ok::<_, CutoverError>(())
        };
        // The request is on its way before the page is applied: the first branch is polled first.
        let (next, done) = tokio::join!(scan.next_page(), apply);
        done?;
        page = next?;
        tokio::task::yield_now().await;
    }
    pass(log, replica, &mut missing, at, base, accept_holes)?;
    match missing.holes.first() {
        Some(first) if !accept_holes => {
            let key = log.keys().legacy_entry(first.first).escape_ascii().to_string();
            Err(CutoverError::Holes { key, missing: missing.entries, base, holes: missing.holes })
        }
        _ => Ok((applied, missing.holes)),
    }
}

/// Deals with the hole after `at` that ends at `last`, if it is one.
fn pass<S: StateMachine>(
    log: &LegacyLog,
    replica: &mut LegacyReplica<S>,
    missing: &mut Missing,
    at: Seq,
    last: Seq,
    accept_holes: bool,
) -> Result<(), CutoverError> {
    let Some(first) = at.next().filter(|first| *first <= last) else { return Ok(()) };
    if at == Seq::ZERO {
        let key = log.keys().legacy_entry(first);
        let expected = format!("entry {first}, or a snapshot of ours that holds what it said");
        let found = format!("no such key, and none up to {last}");
        return Err(ReplayFault::new(FaultKind::LegacyStartGone, &key, expected, found).at(first).into());
    }
    missing.note(LegacyHole { first, last });
    if accept_holes {
        replica.pass_hole(log.keys(), last)?;
    }
    Ok(())
}
