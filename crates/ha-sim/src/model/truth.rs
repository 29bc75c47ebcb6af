//! Owns what an all-seeing observer knows: the log as it became durable, who claimed, and what anybody was told.

use oplog_core::DurablePrefix;

use super::fold::Content;
use super::invariant::{Broken, Invariant};

/// A durable success that somebody was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Told {
    pub(super) seq: u64,
    pub(super) content: Content,
    /// The claim under which it was written; 0 for a legacy entry.
    pub(super) epoch: u64,
}

/// The observer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Truth {
    /// L: what became durable, by sequence.
    pub(super) log: Vec<Content>,
    /// The epochs that wrote to it, ascending, each once.
    pub(super) writers: Vec<u64>,
    /// Claims that committed: epoch and owner.
    pub(super) claims: Vec<(u64, u64)>,
    pub(super) told: Vec<Told>,
    /// What somebody was told will never be durable.
    pub(super) nevers: Vec<Content>,
    /// How often the first prefix was created, and with what base.
    pub(super) created: u8,
    pub(super) base: u64,
    /// The store has lost something: what rests on its promises no longer counts.
    pub(super) lost: bool,
    /// The prefix before the last transaction that moved it, where the store may lose that one.
    pub(super) undo: Option<DurablePrefix>,
    pub(super) broken: Broken,
}

impl Truth {
    pub(super) fn highest_claim(&self) -> u64 {
        self.claims.iter().map(|(epoch, _)| *epoch).max().unwrap_or(0)
    }

    pub(super) fn has(&self, seq: u64, content: Content) -> bool {
        seq.checked_sub(1).and_then(|at| self.log.get(at as usize)) == Some(&content)
    }

    /// Somebody is told that `content` is durable at `seq` while the store's prefix ends at `last_seq`.
    pub(super) fn tell_durable(&mut self, told: Told, last_seq: Option<u64>) {
        if last_seq.is_none_or(|last| last < told.seq) || !self.has(told.seq, told.content) {
            self.broken.add(Invariant::L5);
        }
        // After a loss two lifetimes may reach one sequence; one writer still may not.
        let again = |other: &Told| other.seq == told.seq && (!self.lost || other.epoch == told.epoch);
        if self.told.iter().any(again) {
            self.broken.add(Invariant::L6);
        }
        self.told.push(told);
        self.told.sort_unstable();
    }

    pub(super) fn tell_never(&mut self, content: Content) {
        self.nevers.push(content);
        self.nevers.sort_unstable();
    }
}
