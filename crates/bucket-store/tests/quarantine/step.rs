//! Owns a history as plain data: what is asked of a store, and which buckets go away when it is opened. A number that picks is taken modulo
//! what there is, so a history stays one when steps are taken out of it.

use crate::disk::Away;

pub(crate) const KEYS: u8 = 6;

/// How a store is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// Which buckets cannot be read from now on, counted in id order, the newest being the last.
    pub(crate) away: Vec<(u8, Away)>,
    /// Those that were away before stay so.
    pub(crate) keep: bool,
    /// Writes are durable with the next publish.
    pub(crate) relaxed: bool,
    /// The disk is small, and evictions may be asked for.
    pub(crate) crowded: bool,
    /// GC copies without pressure, too.
    pub(crate) eager: bool,
    /// The power goes after so many operations of the open, the first time.
    pub(crate) cut: Option<u16>,
    /// Which state that leaves.
    pub(crate) pick: u32,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// The store is closed.
    Close,
    /// The process dies; what was not durable is still in the cache.
    Process,
    /// The power goes, and this state is left.
    Power(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// New incarnations of these keys, in one call.
    Write { keys: Vec<u8>, large: bool, hint: Option<u64> },
    /// Something that was written before, again.
    Rewrite(u8),
    /// The same, of what is away if anything is.
    RewriteAway(u8),
    /// The same, of what is damaged if anything is.
    RewriteDamaged(u8),
    /// What is served under these keys, in one call.
    Delete(Vec<u8>),
    /// Any incarnation that there ever was.
    DeleteAny(u8),
    /// The same, of what is away if anything is.
    DeleteAway(u8),
    /// So many steps; so many evictions are refused.
    Gc { steps: u16, refuse: u8 },
    /// Until there is nothing to do.
    GcIdle,
    /// Pending writes become durable.
    Publish,
    /// The same, and what was replaced is tombstoned.
    Maintain,
    /// A bit of a record is turned over.
    Damage(u8),
    /// Everything is read.
    Look,
    /// The store's life ends, and another one begins.
    End { death: Death, open: Open },
    /// The same in the middle of a step, after so many operations.
    Cut { ops: u16, then: Box<Step>, death: Death, open: Open },
}

/// What the directory is at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    Empty,
    /// Of these buckets of Mooncake's, in both of which some keys are.
    Mooncake,
}

#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) begin: Begin,
    pub(crate) first: Open,
    pub(crate) steps: Vec<Step>,
}
