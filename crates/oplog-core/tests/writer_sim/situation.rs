//! Owns the names of what has to happen in some run.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! situations {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What the oracle, the nodes or the faulty clients saw happen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Situation { $($(#[$doc])* $name,)* }

        impl Situation {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

situations! {
    /// An append arrived after a claim, and the fence refused it.
    AppendRefusedByFence,
    /// A writer read its expected prefix, then somebody claimed, then its retry arrived.
    ClaimBetweenReadAndRetry,
    /// A request that its client had given up applied.
    LateAppendApplied,
    /// A request that its client had given up was refused.
    LateAppendRefused,
    /// Two writers of different epochs were alive at once.
    TwoWriters,
    /// A writer claimed after another's batch had become durable while the claimant looked.
    BatchBetweenReadAndClaim,
    ClaimFailed,
    UnknownResolvedAsCommitted,
    SameTransactionRetried,
    BatchCut,
    FencedDurable,
    FencedNever,
    StoppedUnknown,
    StoppedNever,
    StoppedDurable,
    QueueFull,
    Unavailable,
    ReservationAborted,
    ReadyWaited,
    ReadyGivenUp,
    ManyReserved,
    CommittedWhileFailing,
    RefusedAfterEnd,
    TooLargeEntryRefused,
    BatchOfOne,
    BatchOfMany,
    Partitioned,
    RepliesCut,
    ReplyLost,
    Duplicated,
    LastHandleDropped,
    Drained,
}

/// How often each happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<Situation, u64>);

impl Counts {
    pub(crate) fn note(&mut self, situation: Situation) {
        self.many(situation, 1);
    }

    pub(crate) fn many(&mut self, situation: Situation, times: u64) {
        *self.0.entry(situation).or_default() += times;
    }

    pub(crate) fn of(&self, situation: Situation) -> u64 {
        self.0.get(&situation).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (situation, times) in &other.0 {
            self.many(*situation, *times);
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Situation::ALL.iter().try_for_each(|s| writeln!(f, "{:>8} {s:?}", self.of(*s)))
    }
}
