//! Owns what a standby remembers of the durable prefix, and the judgement of the next reading. Pure.

use oplog_core::{BatchId, DurablePrefix, FaultKind, Position};

use crate::Fault;

/// The last prefix that was accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(Option<DurablePrefix>);

impl Seen {
    pub(crate) fn last(&self) -> Option<&DurablePrefix> {
        self.0.as_ref()
    }

    pub(crate) fn accept(&mut self, prefix: DurablePrefix) {
        debug_assert!(self.0.is_none_or(|seen| seen.may_become(&prefix)));
        self.0 = Some(prefix);
    }

    /// Judges a prefix that decoded by the one before. `key` is only named.
    pub(crate) fn judge_follows(&self, key: &[u8], now: &DurablePrefix) -> Result<(), Fault> {
        match &self.0 {
            Some(seen) if !seen.may_become(now) => {
                let expected = format!("a durable prefix that can follow {seen}");
                Err(Fault::log(FaultKind::PrefixRegressed, key, expected, now))
            }
            _ => Ok(()),
        }
    }

    /// Judges whether a prefix covers what was applied.
    pub(crate) fn judge_covers(key: &[u8], now: &DurablePrefix, at: &Position) -> Result<(), Fault> {
        // ── applied ──┤ may equal the prefix, never pass it, in any number.
        if at.batch_id > now.batch_id || at.last_seq > now.last_seq || at.epoch > now.epoch {
            return Err(Fault::log(FaultKind::AppliedAbovePrefix, key, applied(at), now));
        }
        if at.batch_id == now.batch_id && at.last_seq != now.last_seq {
            let (kind, what) = match at.batch_id {
                BatchId::ZERO => (FaultKind::BaseNotHeld, "a log that begins where this state ends"),
                _ => (FaultKind::SequenceGap, "the entry at which this batch ended here"),
            };
            return Err(Fault::log(kind, key, format!("{what}: {}", at.last_seq), now));
        }
        Ok(())
    }

    /// Judges an absent prefix.
    pub(crate) fn judge_absent(&self, key: &[u8], at: &Position) -> Result<(), Fault> {
        if let Some(seen) = &self.0 {
            return Err(Fault::log(
                FaultKind::PrefixMissing,
                key,
                format!("a durable prefix that can follow {seen}"),
                "no such key",
            ));
        }
        if *at == Position::default() {
            return Ok(());
        }
        Err(Fault::log(FaultKind::AppliedAbovePrefix, key, applied(at), "no such key"))
    }
}

fn applied(at: &Position) -> String {
    let Position { batch_id, last_seq, epoch, .. } = at;
    format!("a durable prefix at or above what was applied: epoch {epoch} batch {batch_id} sequence {last_seq}")
}

#[cfg(test)]
mod tests {
    use oplog_core::{Epoch, Owner, Seq};

    use super::*;

    fn prefix(epoch: u64, owner: u64, batch_id: u64, last_seq: u64) -> DurablePrefix {
        DurablePrefix {
            epoch: Epoch::new(epoch),
            owner: Owner::new(owner),
            batch_id: BatchId::new(batch_id),
            last_seq: Seq::new(last_seq),
        }
    }

    fn at(batch_id: u64, last_seq: u64) -> Position {
        Position { batch_id: BatchId::new(batch_id), last_seq: Seq::new(last_seq), ..Position::default() }
    }

    /// Every field one lower, equal, one higher than what was seen: accepted exactly if no field fell and none contradicts.
    #[test]
    fn s2_every_regression_and_nothing_else_is_refused() {
        let seen = Seen(Some(prefix(5, 50, 10, 100)));
        let mut refused = 0;
        for epoch in 4..=6 {
            for owner in [49, 50] {
                for batch_id in 9..=12 {
                    for last_seq in 99..=102 {
                        let now = prefix(epoch, owner, batch_id, last_seq);
                        let fell = epoch < 5 || batch_id < 10 || last_seq < 100;
                        let foreign = epoch == 5 && owner != 50;
                        let impossible = (batch_id == 10) != (last_seq == 100) || last_seq + 10 < batch_id + 100;
                        let verdict =
                            seen.judge_follows(b"p", &now).and_then(|()| Seen::judge_covers(b"p", &now, &at(0, 0)));
                        assert_eq!(verdict.is_err(), fell || foreign || impossible, "{now:?}: {verdict:?}");
                        refused += u32::from(verdict.is_err_and(|f| f.kind() == Some(FaultKind::PrefixRegressed)));
                    }
                }
            }
        }
        assert!(refused > 0);
    }

    #[test]
    fn s2_applied_above_the_prefix_is_seen_in_either_number() {
        assert!(Seen::judge_covers(b"p", &prefix(1, 1, 10, 100), &at(10, 100)).is_ok());
        assert!(Seen::judge_covers(b"p", &prefix(1, 1, 10, 100), &at(9, 99)).is_ok());
        for position in [at(11, 100), at(10, 101), at(11, 101), at(9, 101)] {
            let fault = Seen::judge_covers(b"p", &prefix(1, 1, 10, 100), &position).unwrap_err();
            assert_eq!(fault.kind(), Some(FaultKind::AppliedAbovePrefix), "{position:?}");
        }
    }

    #[test]
    fn s2_a_batch_that_ends_elsewhere_and_a_base_that_is_not_held_are_told_apart() {
        let kind = |position| Seen::judge_covers(b"p", &prefix(1, 1, 10, 100), &position).unwrap_err().kind();
        assert_eq!(kind(at(10, 99)), Some(FaultKind::SequenceGap));
        let base = Seen::judge_covers(b"p", &prefix(0, 0, 0, 7), &at(0, 0)).unwrap_err();
        assert_eq!(base.kind(), Some(FaultKind::BaseNotHeld));
        let later = Position { epoch: Epoch::new(2), ..at(9, 99) };
        assert_eq!(kind(later), Some(FaultKind::AppliedAbovePrefix));
    }

    #[test]
    fn s2_an_absent_prefix_is_an_empty_log_only_for_who_has_seen_and_applied_nothing() {
        assert!(Seen(None).judge_absent(b"p", &at(0, 0)).is_ok());
        let seen = Seen(Some(prefix(0, 0, 0, 0)));
        assert_eq!(seen.judge_absent(b"p", &at(0, 0)).unwrap_err().kind(), Some(FaultKind::PrefixMissing));
        assert_eq!(Seen(None).judge_absent(b"p", &at(1, 1)).unwrap_err().kind(), Some(FaultKind::AppliedAbovePrefix));
    }
}
