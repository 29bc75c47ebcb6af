//! Owns the contents: pairs, leases, watchers. It takes no time and no locks of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use ha_types::MonoTime;

use crate::{HintSender, LeaseId};

/// A value, and the lease it dies with.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) value: Bytes,
    pub(super) lease: Option<LeaseId>,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) ttl: Duration,
    pub(super) runs_until: MonoTime,
    pub(super) keys: BTreeSet<Bytes>,
}

#[derive(Debug)]
struct Watcher {
    start: Bytes,
    end: Bytes,
    sender: HintSender,
}

/// The contents.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) map: BTreeMap<Bytes, Stored>,
    pub(super) leases: BTreeMap<u64, Lease>,
    pub(super) last_lease: u64,
    watchers: Vec<Watcher>,
}

impl State {
    /// Ends every lease that has run out at `now`.
    pub(super) fn expire(&mut self, now: MonoTime) {
        while let Some(id) = self.leases.iter().find(|(_, lease)| lease.runs_until <= now).map(|(id, _)| *id) {
            self.end_lease(LeaseId::new(id));
        }
    }

    /// Removes a lease with its keys, if it is there.
    pub(super) fn end_lease(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.remove(&id.get()) {
            for key in lease.keys {
                self.map.remove(&key);
                self.hint(&key);
            }
        }
    }

    pub(super) fn put(&mut self, key: Bytes, value: Bytes, lease: Option<LeaseId>) {
        let old = self.map.insert(key.clone(), Stored { value, lease });
        self.detach(&key, old);
        if let Some(lease) = lease.and_then(|id| self.leases.get_mut(&id.get())) {
            lease.keys.insert(key.clone());
        }
        self.hint(&key);
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        let Some((key, old)) = self.map.remove_entry(key) else { return false };
        self.detach(&key, Some(old));
        self.hint(&key);
        true
    }

    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8]) -> u64 {
        if start >= end {
            return 0;
        }
        let bounds = (Bound::Included(start), Bound::Excluded(end));
        let keys: Vec<Bytes> = self.map.range::<[u8], _>(bounds).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.delete(key);
        }
        keys.len() as u64
    }

    fn detach(&mut self, key: &Bytes, old: Option<Stored>) {
        if let Some(lease) = old.and_then(|old| old.lease).and_then(|id| self.leases.get_mut(&id.get())) {
            lease.keys.remove(key);
        }
    }

    pub(super) fn watch(&mut self, start: &[u8], end: &[u8], sender: HintSender) {
        let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
        self.watchers.retain(|watcher| !watcher.sender.is_closed());
        self.watchers.push(Watcher { start, end, sender });
    }

    fn hint(&mut self, key: &Bytes) {
        self.watchers.retain(|w| *key < w.start || w.end <= *key || w.sender.hint());
    }
}
