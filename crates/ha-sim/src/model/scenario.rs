//! Owns the scenarios: who takes part, what may go wrong how often, and what must be reached.

use super::situation::Situation;

/// How a scenario begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Node 0 serves under epoch 1; the others follow.
    Primary,
    /// Node 0 is a primary of Mooncake's, and has written a batch; the others follow.
    Mooncake,
    /// As many legacy writers of ours as said come first; the other nodes cut over.
    Legacy {
        /// How many.
        writers: u8,
        /// Whether they are the original's: no compare, and `/latest` now and then.
        original: bool,
    },
}

/// What a scenario may do at most. Everything else is in every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Nodes.
    pub nodes: u8,
    /// Claims prepared, over all nodes.
    pub claims: u8,
    /// The highest batch id.
    pub batches: u8,
    /// Entries that one node commits.
    pub entries: u8,
    /// The most entries of a batch.
    pub batch_entries: u8,
    /// Transactions under way without their sender.
    pub flying: u8,
    /// Transactions whose sender hears nothing.
    pub silences: u8,
    /// Nodes that die.
    pub crashes: u8,
    /// Writers that are told to stop.
    pub stops: u8,
    /// Snapshots.
    pub snapshots: u8,
    /// Losses of the store.
    pub losses: u8,
    /// Reads that fail where a node must decide what that means.
    pub failed_reads: u8,
    /// Elections of an old primary, and ends of one.
    pub elections: u8,
}

/// One run of the model.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// How it begins.
    pub start: Start,
    /// Its bounds.
    pub bounds: Bounds,
    /// What it must reach.
    pub must_reach: &'static [Situation],
}

const NOTHING: Bounds = Bounds {
    nodes: 0,
    claims: 0,
    batches: 0,
    entries: 0,
    batch_entries: 1,
    flying: 0,
    silences: 0,
    crashes: 0,
    stops: 0,
    snapshots: 0,
    losses: 0,
    failed_reads: 0,
    elections: 0,
};

use Situation as S;

impl Scenario {
    /// A primary and two standbys: writes, claims, promotions.
    #[must_use]
    pub fn failover() -> Self {
        Self {
            name: "failover",
            about: "a primary that writes and two standbys that claim, with silence, late landings, stops and crashes",
            start: Start::Primary,
            bounds: Bounds {
                nodes: 3,
                claims: 3,
                batches: 2,
                entries: 2,
                batch_entries: 2,
                flying: 2,
                silences: 2,
                ..NOTHING
            },
            must_reach: &[
                S::LateAppendApplies,
                S::LateAppendMeetsClaim,
                S::LateClaimApplies,
                S::LateClaimRefused,
                S::ClaimBetweenReadAndWrite,
                S::AppendBetweenReadAndClaim,
                S::TwoClaims,
                S::ClaimFoundByReading,
                S::ClaimSentAgain,
                S::ClaimMoved,
                S::ClaimSuperseded,
                S::PromotionWithUnknownBatch,
                S::PromotedOverLandedBatch,
                S::TwoServe,
                S::CommittedFoundByReading,
                S::SentAgain,
                S::SecondCopyRefused,
                S::FencedBeforeBatch,
                S::FencedMine,
                S::FencedHigher,
                S::SecondEpochWrites,
            ],
        }
    }

    /// Nodes that die and writers that are stopped.
    #[must_use]
    pub fn deaths() -> Self {
        Self {
            name: "deaths",
            about: "a primary and two standbys of which one dies and starts again, and a writer that is told to stop",
            start: Start::Primary,
            bounds: Bounds {
                nodes: 3,
                claims: 2,
                batches: 2,
                entries: 1,
                flying: 1,
                silences: 1,
                crashes: 1,
                stops: 1,
                ..NOTHING
            },
            must_reach: &[S::AbandonedClaimApplies, S::StoppedUnknown, S::Crashed],
        }
    }

    /// Snapshots and truncation beside a failover.
    #[must_use]
    pub fn truncation() -> Self {
        Self {
            name: "truncation",
            about: "a primary and two followers that take snapshots, truncate, read behind the truncation and are promoted",
            start: Start::Primary,
            bounds: Bounds {
                nodes: 3,
                claims: 1,
                batches: 3,
                entries: 2,
                flying: 1,
                silences: 1,
                snapshots: 2,
                ..NOTHING
            },
            must_reach: &[
                S::FencedTruncated,
                S::Truncated,
                S::MissedTruncated,
                S::UnsoundSnapshot,
                S::PromotedFromSnapshot,
            ],
        }
    }

