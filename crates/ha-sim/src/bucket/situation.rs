//! Owns the situations that a run must meet, or it proves less than it says.

use std::collections::BTreeMap;

macro_rules! situations {
    ($($name:ident: $text:literal,)+) => {
        /// Something that must have happened in a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Situation {
            $(#[doc = $text] $name,)+
        }

        impl Situation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// What it is.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

situations! {
    FirstOpen: "crash before the directory is marked",
    HighWaterRaise: "crash in a raise of the high-water mark",
    Publish: "crash in the publish of a table",
    TemporaryLeft: "a temporary file left by a crash is swept",
    OrphanSwept: "a data file without a table is swept",
    UnansweredPutSurvived: "a write without an answer survived",
    UnansweredPutLost: "a write without an answer is gone",
    UnansweredDeleteSurvived: "a delete without an answer survived",
    UnansweredDeleteUndone: "a delete without an answer is undone",
    OlderVersionBack: "the older version is live, as the newer was not durable",
    PreparedBare: "crash after PREPARED, before there is a target",
    PreparedInCopy: "crash while records are copied",
    BetweenPublishes: "crash between the two publishes of a commit",
    CommittedWhole: "crash after COMMITTED, all sources still there",
    CommittedInUnlink: "crash in the unlinking of sources",
    RemovalWhole: "crash after the commit of a removal without a target",
    RemovalInUnlink: "crash in the unlinking of removed buckets",
    SeveralRounds: "crash with several rounds in the intent file",
    TargetMovedOn: "crash with a round whose target has moved on",
    CrashInRecovery: "crash while a round is recovered",
    CrashInThatRecovery: "crash in the recovery of a crash in recovery",
    ReserveSpend: "crash while the reserve is given up",
    AdoptionCrash: "crash in an adoption",
    ProcessDeath: "the process dies, the power goes in the recovery after it",
    DeleteInCopy: "delete acknowledged between copy and commit",
    DeleteInCopyOfEight: "delete acknowledged between copy and commit of eight buckets",
    DeleteFollows: "delete of an object that GC has moved",
    GroupDelete: "several tombstones in one publish",
    DeleteOfPending: "delete of an object whose table is not published",
    DeleteFromReserve: "delete on a full disk, from the reserve",
    DeleteRetryable: "delete answered as retryable, and repeated",
    StaleVersion: "delete of a version that is not there",
    AlreadyRemoved: "delete of what is deleted already",
    MergeOfOne: "merge of one bucket",
    MergeOfTwo: "merge of two buckets",
    MergeOfThree: "merge of three buckets",
    MergeOfFour: "merge of four buckets",
    MergeOfFive: "merge of five buckets",
    MergeOfSix: "merge of six buckets",
    MergeOfSeven: "merge of seven buckets",
    MergeOfEight: "merge of eight buckets",
    DeadRemoved: "dead buckets removed without a copy",
    Evicted: "live bucket evicted",
    EvictionRefused: "eviction refused",
    RolledBack: "round undone at run time",
    CommitUncertain: "commit of unknown outcome, repeated",
    CleanUpRepeated: "clean-up failed and was repeated",
    CollectedAfterCrash: "a round of GC in a store that was recovered, and the power lost after it",
    ReopenedInRound: "store opened again in the middle of a round",
    DeleteWhileAway: "delete while a bucket cannot be read",
    GravesBack: "crash with graves; the bucket that they are for can be read again",
    UnknownVersion: "unknown version refused, directory as it was",
    FaultMet: "a call of the disk failed",
}

/// How often each was met.
#[derive(Clone, Debug, Default)]
pub struct Reached(BTreeMap<Situation, u64>);

impl Reached {
    /// It was met once more.
    pub fn meet(&mut self, situation: Situation) {
        *self.0.entry(situation).or_insert(0) += 1;
    }

    /// Takes over what another run met.
    pub fn add(&mut self, other: &Self) {
        for (situation, count) in &other.0 {
            *self.0.entry(*situation).or_insert(0) += count;
        }
    }

    /// How often it was met.
    #[must_use]
    pub fn count(&self, situation: Situation) -> u64 {
        self.0.get(&situation).copied().unwrap_or(0)
    }
}
