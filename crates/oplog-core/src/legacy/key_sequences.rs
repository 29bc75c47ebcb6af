//! Owns the count of operations by key (RFC hot standby §5, §9): read, it must rise; written, it does. It reads no clock.

use std::collections::HashMap;
use std::time::Duration;

use ha_types::{MonoTime, OpType};

use super::LegacyEntry;

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
    id: u64,
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
        self.tenants.get(tenant)?.get(key).map(|last| last.id)
    }

    /// The id of the next operation on a key: above all that it had.
    #[must_use]
    pub fn next(&self, tenant: &str, key: &str) -> u64 {
        self.last(tenant, key).unwrap_or(self.forgotten).saturating_add(1)
    }

    /// The last id of the entry's key, if the entry's own is not above it.
    pub(super) fn not_below(&self, entry: &LegacyEntry) -> Option<u64> {
        let id = entry.key_sequence_id?;
        self.last(&entry.tenant, &entry.key).filter(|last| id <= *last)
    }

    /// Remembers what happened to the entry's key. Only keys whose entries carry an id are counted.
    pub(super) fn record(&mut self, entry: &LegacyEntry, now: MonoTime) {
        let removed = (entry.op_type == OpType::Remove.number()).then_some(now);
        match entry.key_sequence_id {
            Some(id) => {
                let tenant = self.tenants.entry(entry.tenant.clone()).or_default();
                let before = tenant.insert(entry.key.clone(), Last { id, removed });
                self.keys += usize::from(before.is_none());
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
                    self.forgotten = self.forgotten.max(last.id);
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
    use ha_types::Seq;

    use super::*;

    fn entry(op: OpType, key: &str, id: Option<u64>) -> LegacyEntry {
        LegacyEntry {
            seq: Seq::new(1),
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
        assert_eq!(counts.not_below(&entry(OpType::PutEnd, "k", Some(1))), Some(1));
        assert_eq!(counts.not_below(&entry(OpType::PutEnd, "k", Some(2))), None);
        assert_eq!(counts.not_below(&entry(OpType::PutEnd, "k", None)), None);
    }
}
