//! Owns the situations that a run must reach to be worth anything, and the count of how often it did.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! situations {
    ($($name:ident: $text:literal,)*) => {
        /// Something that happened on the way.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Situation { $(#[doc = $text] $name,)* }

        impl Situation {
            /// Every situation.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What happened.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

situations! {
    LateAppendApplies: "an append lands after its writer stopped waiting for it",
    LateAppendMeetsClaim: "late apply after a claim: an append arrives when a higher epoch owns the log, and is refused",
    LateClaimApplies: "a claim lands after its claimant stopped waiting for it",
    AbandonedClaimApplies: "a claim lands whose claimant has given up or died: nobody owns the log",
    LateClaimRefused: "a claim arrives late and is refused",
    ClaimBetweenReadAndWrite: "a claim lands between a writer's read of the prefix and its write",
    AppendBetweenReadAndClaim: "an append lands between a claimant's read of the prefix and its claim",
    TwoClaims: "two claims of one epoch are under way at once, and one of them lands",
    ClaimFoundByReading: "a claim without an answer is found by reading",
    ClaimSentAgain: "a claim is sent again",
    ClaimMoved: "an older writer was faster: the claimant catches up and claims anew",
    ClaimSuperseded: "a claimant meets a higher epoch and gives up",
    PromotionWithUnknownBatch: "a node is promoted while an older writer's batch is unknown to it",
    PromotedOverLandedBatch: "a promoted node has a batch whose writer never heard of it",
    TwoServe: "an older primary still believes that it serves when a newer one begins to",
    CommittedFoundByReading: "a batch without an answer is found committed by reading",
    SentAgain: "a batch is sent again",
    SecondCopyRefused: "a second copy of a batch arrives after the first has landed",
    FencedBeforeBatch: "fenced at its own boundary: the batch is never durable",
    FencedMine: "fenced, and the stored record has its epoch: durable",
    FencedHigher: "fenced, and the stored record has a higher epoch: never",
    FencedTruncated: "fenced with the batch truncated: unknown",
    StoppedUnknown: "stopped with a batch that may yet land: unknown",
    Crashed: "a node dies with a batch or a claim under way",
    Truncated: "a batch is truncated",
    MissedTruncated: "a reader misses a truncated batch and starts from the snapshot",
    UnsoundSnapshot: "a catalogued snapshot cannot be restored and is never verified",
    PromotedFromSnapshot: "a node that started from a snapshot is promoted",
    SecondEpochWrites: "two epochs have written to one log",
    CutoverRace: "cutover race: a legacy entry lands between the read of `/latest` and the cutover, which is refused",
    TwoCutovers: "two cutovers at once: the loser finds the winner's prefix",
    CutoverFoundByReading: "a cutover without an answer is found by reading",
    LegacyFenced: "a legacy writer is fenced by the cutover",
    LateLegacyRefused: "a legacy entry arrives after the cutover and is refused",
    LegacyFoundByReading: "a legacy entry without an answer is found below the base",
    TwoLegacyWriters: "two legacy writers meet at one entry, and one of them loses",
    WriterReadFailed: "a writer's read of the prefix fails, and it asks again",
    FencedReadFailed: "a fenced writer's read of the stored record fails, and it asks again",
    ClaimantGaveUp: "a claimant's reads fail until it gives up, and its claim may yet land",
    GivenUpAfterClaim: "a node has claimed the log and gives up before it serves, for its reads fail",
    LegacyReadFailed: "a legacy writer's reading is cut short by a read that fails, and begins anew",
    TakenOver: "a log of Mooncake's is taken over",
    OriginalFenced: "a transaction of Mooncake's primary meets the take-over, and is refused",
    ElectedRefuses: "a cutover meets an elected old primary, and refuses",
    ElectionRace: "an old primary is elected between a cutover's look and its transaction, which is refused",
    LegacyDoubt: "a legacy writer reads between two writes, and reads again",
    FirstBatchAfterCutover: "the first batch is written above a base of legacy entries",
    OriginalAboveBase: "the original's writer puts an entry above the base after the cutover",
    StoreLostWrites: "the store loses its last batch",
    StoreLostPrefix: "the store loses the prefix",
    WriterMeetsLoss: "a writer meets a prefix that went back, and ends",
    ReaderMeetsLoss: "a reader meets a prefix below its state, and stops",
    ChainMeetsLoss: "a reader meets a history that was written anew, and stops at the broken chain",
    MissingPrefixRefused: "a missing prefix beside other state is refused",
}

/// How often each situation was met.
#[derive(Debug)]
pub(super) struct Reached {
    counts: Vec<AtomicU64>,
}

impl Reached {
    pub(super) fn new() -> Self {
        Self { counts: Situation::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn note(&self, situation: Situation) {
        self.counts[situation as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, situation: Situation) -> u64 {
        self.counts[situation as usize].load(Ordering::Relaxed)
    }
}
