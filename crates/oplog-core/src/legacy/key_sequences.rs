//! Owns the count of operations by key (RFC hot standby §5, §9): read, it must rise; written, it does. It reads no clock.

use std::collections::HashMap;
use std::time::Duration;

use ha_types::{MonoTime, OpType, Seq};

use super::{KeyDisorder, KeyStep, LegacyEntry};

/// The last `key_sequence_id` of each key, forgotten an hour after the key was removed.
///
/// A key that was forgotten goes on above every id that was ever forgotten, so that a reader who remembers longer, or applies later,
/// never sees a key go back.
#[derive(Clone, Debug, Default)]
pub struct KeySequences {
    tenants: HashMap<String, HashMap<String, Last>>,
    keys: usize,
    /// The highest id of a key that was forgotten.
    forgotten: u64,
    scanned: MonoTime,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    /// The first entry of the key that is remembered.
    first: Seq,
    step: KeyStep,
    /// When the key was removed, if that was the last thing that happened to it.
    removed: Option<MonoTime>,
}

impl KeySequences {
    /// How long a key is remembered after its removal.
    pub const KEPT_AFTER_REMOVE: Duration = Duration::from_secs(3600);

    /// How often keys to forget are looked for.
    pub const SCAN_INTERVAL: Duration = Duration::from_secs(3600);

    /// How many keys are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// The last id of a key, `None` if none is remembered.
    #[must_use]
    pub fn last(&self, tenant: &str, key: &str) -> Option<u64> {
        self.tenants.get(tenant)?.get(key).map(|last| last.step.id)
    }

    /// The id of the next operation on a key: above all that it had.
    #[must_use]
    pub fn next(&self, tenant: &str, key: &str) -> u64 {
        self.last(tenant, key).unwrap_or(self.forgotten).saturating_add(1)
    }

    /// The doubt about the entry, if its id is not above the last of its key.
    pub(super) fn disorder(&self, entry: &LegacyEntry) -> Option<KeyDisorder> {
        let at = KeyStep { seq: entry.seq, id: entry.key_sequence_id? };
        let last = self.tenants.get(&entry.tenant)?.get(&entry.key).filter(|last| at.id <= last.step.id)?;
        let (tenant, key) = (entry.tenant.clone(), entry.key.clone());
        Some(KeyDisorder { tenant, key, first: last.first, before: last.step, at })
    }

    /// Remembers what happened to the entry's key. Only keys whose entries carry an id are counted.
    pub(super) fn record(&mut self, entry: &LegacyEntry, now: MonoTime) {
        let removed = (entry.op_type == OpType::Remove.number()).then_some(now);
        match entry.key_sequence_id {
            Some(id) => {
                let tenant = self.tenants.entry(entry.tenant.clone()).or_default();
                let step = KeyStep { seq: entry.seq, id };
                match tenant.get_mut(&entry.key) {
                    Some(last) => (last.step, last.removed) = (step, removed),
                    None => {
                        tenant.insert(entry.key.clone(), Last { first: entry.seq, step, removed });
                        self.keys += 1;
                    }
                }
            }
            None => {
                if let Some(last) = self.tenants.get_mut(&entry.tenant).and_then(|t| t.get_mut(&entry.key)) {
                    last.removed = removed;
                }
            }
        }
        self.clean_up(now);
    }

