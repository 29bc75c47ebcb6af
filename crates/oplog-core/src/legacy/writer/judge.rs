//! Owns the rules that say what became of a group whose answer was lost or was a failed compare. Pure: it compares what was read.
//!
//! What may be concluded from one reading rests on its order: prefix, then `latest`, then the entries. Once a prefix was seen, no
//! transaction of a legacy writer of ours can land any more, so entries read after it are final.

use bytes::Bytes;
use ha_types::Seq;

use crate::{DurablePrefix, Outcome};

/// What was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) first: Seq,
    pub(crate) values: Vec<Bytes>,
    /// What `latest` had to hold.
    pub(crate) expected: Option<Bytes>,
    /// Whether an attempt may have applied, or may yet.
    pub(crate) unknown: bool,
}

/// What was read, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The durable prefix, and the base if it can still be told.
    pub(crate) prefix: Option<(DurablePrefix, Option<Seq>)>,
    pub(crate) latest: Option<Bytes>,
    /// What is under the keys of the entries.
    pub(crate) stored: Vec<Option<Bytes>>,
}

/// What a reading says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All of it is there, and `latest` is what it put: it committed.
    Committed,
    /// Nothing of it is there and everything is as it was: the same transaction is sent again.
    Resend,
    /// Somebody else has written, or the log was cut over; this is what became of each entry.
    Ended(Vec<Outcome>),
    /// Nothing that one writer of ours does. To be confirmed by a second reading, then this is what became of each entry.
    Doubtful(Vec<Outcome>),
}

/// Judges.
pub(crate) fn judge(sent: &Sent, reading: &Reading) -> Verdict {
    let stored = sent.values.iter().zip(&reading.stored);
    if let Some((_, base)) = &reading.prefix {
        let seqs = (0..).map(|at| sent.first.checked_add(at).unwrap_or(sent.first));
        let ends = stored.zip(seqs).map(|((mine, found), seq)| fenced(mine, found.as_ref(), *base, seq));
        return Verdict::Ended(ends.collect());
    }
    let count = sent.values.len() as u64;
    let last = sent.first.get().saturating_add(count).saturating_sub(1);
    let all_mine = stored.clone().all(|(mine, found)| found.as_ref() == Some(mine));
    let none = reading.stored.iter().all(Option::is_none);
    let latest = reading.latest.as_ref().and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
    if all_mine && latest == Some(last) {
        return Verdict::Committed;
    }
    if none && reading.latest == sent.expected {
        return Verdict::Resend;
    }
    if all_mine && latest.is_some_and(|latest| latest > last) {
        // One transaction put entries and `latest`; only another writer that went on from there can have raised it.
        return Verdict::Ended(vec![Outcome::Durable; sent.values.len()]);
    }
    Verdict::Doubtful(stored.map(|(mine, found)| unfenced(mine, found.as_ref(), sent.unknown)).collect())
}

/// An entry of a log that was cut over. Above the base it is outside the log for ever, whatever lies there.
fn fenced(mine: &Bytes, found: Option<&Bytes>, base: Option<Seq>, seq: Seq) -> Outcome {
    match (base, found) {
        (Some(base), _) if seq > base => Outcome::Never,
        (_, Some(found)) if found != mine => Outcome::Never,
        (Some(_), Some(_)) => Outcome::Durable,
        // Removed by a clean-up, or below a base that nobody can tell any more.
        _ => Outcome::Unknown,
    }
}

/// An entry of a log that somebody else writes without asking.
fn unfenced(mine: &Bytes, found: Option<&Bytes>, unknown: bool) -> Outcome {
    match found {
        // The place is taken, and no transaction of ours overwrites.
        Some(found) if found != mine => Outcome::Never,
        None if !unknown => Outcome::Never,
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome::{Durable, Never, Unknown};

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    /// Entries 6 and 7 after `latest` 5.
    fn sent(unknown: bool) -> Sent {
        let values = vec![bytes("a"), bytes("b")];
        Sent { first: Seq::new(6), values, expected: Some(bytes("5")), unknown }
    }

    fn reading(latest: &str, stored: [Option<&str>; 2]) -> Reading {
        let latest = (!latest.is_empty()).then(|| bytes(latest));
        Reading { prefix: None, latest, stored: stored.iter().map(|s| s.map(bytes)).collect() }
    }

    fn cut_over(base: Option<u64>, stored: [Option<&str>; 2]) -> Reading {
        Reading { prefix: Some((DurablePrefix::FRESH, base.map(Seq::new))), ..reading("5", stored) }
    }

    #[test]
    fn the_whole_table_without_a_prefix() {
        let (a, b, x) = (Some("a"), Some("b"), Some("x"));
        for (latest, stored, unknown, verdict) in [
            ("7", [a, b], true, Verdict::Committed),
            ("7", [a, b], false, Verdict::Committed),
            ("5", [None, None], true, Verdict::Resend),
            ("5", [None, None], false, Verdict::Resend),
            ("9", [a, b], true, Verdict::Ended(vec![Durable, Durable])),
            // Torn between two reads, or `latest` went back.
            ("5", [a, b], true, Verdict::Doubtful(vec![Unknown, Unknown])),
            ("6", [x, None], false, Verdict::Doubtful(vec![Never, Never])),
            ("6", [x, None], true, Verdict::Doubtful(vec![Never, Unknown])),
            ("7", [x, x], true, Verdict::Doubtful(vec![Never, Never])),
            ("7", [a, x], true, Verdict::Doubtful(vec![Unknown, Never])),
            ("7", [None, None], true, Verdict::Doubtful(vec![Unknown, Unknown])),
            ("7", [None, None], false, Verdict::Doubtful(vec![Never, Never])),
            ("4", [None, None], true, Verdict::Doubtful(vec![Unknown, Unknown])),
            ("", [None, None], true, Verdict::Doubtful(vec![Unknown, Unknown])),
            ("junk", [a, b], true, Verdict::Doubtful(vec![Unknown, Unknown])),
            ("6", [a, b], true, Verdict::Doubtful(vec![Unknown, Unknown])),
        ] {
            assert_eq!(judge(&sent(unknown), &reading(latest, stored)), verdict, "{latest} {stored:?} {unknown}");
        }
    }

    #[test]
    fn the_whole_table_after_a_cutover() {
        let (a, b, x) = (Some("a"), Some("b"), Some("x"));
        for (base, stored, outcomes) in [
            (Some(7), [a, b], [Durable, Durable]),
            (Some(9), [a, b], [Durable, Durable]),
            (Some(5), [None, None], [Never, Never]),
            (Some(5), [a, b], [Never, Never]),
            (Some(6), [a, b], [Durable, Never]),
            (Some(7), [x, b], [Never, Durable]),
            (Some(9), [None, None], [Unknown, Unknown]),
            (None, [a, b], [Unknown, Unknown]),
            (None, [x, None], [Never, Unknown]),
        ] {
            let verdict = judge(&sent(true), &cut_over(base, stored));
            assert_eq!(verdict, Verdict::Ended(outcomes.to_vec()), "{base:?} {stored:?}");
        }
    }

    #[test]
    fn the_first_entries_of_a_log_expect_no_latest() {
        let first = Sent { first: Seq::new(1), expected: None, ..sent(true) };
        assert_eq!(judge(&first, &reading("", [None, None])), Verdict::Resend);
        assert_eq!(judge(&first, &reading("2", [Some("a"), Some("b")])), Verdict::Committed);
        assert_ne!(judge(&first, &reading("0", [None, None])), Verdict::Resend);
    }
}
