//! Owns what a claim that was not plainly answered has come to, judged by the prefix read afterwards. Pure.

#[cfg(test)]
mod tests;

use crate::DurablePrefix;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The log is ours.
    Claimed,
    /// Nothing has happened: send the same claim again.
    Resend,
    /// The old writer committed first: catch up, then claim anew.
    CatchUp(DurablePrefix),
    /// Somebody claimed after us or instead of us: give up.
    Superseded(DurablePrefix),
    /// No sequence of claims and appends leads here.
    Corrupt(Option<DurablePrefix>),
}

/// Judges the prefix `found` after sending the claim `mine` of `expected` (design §3.1, *Claim*).
pub(crate) fn judge(expected: &DurablePrefix, mine: &DurablePrefix, found: Option<DurablePrefix>) -> Verdict {
    let Some(prefix) = found else { return Verdict::Corrupt(None) };
    if prefix == *mine {
        return Verdict::Claimed;
    }
    if prefix == *expected {
        return Verdict::Resend;
    }
    // Nobody writes under our owner but us, and we have not begun to.
    let ours_moved = prefix.epoch == mine.epoch && prefix.owner == mine.owner;
    if ours_moved || !expected.may_become(&prefix) {
        return Verdict::Corrupt(found);
    }
    if prefix.epoch > expected.epoch { Verdict::Superseded(prefix) } else { Verdict::CatchUp(prefix) }
}
