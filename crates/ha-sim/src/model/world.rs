//! Owns one state of the model: the store, what is under way, the nodes, and the observer's truth.

use bytes::Bytes;
use ha_types::{BatchId, Seq};
use oplog_core::DurablePrefix;
use oplog_core::proof::BatchFlight;

use super::fold::{Content, Fold};
use super::store::{Request, Store};
use super::truth::Truth;

/// One state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) store: Store,
    /// Transactions that may arrive at any time, or never; sorted, so that their order is no difference.
    pub(super) flying: Vec<Request>,
    pub(super) nodes: Vec<Node>,
    pub(super) catalogue: Vec<Snapshot>,
    /// Up to where the truncation under way has decided to delete.
    pub(super) truncating: Option<BatchId>,
    pub(super) truth: Truth,
    pub(super) spent: Spent,
}

/// How much of the bounds is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Spent {
    pub(super) claims: u8,
    pub(super) silences: u8,
    pub(super) crashes: u8,
    pub(super) stops: u8,
    pub(super) losses: u8,
    pub(super) failed_reads: u8,
    pub(super) elections: u8,
}

/// A catalogue entry with its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    pub(super) fold: Fold,
    /// Whether its bytes can be restored.
    pub(super) sound: bool,
    pub(super) verified: bool,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) role: Role,
    pub(super) fold: Fold,
    /// How many claims it has prepared: its next owner.
    pub(super) claims: u8,
    /// How many entries it has committed: its next content.
    pub(super) committed: u8,
    /// It has started from a snapshot.
    pub(super) restored: bool,
}

/// What a node is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Knows of no prefix yet.
    Starting,
    /// Has read no prefix and `/latest` as this, and may send the first prefix.
    CuttingOver { latest: Option<u64>, unsure: bool },
    /// Follows.
    Following,
    /// Has read the prefix in order to be promoted; `known` snapshots were verified by then.
    Reading { through: DurablePrefix, known: usize },
    /// Missed this batch below the prefix it read.
    Missed { batch: BatchId, known: usize },
    /// Has caught up with `expected` and may send its claim.
    Ready { expected: DurablePrefix, mine: DurablePrefix },
    /// Does not know what became of its claim.
    Unsure { expected: DurablePrefix, mine: DurablePrefix },
    /// Has claimed; the last catch-up is to come.
    Claimed { mine: DurablePrefix },
    /// Serves, and has no batch under way.
    Serving { at: DurablePrefix },
    /// Serves, and has this batch under way.
    Writing(Box<Writing>),
    /// Writes a log of Mooncake's, as its primary: the last batch and entry that it knows of.
    Mooncake { batch: u64, last: u64 },
    /// Writes the legacy log and has nothing under way; `last` is the entry it left.
    Legacy { last: u64 },
    /// Has a legacy entry under way at `last + 1`.
    LegacyWriting(LegacyWriting),
    /// Stopped for good.
    Out,
}

/// A batch under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Writing {
    pub(super) flight: BatchFlight,
    pub(super) record: Bytes,
    pub(super) crc: u32,
    pub(super) contents: Vec<Content>,
    pub(super) next: Next,
    /// It was sent before, so what follows is a repetition.
    pub(super) sent: bool,
}

/// A legacy entry under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LegacyWriting {
    /// The entry that its writer left before it.
    pub(super) last: u64,
    pub(super) content: Content,
    pub(super) unknown: bool,
    /// It was read once as only a second reading may confirm.
    pub(super) doubted: bool,
    pub(super) next: LegacyNext,
}

impl LegacyWriting {
    /// What its writer left in `latest`.
    pub(super) fn expected(&self) -> Option<Bytes> {
        (self.last > 0).then(|| self.last.to_string().into())
    }
}

/// What a legacy writer does next, with what it has read so far: the prefix with its base, `latest`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LegacyNext {
    Send,
    ReadPrefix,
    ReadLatest { prefix: Option<(DurablePrefix, Option<Seq>)> },
    ReadEntry { prefix: Option<(DurablePrefix, Option<Seq>)>, latest: Option<Bytes> },
}

/// What a writer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Next {
    Append,
    ReadPrefix,
    ReadBatch,
}

impl Node {
    pub(super) fn new(role: Role) -> Self {
        Self { role, fold: Fold::default(), claims: 0, committed: 0, restored: false }
    }
}

/// The contents of node `at` are those from `16 * (at + 1)` on.
pub(super) fn content(at: usize, committed: u8) -> Content {
    16 * (at as u8 + 1) + committed
}

impl World {
    /// Whether somebody committed an entry that holds `content`.
    pub(super) fn committed(&self, content: Content) -> bool {
        let node = usize::from(content / 16).checked_sub(1).and_then(|at| self.nodes.get(at));
        node.is_some_and(|node| content % 16 < node.committed)
    }

    /// The newest verified snapshot among the first `known`.
    pub(super) fn newest_verified(&self, known: usize) -> Option<&Snapshot> {
        self.catalogue.iter().take(known).filter(|s| s.verified).max_by_key(|s| s.fold.position.batch_id)
    }
}
