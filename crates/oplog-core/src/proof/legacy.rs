//! Owns the legacy log's pure decisions: the transaction of a group, the verdict about one, and the cutover's transaction.

use bytes::Bytes;
use ha_kv::{KvPair, Txn};
use ha_types::Seq;

use crate::legacy::cutover::transaction;
use crate::legacy::writer::{group, judge};
use crate::{DurablePrefix, LogKeys, Outcome};

/// A group that a legacy writer has sent.
#[derive(Clone, Debug)]
pub struct LegacySent {
    /// The sequence of its first entry.
    pub first: Seq,
    /// What its entries hold.
    pub values: Vec<Bytes>,
    /// What `latest` had to hold.
    pub expected: Option<Bytes>,
    /// Whether an attempt may have applied, or may yet.
    pub unknown: bool,
}

/// What was read afterwards, in this order.
#[derive(Clone, Debug)]
pub struct LegacyReading {
    /// The durable prefix, and the base if it can still be told.
    pub prefix: Option<(DurablePrefix, Option<Seq>)>,
    /// `latest`.
    pub latest: Option<Bytes>,
    /// What is under the keys of the entries.
    pub stored: Vec<Option<Bytes>>,
}

/// What a reading says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegacyVerdict {
    /// It committed.
    Committed,
    /// The same transaction is sent again.
    Resend,
    /// Somebody else has written, or the log was cut over; this is what became of each entry.
    Ended(Vec<Outcome>),
    /// To be confirmed by a second reading, then this is what became of each entry.
    Doubtful(Vec<Outcome>),
}

/// Judges.
#[must_use]
pub fn judge_legacy(sent: &LegacySent, reading: &LegacyReading) -> LegacyVerdict {
    let LegacySent { first, values, expected, unknown } = sent.clone();
    let LegacyReading { prefix, latest, stored } = reading.clone();
    match judge::judge(&judge::Sent { first, values, expected, unknown }, &judge::Reading { prefix, latest, stored }) {
        judge::Verdict::Committed => LegacyVerdict::Committed,
        judge::Verdict::Resend => LegacyVerdict::Resend,
        judge::Verdict::Ended(outcomes) => LegacyVerdict::Ended(outcomes),
        judge::Verdict::Doubtful(outcomes) => LegacyVerdict::Doubtful(outcomes),
    }
}

/// The transaction by which a legacy writer puts `entries` and `latest`.
#[must_use]
pub fn legacy_txn(keys: &LogKeys, expected: Option<&Bytes>, new_latest: Bytes, entries: Vec<KvPair>) -> Txn {
    group::group_txn(keys, expected, new_latest, entries)
}

/// The transaction of the cutover.
#[must_use]
pub fn cutover_txn(keys: &LogKeys, latest: Option<&Bytes>, master_view: Option<&Bytes>, first: &DurablePrefix) -> Txn {
    transaction::cutover_txn(keys, latest, master_view, first)
}
