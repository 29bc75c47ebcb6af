//! Owns the protocol's pure decisions as a model checker drives them: the transactions, the fate of a batch, the verdict about
//! a claim. Behind the feature `proof`; nothing of the product uses it, and nothing here decides anything of its own.

use bytes::Bytes;
use ha_kv::{KvError, Txn};

use crate::claim::verdict::{Verdict, judge};
use crate::{DurablePrefix, LogKeys, storage};

#[cfg(feature = "legacy")]
pub mod legacy;
#[cfg(feature = "mooncake")]
pub mod mooncake;

pub use crate::writer::flight::proof::{BatchFlight, FlightStep};

/// What a claim that was not plainly answered has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimVerdict {
    /// The log is ours.
    Claimed,
    /// Nothing has happened: send the same claim again.
    Resend,
    /// The old writer committed first: catch up, then claim anew.
    CatchUp(DurablePrefix),
    /// Somebody claimed after us or instead of us: give up.
    Superseded(DurablePrefix),
    /// No sequence of claims and appends leads here.
    Corrupt(Option<DurablePrefix>),
}

/// Judges the prefix `found` after sending the claim `mine` of `expected` (design §3.1, *Claim*).
#[must_use]
pub fn judge_claim(expected: &DurablePrefix, mine: &DurablePrefix, found: Option<DurablePrefix>) -> ClaimVerdict {
    match judge(expected, mine, found) {
        Verdict::Claimed => ClaimVerdict::Claimed,
        Verdict::Resend => ClaimVerdict::Resend,
        Verdict::CatchUp(found) => ClaimVerdict::CatchUp(found),
        Verdict::Superseded(found) => ClaimVerdict::Superseded(found),
        Verdict::Corrupt(found) => ClaimVerdict::Corrupt(found),
    }
}

/// The transaction by which a writer appends `record`.
///
/// # Errors
/// `InvalidArgument` if `new` does not follow `expected` by one batch under the same claim.
pub fn append_txn(
    keys: &LogKeys,
    expected: &DurablePrefix,
    new: &DurablePrefix,
    record: Bytes,
) -> Result<Txn, KvError> {
    storage::append_txn(keys, expected, new, record)
}

/// The transaction by which a candidate claims the log.
///
/// # Errors
/// `InvalidArgument` if `new` is no claim of `expected`.
pub fn claim_txn(keys: &LogKeys, expected: &DurablePrefix, new: &DurablePrefix) -> Result<Txn, KvError> {
    storage::claim_txn(keys, expected, new)
}
