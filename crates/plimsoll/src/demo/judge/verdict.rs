//! Owns the sentence: promises, log and primary held against each other. What differs is missing, doubled or resurrected.

use std::collections::BTreeMap;
use std::fmt;

use super::fold::{Fold, Seen};
use super::promises::{Fate, Promises, contradiction};
use crate::demo::ledger::Incarnation;

/// How something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// What was promised is not there.
    Missing,
    /// What was done once is there twice.
    Doubled,
    /// What is gone, refused or unknown is there.
    Resurrected,
}

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) key: String,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.kind, self.key, self.message)
    }
}

/// What the judge found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) findings: Vec<Finding>,
    /// Of the changes that could have gone either way: how many are in the log.
    pub(crate) either_applied: u64,
    /// And how many are not.
    pub(crate) either_lost: u64,
}

impl Verdict {
    /// How many of one kind.
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.findings.iter().filter(|finding| finding.kind == kind).count() as u64
    }
}

/// Holds the promises against the log, added up, and against what the primary answers for each key now.
pub(crate) fn judge(promises: &Promises, fold: &Fold, primary: &BTreeMap<Vec<u8>, Option<Incarnation>>) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.findings.extend(promises.findings.iter().cloned());
    verdict.findings.extend(fold.findings.iter().cloned());
    for (incarnation, story) in &promises.stories {
        let seen = fold.seen.get(incarnation).map_or_else(Seen::default, |(_, seen)| *seen);
        let mut find = |kind, message: &str| {
            let message = format!("{incarnation} {message}");
            verdict.findings.push(Finding { kind, key: story.key.clone(), message });
        };
        match (story.put, seen.puts) {
            (Fate::Acknowledged, 0) => find(Kind::Missing, "was acknowledged and is not in the log"),
            (Fate::Refused | Fate::NotSent, 1..) => find(Kind::Resurrected, "was refused and is in the log"),
            (_, 2..) => find(Kind::Doubled, "is put twice in the log"),
            _ => {}
        }
        match (story.removal, seen.removals) {
            (Fate::Acknowledged, 0) => find(Kind::Resurrected, "was removed for good, and the log has no removal"),
            (Fate::Refused | Fate::NotSent, 1..) => find(Kind::Missing, "is removed in the log, and nobody removed it"),
            (_, 2..) => find(Kind::Doubled, "is removed twice in the log"),
            _ => {}
        }
        for (fate, count) in [(story.put, seen.puts), (story.removal, seen.removals)] {
            match (fate, count) {
                (Fate::Either, 0) => verdict.either_lost += 1,
                (Fate::Either, _) => verdict.either_applied += 1,
                _ => {}
            }
        }
    }
    for (incarnation, (key, _)) in fold.seen.iter().filter(|(i, _)| !promises.stories.contains_key(i)) {
        let message = format!("{incarnation} is in the log, and no client ever put it");
        verdict.findings.push(Finding { kind: Kind::Resurrected, key: key.escape_ascii().to_string(), message });
    }
    judge_primary(promises, fold, primary, &mut verdict);
    verdict.findings.sort_by(|a, b| (a.kind, &a.key, &a.message).cmp(&(b.kind, &b.key, &b.message)));
    verdict
}

fn judge_primary(
    promises: &Promises,
    fold: &Fold,
    primary: &BTreeMap<Vec<u8>, Option<Incarnation>>,
    verdict: &mut Verdict,
) {
    for (key, found) in primary {
        let shown = key.escape_ascii().to_string();
        let promised = std::str::from_utf8(key).ok().and_then(|key| promises.possible.get(key));
        verdict.findings.extend(contradiction(promised, &shown, *found, "of the new primary"));
        let folded = fold.live.get(key).map(|object| object.incarnation);
        if folded != *found {
            let kind = if found.is_none() { Kind::Missing } else { Kind::Resurrected };
            let message = format!("the log says {folded:?}, the new primary answers {found:?}");
            verdict.findings.push(Finding { kind, key: shown, message });
        }
    }
    let unasked = promises.possible.keys().filter(|key| !primary.contains_key(key.as_bytes()));
    for key in unasked {
        let message = "the new primary was not asked for it".into();
        verdict.findings.push(Finding { kind: Kind::Missing, key: key.clone(), message });
    }
}
