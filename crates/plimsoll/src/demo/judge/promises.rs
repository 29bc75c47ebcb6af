//! Owns what the ledgers say was promised: for every object its put and its removal, for every key what it may be now.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::verdict::{Finding, Kind};
use crate::demo::ledger::{Answer, Call, Incarnation, Ledger, Promise};

/// What the client knows of one change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// Never asked for.
    #[default]
    NotSent,
    /// Asked for, and certainly not done.
    Refused,
    /// Perhaps done: accepted only, or cut short.
    Either,
    /// Promised for good.
    Acknowledged,
}

/// One object's life as its client saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Story {
    pub(crate) key: String,
    pub(crate) put: Fate,
    pub(crate) removal: Fate,
}

/// Everything that was promised.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// By object.
    pub(crate) stories: HashMap<Incarnation, Story>,
    /// By key: what a read may answer now.
    pub(crate) possible: BTreeMap<String, BTreeSet<Option<Incarnation>>>,
    /// Reads that contradicted a promise when they were made.
    pub(crate) findings: Vec<Finding>,
    /// Calls of any kind that were sent.
    pub(crate) operations: u64,
    /// Changes promised for good.
    pub(crate) acknowledged: u64,
    /// Changes answered with no more than "accepted".
    pub(crate) accepted: u64,
    /// Changes cut short.
    pub(crate) cut: u64,
    /// Changes refused.
    pub(crate) refused: u64,
}

impl Promises {
    /// Reads the ledgers of all client processes. A key belongs to one worker of one process, whose calls follow each other.
    pub(crate) fn of(ledgers: &[Ledger]) -> Self {
        let mut promises = Self::default();
        for ledger in ledgers {
            for made in ledger.calls() {
                promises.operations += 1;
                promises.call(made.call, made.answered.map(|(_, answer)| answer));
            }
        }
        promises
    }

    fn call(&mut self, call: &Call, answer: Option<&Answer>) {
        match call {
            Call::PutStart { .. } => {}
            Call::PutEnd { key, incarnation, promise } => {
                let fate = self.count(fate(*promise, answer));
                let story = self.stories.entry(*incarnation).or_default();
                story.key.clone_from(key);
                story.put = story.put.max(fate);
                self.narrow(key, fate, Some(*incarnation));
            }
            Call::Remove { key, incarnation, promise } => {
                let fate = self.count(fate(*promise, answer));
                let story = self.stories.entry(*incarnation).or_default();
                story.key.clone_from(key);
                story.removal = story.removal.max(fate);
                self.narrow(key, fate, None);
                if answer == Some(&Answer::Absent) {
                    self.read(key, None);
                }
            }
            Call::Get { key } => match answer {
                Some(Answer::Found(incarnation)) => self.read(key, Some(*incarnation)),
                Some(Answer::Absent) => self.read(key, None),
                _ => {}
            },
        }
    }

    fn count(&mut self, (fate, counted): (Fate, Counted)) -> Fate {
        match counted {
            Counted::Acknowledged => self.acknowledged += 1,
            Counted::Accepted => self.accepted += 1,
            Counted::Cut => self.cut += 1,
            Counted::Refused => self.refused += 1,
        }
        fate
    }

    fn narrow(&mut self, key: &str, fate: Fate, to: Option<Incarnation>) {
        let possible = self.possible.entry(key.to_owned()).or_insert_with(|| BTreeSet::from([None]));
        match fate {
            Fate::Acknowledged => *possible = BTreeSet::from([to]),
            Fate::Either => {
                possible.insert(to);
            }
            Fate::Refused | Fate::NotSent => {}
        }
    }

    fn read(&mut self, key: &str, found: Option<Incarnation>) {
        let finding = contradiction(self.possible.get(key), key, found, "while the demo ran");
        self.findings.extend(finding);
    }
}

/// What a read of `key` that found `found` says against the promises.
pub(super) fn contradiction(
    possible: Option<&BTreeSet<Option<Incarnation>>>,
    key: &str,
    found: Option<Incarnation>,
    when: &str,
) -> Option<Finding> {
    let nothing = BTreeSet::from([None]);
    let possible = possible.unwrap_or(&nothing);
    if possible.contains(&found) {
        return None;
    }
    let (kind, message) = match found {
        None => (Kind::Missing, format!("a read {when} found nothing, expected {possible:?}")),
        Some(i) if possible.len() == 1 && possible.contains(&None) => {
            (Kind::Resurrected, format!("a read {when} found {i}, which is removed or was never put"))
        }
        Some(i) => (Kind::Missing, format!("a read {when} found {i}, expected {possible:?}")),
    };
    Some(Finding { kind, key: key.to_owned(), message })
}

enum Counted {
    Acknowledged,
    Accepted,
    Cut,
    Refused,
}

fn fate(asked: Promise, answer: Option<&Answer>) -> (Fate, Counted) {
    match answer {
        Some(Answer::Durable) if asked == Promise::Durable => (Fate::Acknowledged, Counted::Acknowledged),
        // A server that promises more than was asked for is not held to it.
        Some(Answer::Durable | Answer::Accepted) => (Fate::Either, Counted::Accepted),
        Some(Answer::Refused(_) | Answer::Absent) => (Fate::Refused, Counted::Refused),
        Some(Answer::Cut(_) | Answer::Granted(_) | Answer::Found(_)) | None => (Fate::Either, Counted::Cut),
    }
}