    /// Once an hour forgets the keys whose last operation was a REMOVE more than an hour ago. Others are kept.
    pub fn clean_up(&mut self, now: MonoTime) {
        if now.saturating_since(self.scanned) < Self::SCAN_INTERVAL {
            return;
        }
        self.scanned = now;
        for keys in self.tenants.values_mut() {
            keys.retain(|_, last| {
                let old = last.removed.is_some_and(|at| now.saturating_since(at) > Self::KEPT_AFTER_REMOVE);
                if old {
                    self.forgotten = self.forgotten.max(last.step.id);
                }
                !old
            });
        }
        self.tenants.retain(|_, keys| !keys.is_empty());
        self.keys = self.tenants.values().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(op: OpType, key: &str, id: Option<u64>) -> LegacyEntry {
        entry_at(1, op, key, id)
    }

    fn entry_at(seq: u64, op: OpType, key: &str, id: Option<u64>) -> LegacyEntry {
        LegacyEntry {
            seq: Seq::new(seq),
            timestamp_ms: 0,
            op_type: op.number(),
            tenant: "default".into(),
            key: key.into(),
            payload: bytes::Bytes::new(),
            key_sequence_id: id,
        }
    }

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn only_keys_removed_more_than_an_hour_ago_are_forgotten_once_an_hour() {
        let mut counts = KeySequences::default();
        counts.record(&entry(OpType::PutEnd, "put", Some(1)), at(0));
        counts.record(&entry(OpType::PutRevoke, "revoked", Some(1)), at(0));
        counts.record(&entry(OpType::Remove, "removed", Some(9)), at(10));
        counts.record(&entry(OpType::Remove, "later", Some(2)), at(3000));
        counts.record(&entry(OpType::Remove, "again", Some(2)), at(0));
        counts.record(&entry(OpType::PutEnd, "again", Some(3)), at(20));
        counts.clean_up(at(3599));
        assert_eq!(counts.len(), 5);
        counts.clean_up(at(3610));
        assert_eq!(counts.len(), 5, "an hour to the second is not more than one");
        counts.clean_up(at(3611));
        assert_eq!(counts.len(), 5, "it was scanned a second ago");
        counts.clean_up(at(7210));
        let kept = ["put", "revoked", "again"].map(|key| counts.last("default", key));
        assert_eq!((kept, counts.len()), ([Some(1), Some(1), Some(3)], 3));
    }

    #[test]
    fn a_forgotten_key_goes_on_above_everything_forgotten() {
        let mut counts = KeySequences::default();
        assert_eq!(counts.next("default", "k"), 1);
        counts.record(&entry(OpType::Remove, "k", Some(7)), at(1));
        assert_eq!(counts.next("default", "k"), 8);
        assert_eq!(counts.next("other", "k"), 1, "tenants have counts of their own");
        counts.clean_up(at(7202));
        assert!(counts.is_empty());
        assert_eq!(counts.next("default", "k"), 8);
    }

    #[test]
    fn an_entry_without_an_id_is_not_counted_but_decides_what_was_last() {
        let mut counts = KeySequences::default();
        counts.record(&entry(OpType::PutEnd, "k", None), at(0));
        assert!(counts.is_empty());
        counts.record(&entry(OpType::Remove, "k", Some(1)), at(1));
        counts.record(&entry(OpType::PutEnd, "k", None), at(2));
        counts.clean_up(at(9000));
        assert_eq!(counts.last("default", "k"), Some(1));
        assert!(counts.disorder(&entry(OpType::PutEnd, "k", Some(1))).is_some());
        assert_eq!(counts.disorder(&entry(OpType::PutEnd, "k", Some(2))), None);
        assert_eq!(counts.disorder(&entry(OpType::PutEnd, "k", None)), None);
    }

    #[test]
    fn a_disorder_names_the_first_entry_of_the_key_and_both_that_do_not_rise() {
        let mut counts = KeySequences::default();
        for (seq, key, id) in [(3, "k", Some(1)), (4, "other", Some(9)), (5, "k", None), (7, "k", Some(5))] {
            counts.record(&entry_at(seq, OpType::PutEnd, key, id), at(0));
        }
        let disorder = counts.disorder(&entry_at(9, OpType::PutEnd, "k", Some(5))).unwrap();
        let step = |seq, id| KeyStep { seq: Seq::new(seq), id };
        assert_eq!((disorder.first, disorder.before, disorder.at), (Seq::new(3), step(7, 5), step(9, 5)));
        // Forgotten is forgotten: what comes after begins a new count.
        counts.record(&entry_at(8, OpType::Remove, "k", Some(6)), at(1));
        counts.clean_up(at(9000));
        counts.record(&entry_at(10, OpType::PutEnd, "k", Some(2)), at(9001));
        let disorder = counts.disorder(&entry_at(11, OpType::PutEnd, "k", Some(1))).unwrap();
        assert_eq!((disorder.first, disorder.before), (Seq::new(10), step(10, 2)));
    }
}
