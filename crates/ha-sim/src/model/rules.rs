//! Owns the rules of the protocol that can be taken away one by one, to see that each is needed.

use super::scenario::Scenario;

/// A set of rules, all of them unless some were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    removed: u64,
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// One rule. Its text says what holds with it; what the model does without it is said where it asks
        /// [`Rules::keep`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule { $($(#[doc = $doc])+ $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What the rule says.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)* }
            }
        }
    };
}

rules! {
    /// an append compares the prefix
    AppendComparesPrefix,
    /// an append's compare covers epoch and owner, not the boundary alone
    AppendComparesClaim,
    /// outcome rule 1: the new prefix, exactly, means committed
    OwnSuccessIsSeen,
    /// outcome rule 1 is exact: the same batch id and sequence under another claim are not ours (RFC literal)
    OwnSuccessIsExact,
    /// outcome rule 2: an unchanged prefix settles nothing, as the transaction may yet land
    UnchangedIsNotOver,
    /// outcome rule 2: what is sent again is the same transaction
    SameTransactionAgain,
    /// outcome rule 3: a higher epoch ends the writer
    HigherEpochFences,
    /// outcome rule 3: past our batch id the stored record is read before anything is called lost
    StoredBatchIsRead,
    /// outcome rule 3: the stored record is ours only if it has our epoch
    StoredEpochDecides,
    /// outcome rule 3: a record that is absent (truncated) tells nothing
    AbsentBatchIsUnknown,
    /// outcome rule 4: a prefix that is absent or lower ends the writer
    LowerPrefixEnds,
    /// an append without an answer is unknown, not failed
    NoAnswerIsUnknown,
    /// an append without an answer is unknown, not committed
    NoAnswerIsNoSuccess,
    /// after a failed compare the prefix is read before the batch is called lost
    FailedCompareIsReread,
    /// a writer that is stopped calls a batch that may have been sent unknown
    StopSaysUnknown,
    /// nothing is written before the log is claimed
    ClaimBeforeWriting,
    /// the last catch-up comes after the claim, not before it
    CatchUpAfterClaim,
    /// a claim compares the whole prefix it read
    ClaimComparesPrefix,
    /// a claim raises the epoch
    ClaimRaisesEpoch,
    /// every claim has an owner of its own
    FreshOwner,
    /// a claim without an answer is not ours until a read shows it
    ClaimIsConfirmed,
    /// a state that has served is not followed with again
    ServedStateIsDropped,
    /// truncation never takes the batch that the prefix names
    TruncationKeepsLast,
    /// truncation goes by verified snapshots only
    TruncationVerified,
    /// truncation takes the oldest batch first
    TruncationOldestFirst,
    /// a reader that misses a batch reads the catalogue after the miss
    CatalogueAfterMiss,
    /// a batch names the CRC of the one before it, and a reader checks that
    ReaderChecksChain,
    /// a reader whose state is above the prefix stops
    ReaderAboveStops,
    /// a missing prefix beside batches or snapshots is no fresh log
    MissingIsNotFresh,
    /// the legacy writer compares the prefix absent
    LegacyComparesPrefix,
    /// the legacy writer puts `/latest` in the transaction of its entry
    LegacyPutsLatest,
    /// the legacy writer compares `/latest` as it left it and its entries absent, so that another one fences it
    LegacyFencesAnother,
    /// a doubtful reading of the legacy log is confirmed by a second one
    LegacyDoubtIsConfirmed,
    /// the cutover compares the prefix absent
    CutoverComparesPrefix,
    /// the cutover compares `/latest` as it was read
    CutoverComparesLatest,
    /// the cutover refuses while an old primary is elected
    CutoverLooksForOldPrimary,
    /// the cutover compares the old election's key as it was read
    CutoverComparesElection,
    /// a take-over compares Mooncake's prefix as it was read
    TakeOverComparesPrefix,
    /// a read of the prefix that fails is no absence
    FailedReadIsNoAbsence,
}

impl Rule {
    /// The scenario in which something goes wrong without it.
    #[must_use]
    pub fn needed_by(self) -> Scenario {
        match self {
            Self::AbsentBatchIsUnknown
            | Self::TruncationKeepsLast
            | Self::TruncationVerified
            | Self::TruncationOldestFirst
            | Self::CatalogueAfterMiss => Scenario::truncation(),
            Self::LowerPrefixEnds | Self::ReaderChecksChain | Self::ReaderAboveStops | Self::MissingIsNotFresh => {
                Scenario::store_loss()
            }
            Self::LegacyComparesPrefix
            | Self::LegacyPutsLatest
            | Self::LegacyDoubtIsConfirmed
            | Self::CutoverComparesPrefix
            | Self::CutoverComparesLatest => Scenario::cutover(),
            Self::CutoverLooksForOldPrimary | Self::CutoverComparesElection => Scenario::old_election(),
            Self::TakeOverComparesPrefix => Scenario::take_over(),
            Self::FailedReadIsNoAbsence => Scenario::failed_reads(),
            Self::StopSaysUnknown => Scenario::deaths(),
            Self::LegacyFencesAnother => Scenario::two_legacy(),
            _ => Scenario::failover(),
        }
    }
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self { removed: 0 };

    /// All but `rule`.
    #[must_use]
    pub fn without(rule: Rule) -> Self {
        Self { removed: 1 << rule as u64 }
    }

    /// Whether `rule` is followed.
    #[must_use]
    pub fn keep(self, rule: Rule) -> bool {
        self.removed & (1 << rule as u64) == 0
    }
}