    /// A legacy writer of ours, and nodes that cut over.
    #[must_use]
    pub fn cutover() -> Self {
        Self {
            name: "cutover",
            about: "a live legacy writer of ours and two nodes that cut over, claim and write",
            start: Start::Legacy { writers: 1, original: false },
            bounds: Bounds { nodes: 3, claims: 2, batches: 1, entries: 2, flying: 2, silences: 2, ..NOTHING },
            must_reach: &[
                S::CutoverRace,
                S::TwoCutovers,
                S::CutoverFoundByReading,
                S::LegacyFenced,
                S::LateLegacyRefused,
                S::LegacyFoundByReading,
                S::LegacyDoubt,
                S::FirstBatchAfterCutover,
            ],
        }
    }

    /// Two legacy writers of ours, as two leaders of the old election would be.
    #[must_use]
    pub fn two_legacy() -> Self {
        Self {
            name: "two legacy",
            about: "two live legacy writers of ours and a node that cuts over",
            start: Start::Legacy { writers: 2, original: false },
            bounds: Bounds { nodes: 3, claims: 1, batches: 1, entries: 2, flying: 1, silences: 1, ..NOTHING },
            must_reach: &[S::TwoLegacyWriters, S::LegacyFenced],
        }
    }

    /// Reads that fail, wherever a node decides by one.
    #[must_use]
    pub fn failed_reads() -> Self {
        Self {
            name: "failed reads",
            about: "a primary and a standby whose reads fail while they decide what became of a batch or of a claim",
            start: Start::Primary,
            bounds: Bounds {
                nodes: 2,
                claims: 2,
                batches: 2,
                entries: 2,
                flying: 2,
                silences: 2,
                failed_reads: 2,
                ..NOTHING
            },
            must_reach: &[
                S::WriterReadFailed,
                S::FencedReadFailed,
                S::ClaimantGaveUp,
                S::GivenUpAfterClaim,
                S::AbandonedClaimApplies,
                S::SecondEpochWrites,
            ],
        }
    }

    /// A cutover beside the old election.
    #[must_use]
    pub fn old_election() -> Self {
        Self {
            name: "old election",
            about: "a legacy writer of ours, a node that cuts over, old primaries that are elected and gone, and reads that fail",
            start: Start::Legacy { writers: 1, original: false },
            bounds: Bounds {
                nodes: 2,
                claims: 1,
                batches: 1,
                entries: 2,
                flying: 1,
                silences: 1,
                failed_reads: 1,
                elections: 2,
                ..NOTHING
            },
            must_reach: &[S::ElectedRefuses, S::ElectionRace, S::LegacyReadFailed, S::FirstBatchAfterCutover],
        }
    }

    /// A live primary of Mooncake's batches, and nodes that take its log over.
    #[must_use]
    pub fn take_over() -> Self {
        Self {
            name: "take-over",
            about: "a live primary of Mooncake's and two nodes that take its log over, claim and write",
            start: Start::Mooncake,
            bounds: Bounds { nodes: 3, claims: 2, batches: 3, entries: 2, flying: 2, silences: 2, ..NOTHING },
            must_reach: &[
                S::TakenOver,
                S::OriginalFenced,
                S::TwoClaims,
                S::ClaimFoundByReading,
                S::ClaimMoved,
                S::AppendBetweenReadAndClaim,
                S::LateAppendMeetsClaim,
                S::SecondEpochWrites,
            ],
        }
    }

    /// The original's legacy writer, which compares nothing: a violation is expected.
    #[must_use]
    pub fn original() -> Self {
        Self {
            name: "original",
            about: "a live legacy writer of the original's, which no compare can fence, and a node that cuts over",
            start: Start::Legacy { writers: 1, original: true },
            bounds: Bounds { nodes: 2, claims: 1, batches: 1, entries: 2, flying: 1, silences: 1, ..NOTHING },
            must_reach: &[S::OriginalAboveBase],
        }
    }

    /// A store that loses what it acknowledged.
    #[must_use]
    pub fn store_loss() -> Self {
        Self {
            name: "store loss",
            about: "a store that loses its last batch or its prefix under a writer, a standby and a node that starts",
            start: Start::Primary,
            bounds: Bounds { nodes: 3, claims: 2, batches: 2, entries: 2, crashes: 1, losses: 1, ..NOTHING },
            must_reach: &[
                S::StoreLostWrites,
                S::StoreLostPrefix,
                S::WriterMeetsLoss,
                S::ReaderMeetsLoss,
                S::ChainMeetsLoss,
                S::MissingPrefixRefused,
            ],
        }
    }

    /// Those in which every invariant must hold.
    #[must_use]
    pub fn all() -> Vec<Self> {
        vec![
            Self::failover(),
            Self::deaths(),
            Self::truncation(),
            Self::cutover(),
            Self::two_legacy(),
            Self::store_loss(),
            Self::failed_reads(),
            Self::old_election(),
            Self::take_over(),
        ]
    }
}
