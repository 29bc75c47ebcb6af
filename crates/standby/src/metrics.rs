//! Owns the figures of a standby: counters since its start, gauges now.

use crate::Health;

/// Figures of one standby.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandbyMetrics {
    /// How it is.
    pub health: Health,
    /// The last entry applied.
    pub applied_seq: u64,
    /// The last batch applied.
    pub applied_batch: u64,
    /// The last entry of the durable prefix read last; 0 before the first.
    pub prefix_seq: u64,
    /// The last batch of the durable prefix read last; 0 before the first.
    pub prefix_batch: u64,
    /// The epoch of the durable prefix read last; 0 before the first.
    pub prefix_epoch: u64,
    /// Entries behind that prefix.
    pub lag_entries: u64,
    /// Batches behind that prefix.
    pub lag_batches: u64,
    /// Entries applied.
    pub entries: u64,
    /// Batches applied.
    pub batches: u64,
    /// Bytes of batch records applied.
    pub bytes: u64,
    /// Requests sent to the store.
    pub reads: u64,
    /// Rounds begun by a hint.
    pub hints: u64,
    /// Rounds begun by the poll interval.
    pub polls: u64,
    /// Requests that failed.
    pub store_errors: u64,
    /// Doubtful readings that a second one did not confirm.
    pub unconfirmed: u64,
    /// The last failure of the store; kept after it works again.
    pub last_error: Option<String>,
    /// Whether the last round reached the store.
    pub store_answers: bool,
    /// The legacy mode's.
    pub legacy: LegacyFigures,
}

/// Figures of the legacy mode; zero and none where it is not switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyFigures {
    /// Whether the state stands in the legacy log: it cannot be promoted from there.
    pub following: bool,
    /// What `latest` said last, a hint; 0 before it said anything.
    pub latest_seq: u64,
    /// The base at which the log was cut over, once it was.
    pub base_seq: Option<u64>,
    /// The missing entry that is waited for.
    pub missing_seq: Option<u64>,
    /// Missing entries that were passed over.
    pub skipped: u64,
    /// States that were thrown away because they held what is not in the log, or lacked what may be.
    pub restarts: u64,
    /// States that were rolled back and replayed: the sequence of a key did not rise in one reading, and did in the next.
    pub roll_backs: u64,
    /// The entry that is not believed and is being read again: its key's sequence did not rise.
    pub doubt: Option<String>,
    /// Keys whose operations are counted.
    pub counted_keys: u64,
    /// The alarm: a legacy entry above the base, named.
    pub alarm: Option<String>,
}

impl LegacyFigures {
    /// What an operator should know about a standby that is healthy, if there is anything.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        if let Some(alarm) = &self.alarm {
            return Some(alarm.clone());
        }
        let missing =
            self.missing_seq.map(|seq| format!("; entry {seq} is missing and waited for")).unwrap_or_default();
        let doubt = self.doubt.as_ref().map(|fault| format!("; reading again: {fault}")).unwrap_or_default();
        match (self.following, self.base_seq) {
            (false, _) => None,
            (true, None) => Some(format!(
                "follows the legacy log; no node leads before it is cut over (plimsoll oplog cutover){missing}{doubt}"
            )),
            (true, Some(base)) => Some(format!("follows the legacy log to its base {base}{missing}{doubt}")),
        }
    }
}
