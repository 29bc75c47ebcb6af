//! Owns the four rules that say what became of an append whose answer was lost or was a failed compare (design §3.1). Pure:
//! it compares prefixes and reads nothing.

use ha_types::Epoch;

use crate::DurablePrefix;

/// What became of an entry handed to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Outcome {
    /// It is in the log for good.
    Durable,
    /// It is not in the log and never will be.
    Never,
    /// Nobody can say: it may be in the log, or may yet come into it.
    Unknown,
}

/// What a prefix that was read again says about the append that would have moved `expected` to `new`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendVerdict {
    /// Rule 1: the append committed. One transaction wrote both keys, so the batch need not be read.
    Committed,
    /// Rule 2: nothing of it is there; the same transaction is sent again.
    Resend,
    /// Rule 3, and the prefix still names the batch before ours: ours never became durable, and no late arrival of it ever
    /// will, because it compares a prefix that is gone.
    FencedNever,
    /// Rule 3, and the log has gone past our batch id: the record stored there decides.
    FencedReadBatch,
    /// Rule 4: nothing that this protocol writes. To be confirmed by a second read.
    Corrupt,
}

/// Judges by the four rules. `found` is `None` if the prefix is absent.
pub(crate) fn judge_append(
    expected: &DurablePrefix,
    new: &DurablePrefix,
    found: Option<&DurablePrefix>,
) -> AppendVerdict {
    let Some(found) = found else {
        return AppendVerdict::Corrupt;
    };
    if found == new {
        return AppendVerdict::Committed;
    }
    if found == expected {
        return AppendVerdict::Resend;
    }
    let behind = found.batch_id < expected.batch_id || found.last_seq < expected.last_seq;
    if found.epoch <= expected.epoch || behind {
        return AppendVerdict::Corrupt;
    }
    if found.batch_id == expected.batch_id { AppendVerdict::FencedNever } else { AppendVerdict::FencedReadBatch }
}

/// What a fenced writer of `mine` learns from the record stored at its batch id: `stored` is the epoch inside it, `None` if the
/// record is absent (truncated), unreadable, or of a format without an epoch.
pub(crate) fn judge_stored_batch(mine: Epoch, stored: Option<Epoch>) -> Outcome {
    match stored {
        Some(epoch) if epoch == mine => Outcome::Durable,
        Some(epoch) if epoch > mine => Outcome::Never,
        // A lower epoch cannot stand above our own claim: something is wrong, and nothing can be promised.
        Some(_) | None => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use ha_types::{BatchId, Owner, Seq};

    use super::*;

    fn prefix(epoch: u64, owner: u64, batch_id: u64, last_seq: u64) -> DurablePrefix {
        DurablePrefix {
            epoch: Epoch::new(epoch),
            owner: Owner::new(owner),
            batch_id: BatchId::new(batch_id),
            last_seq: Seq::new(last_seq),
        }
    }

    /// Every prefix near the expected one, against the rules written down a second time as a table of conditions.
    #[test]
    fn each_prefix_in_reach_has_the_verdict_of_exactly_one_rule() {
        let (expected, new) = (prefix(5, 0xa, 10, 100), prefix(5, 0xa, 11, 107));
        let mut seen = std::collections::HashMap::new();
        for epoch in 3..=7 {
            for owner in [0xa, 0xb] {
                for batch_id in 8..=13 {
                    for last_seq in [90, 99, 100, 101, 106, 107, 108, 120] {
                        let found = prefix(epoch, owner, batch_id, last_seq);
                        let verdict = judge_append(&expected, &new, Some(&found));
                        let wanted = match () {
                            () if (epoch, owner, batch_id, last_seq) == (5, 0xa, 11, 107) => AppendVerdict::Committed,
                            () if (epoch, owner, batch_id, last_seq) == (5, 0xa, 10, 100) => AppendVerdict::Resend,
                            () if epoch >= 6 && batch_id == 10 && last_seq >= 100 => AppendVerdict::FencedNever,
                            () if epoch >= 6 && batch_id >= 11 && last_seq >= 100 => AppendVerdict::FencedReadBatch,
                            () => AppendVerdict::Corrupt,
                        };
                        assert_eq!(verdict, wanted, "{found:?}");
                        *seen.entry(format!("{verdict:?}")).or_insert(0) += 1;
                    }
                }
            }
        }
        assert_eq!(seen.len(), 5, "a rule was never reached: {seen:?}");
    }

    #[test]
    fn an_absent_prefix_is_corrupt_and_never_fresh() {
        let (expected, new) = (prefix(1, 1, 0, 0), prefix(1, 1, 1, 1));
        assert_eq!(judge_append(&expected, &new, None), AppendVerdict::Corrupt);
    }

    #[test]
    fn the_same_numbers_under_another_claim_are_not_ours() {
        let (expected, new) = (prefix(5, 0xa, 10, 100), prefix(5, 0xa, 11, 107));
        let theirs = prefix(6, 0xb, 11, 107);
        assert_eq!(judge_append(&expected, &new, Some(&theirs)), AppendVerdict::FencedReadBatch);
        let same_epoch = prefix(5, 0xb, 11, 107);
        assert_eq!(judge_append(&expected, &new, Some(&same_epoch)), AppendVerdict::Corrupt);
    }

    #[test]
    fn the_epoch_inside_the_stored_batch_decides_for_the_fenced() {
        let mine = Epoch::new(5);
        assert_eq!(judge_stored_batch(mine, Some(mine)), Outcome::Durable);
        assert_eq!(judge_stored_batch(mine, Some(Epoch::new(6))), Outcome::Never);
        assert_eq!(judge_stored_batch(mine, Some(Epoch::new(4))), Outcome::Unknown);
        assert_eq!(judge_stored_batch(mine, None), Outcome::Unknown);
    }
}
