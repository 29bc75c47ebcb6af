//! Owns the rules of the per-entry log: each entry by itself, its place, and that key sequences rise. Reads nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ha_types::Seq;

use super::LegacySummary;
use crate::legacy::{LegacyEntry, LegacyHole};
use crate::{FaultKind, LogKeys, ReplayFault};

/// For how many keys it is checked that their sequence rises: 16 bytes each.
const MOST_KEYS: usize = 1 << 20;

/// How many holes wait for a second look. Writers that have not finished are near the end of the log, so the last ones wait.
const MOST_HOLES: usize = 64;

/// Entries in order. It goes on after every fault.
#[derive(Debug)]
pub(super) struct LegacyChain {
    keys: LogKeys,
    /// The last entry that counts, where that is known.
    base: Option<Seq>,
    last: Seq,
    /// By a hash of tenant and key: the last key sequence.
    key_sequences: HashMap<u64, u64>,
    more_keys: bool,
    holes: VecDeque<LegacyHole>,
    settled: Vec<LegacyHole>,
    pub(super) summary: LegacySummary,
}

impl LegacyChain {
    pub(super) fn new(keys: LogKeys) -> Self {
        Self {
            keys,
            base: None,
            last: Seq::ZERO,
            key_sequences: HashMap::new(),
            more_keys: false,
            holes: VecDeque::new(),
            settled: Vec::new(),
            summary: LegacySummary::default(),
        }
    }

    pub(super) fn base(&self) -> Option<Seq> {
        self.base
    }

    pub(super) fn end_at(&mut self, base: Option<Seq>) {
        self.base = base;
    }

    /// The last entry taken.
    pub(super) fn last(&self) -> Seq {
        self.last
    }

    /// Whether there were more keys than their sequences could be kept for.
    pub(super) fn has_more_keys(&self) -> bool {
        self.more_keys
    }

    /// The value under the key of `seq`, in order. What lies above the base is left to whoever looks there.
    pub(super) fn entry(&mut self, seq: Seq, value: &[u8]) -> Vec<ReplayFault> {
        if self.base.is_some_and(|base| seq > base) {
            return Vec::new();
        }
        self.nothing_through(Seq::new(seq.get().saturating_sub(1)));
        self.last = seq;
        self.judge(seq, value)
    }

    /// An entry that was missing at first: its place among the key sequences is gone.
    pub(super) fn late_entry(&mut self, seq: Seq, value: &[u8]) -> Option<ReplayFault> {
        self.count(seq, value.len());
        LegacyEntry::decode_at(&self.keys.legacy_entry(seq), seq, value).err().map(|e| ReplayFault::from(e).at(seq))
    }

    /// Nothing comes up to `through`.
    pub(super) fn nothing_through(&mut self, through: Seq) {
        let Some(first) = self.last.next().filter(|first| *first <= through) else { return };
        self.last = through;
        self.holes.push_back(LegacyHole { first, last: through });
        if self.holes.len() > MOST_HOLES {
            self.settled.extend(self.holes.pop_front());
        }
    }

    /// The holes that need no second look, as so much came after them.
    pub(super) fn take_settled(&mut self) -> Vec<LegacyHole> {
        std::mem::take(&mut self.settled)
    }

    /// The holes that need one.
    pub(super) fn take_holes(&mut self) -> VecDeque<LegacyHole> {
        std::mem::take(&mut self.holes)
    }

    fn count(&mut self, seq: Seq, bytes: usize) {
        let summary = &mut self.summary;
        summary.entries += 1;
        summary.bytes += bytes as u64;
        summary.first = Some(summary.first.map_or(seq, |first| first.min(seq)));
        summary.last = summary.last.max(Some(seq));
    }

    fn judge(&mut self, seq: Seq, value: &[u8]) -> Vec<ReplayFault> {
        self.count(seq, value.len());
        let key = self.keys.legacy_entry(seq);
        let entry = match LegacyEntry::decode_at(&key, seq, value) {
            Ok(entry) => entry,
            Err(error) => return vec![ReplayFault::from(error).at(seq)],
        };
        let Some(id) = entry.key_sequence_id else { return Vec::new() };
        let mut hasher = DefaultHasher::new();
        (&entry.tenant, &entry.key).hash(&mut hasher);
        let object = hasher.finish();
        match self.key_sequences.get_mut(&object) {
            Some(last) if id <= *last => {
                let expected = format!("key_sequence_id: above {last}, which an earlier entry of the same key has");
                vec![ReplayFault::new(FaultKind::LegacyKeySequence, &key, expected, id).at(seq)]
            }
            Some(last) => {
                *last = id;
                Vec::new()
            }
            None => {
                if self.key_sequences.len() < MOST_KEYS {
                    self.key_sequences.insert(object, id);
                } else {
                    self.more_keys = true;
                }
                Vec::new()
            }
        }
    }
}
