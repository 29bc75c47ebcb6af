//! Owns what the log adds up to, by the judge's own rules: which objects there are, and which ranges they own.

use std::collections::{BTreeMap, HashMap};

use super::log::{Log, LogEntry};
use super::payload::{Change, Replica};
use super::verdict::{Finding, Kind};
use crate::demo::ledger::Incarnation;

/// A live object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) incarnation: Incarnation,
    pub(crate) size: u64,
    pub(crate) replicas: Vec<Replica>,
}

/// How often the log has an incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) puts: u32,
    pub(crate) removals: u32,
}

/// The log, added up.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    /// By key, of the default tenant.
    pub(crate) live: BTreeMap<Vec<u8>, Object>,
    /// Every incarnation that occurs, with its key.
    pub(crate) seen: HashMap<Incarnation, (Vec<u8>, Seen)>,
    /// What no sound log has.
    pub(crate) findings: Vec<Finding>,
    /// Ranges in use: segment, then first address, then first address behind.
    used: HashMap<String, BTreeMap<u64, u64>>,
}

impl Fold {
    /// Adds up the whole log.
    pub(crate) fn of(log: &Log) -> Self {
        let mut fold = Self::default();
        for entry in &log.entries {
            fold.entry(entry);
        }
        fold
    }

    fn entry(&mut self, entry: &LogEntry) {
        match &entry.change {
            Change::Put { incarnation, size, replicas } => {
                let object = Object { incarnation: *incarnation, size: *size, replicas: replicas.clone() };
                self.put(entry, object);
            }
            Change::Remove { incarnation } => {
                self.seen(entry, *incarnation).removals += 1;
                match self.live.get(&entry.key) {
                    Some(object) if object.incarnation == *incarnation => self.free(&entry.key),
                    _ => self.find(entry, Kind::Doubled, *incarnation, "is removed where it is not"),
                }
            }
            Change::Revoke { incarnation } => {
                if self.live.get(&entry.key).is_some_and(|object| object.incarnation == *incarnation) {
                    self.free(&entry.key);
                }
            }
            Change::Mount { base, size } => {
                let segment = String::from_utf8_lossy(&entry.key).into_owned();
                // Everything outside of the segment counts as used, so that a range that leaves it collides.
                let outside = [(0, *base), (base.saturating_add(*size), u64::MAX)];
                let outside = outside.into_iter().filter(|(first, behind)| first < behind);
                self.used.insert(segment, outside.collect());
            }
            Change::Unmount => {
                let segment = String::from_utf8_lossy(&entry.key).into_owned();
                self.used.remove(&segment);
                for object in self.live.values_mut() {
                    object.replicas.retain(|replica| replica.segment != segment);
                }
                self.live.retain(|_, object| !object.replicas.is_empty());
            }
            Change::Other => {}
        }
    }

    fn put(&mut self, entry: &LogEntry, object: Object) {
        let incarnation = object.incarnation;
        self.seen(entry, incarnation).puts += 1;
        if self.live.contains_key(&entry.key) {
            self.find(entry, Kind::Doubled, incarnation, "is put where another object is");
            self.free(&entry.key);
        }
        for replica in &object.replicas {
            let (first, behind) = (replica.address, replica.address.saturating_add(object.size));
            let used = self.used.entry(replica.segment.clone()).or_insert_with(|| BTreeMap::from([(0, u64::MAX)]));
            let before = used.range(..=first).next_back().is_some_and(|(_, end)| *end > first);
            let within = used.range(first..behind).next().is_some();
            if before || within {
                self.find(entry, Kind::Doubled, incarnation, "owns a range that is not free");
            } else {
                used.insert(first, behind);
            }
        }
        self.live.insert(entry.key.clone(), object);
    }

    fn free(&mut self, key: &[u8]) {
        let Some(object) = self.live.remove(key) else { return };
        for replica in &object.replicas {
            if let Some(used) = self.used.get_mut(&replica.segment) {
                used.remove(&replica.address);
            }
        }
    }

    fn seen(&mut self, entry: &LogEntry, incarnation: Incarnation) -> &mut Seen {
        &mut self.seen.entry(incarnation).or_insert_with(|| (entry.key.clone(), Seen::default())).1
    }

    fn find(&mut self, entry: &LogEntry, kind: Kind, incarnation: Incarnation, what: &str) {
        let key = entry.key.escape_ascii().to_string();
        let message = format!("{incarnation} of tenant {} {what}, at sequence {}", entry.tenant, entry.seq);
        self.findings.push(Finding { kind, key, message });
    }
}
