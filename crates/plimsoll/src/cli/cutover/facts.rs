//! Owns what was seen of a legacy log: raw values of its keys, and what the replay came to. It decides nothing.

use oplog_core::Seq;
use oplog_core::legacy::{CutoverError, LegacyHole, LegacyLog, OLD_PRIMARY_QUIET, entry_above_base};
use oplog_core::{DurablePrefix, LogError};

/// A key of the store and what it holds.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) key: String,
    pub(super) value: Option<String>,
}

/// What was seen.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) prefix_key: String,
    /// The durable prefix, where one was there that can be read.
    pub(super) prefix: Option<DurablePrefix>,
    pub(super) latest: Seen,
    pub(super) election: Seen,
    /// What the operator asked for.
    pub(super) last_seq: Option<Seq>,
    /// Whether nothing moved for as long as it was watched; `None` if it was not.
    pub(super) quiet: Option<bool>,
    pub(super) base: Option<Seq>,
    pub(super) entries: Option<u64>,
    pub(super) holes: Option<Vec<LegacyHole>>,
    /// How many entries are missing, where they are refused.
    pub(super) missing: Option<u64>,
    /// An entry above the base.
    pub(super) above: Option<String>,
    /// Snapshots of the original, as id and what their sequence says. Nothing can be started from them.
    pub(super) snapshots: Vec<(String, String)>,
}

impl Facts {
    /// Looks at the keys beside the entries.
    pub(super) async fn read(log: &LegacyLog, last_seq: Option<Seq>) -> Result<Self, LogError> {
        let keys = log.keys();
        let (latest_key, election_key) = (keys.legacy_latest(), keys.old_master_view());
        let prefix = match log.read_prefix().await {
            // What cannot be read is the cutover's to refuse.
            Err(LogError::Fault(_)) => None,
            read => read?,
        };
        let latest = seen(&latest_key, log.kv().get(&latest_key).await?);
        let election = seen(&election_key, log.kv().get(&election_key).await?);
        let snapshots = log.snapshots().await?;
        let sequence = |s: Result<Seq, _>| {
            s.map_or_else(|fault: oplog_core::ReplayFault| fault.to_string(), |seq| seq.to_string())
        };
        let mut facts = Self {
            prefix_key: keys.durable_prefix().escape_ascii().to_string(),
            prefix,
            latest,
            election,
            last_seq,
            quiet: None,
            base: None,
            entries: None,
            holes: None,
            missing: None,
            above: None,
            snapshots: snapshots.into_iter().map(|s| (s.id, sequence(s.sequence))).collect(),
        };
        if let Some(base) = facts.expected_base().filter(|_| facts.prefix.is_none()) {
            facts.above = entry_above_base(log, base).await?.map(|fault| fault.to_string());
        }
        Ok(facts)
    }

    /// Where the log will be cut over, if all is as it seems.
    pub(super) fn expected_base(&self) -> Option<Seq> {
        let latest = || self.latest.value.as_ref()?.parse().ok().map(Seq::new);
        self.last_seq.or_else(latest)
    }

    /// Waits until the old primary has had its time to write, and looks whether `latest` has moved since.
    pub(super) async fn watch(&mut self, log: &LegacyLog) -> Result<(), LogError> {
        tokio::time::sleep(OLD_PRIMARY_QUIET).await;
        let now = seen(&log.keys().legacy_latest(), log.kv().get(&log.keys().legacy_latest()).await?);
        self.quiet = Some(now.value == self.latest.value);
        Ok(())
    }

    /// Takes what a refusal says. Whether the rest can still be looked at as if it had not been one: an old primary that lives.
    pub(super) fn learn(&mut self, refused: &CutoverError) -> bool {
        match refused {
            CutoverError::OldPrimaryElected { .. } => true,
            CutoverError::OldPrimaryWrites { .. } => {
                self.quiet = Some(false);
                true
            }
            CutoverError::Holes { holes, missing, base, .. } => {
                self.holes = Some(holes.clone());
                self.missing = Some(*missing);
                self.base = Some(*base);
                false
            }
            _ => false,
        }
    }
}

fn seen(key: &[u8], value: Option<bytes::Bytes>) -> Seen {
    const SHOWN: usize = 200;
    let value = value.map(|value| value.iter().take(SHOWN).flat_map(|b| b.escape_ascii()).map(char::from).collect());
    Seen { key: key.escape_ascii().to_string(), value }
}
