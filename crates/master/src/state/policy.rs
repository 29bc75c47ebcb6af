//! Owns which times are in force: what the log says, shortened by what is on its way into it.

use std::collections::VecDeque;

use ha_types::Seq;

use crate::Policy;
use crate::payload::LoggedPolicy;

/// The times in force. A shorter time holds from its commit, a longer one from its durability: a successor must never know of
/// shorter times than those by which its predecessor granted.
#[derive(Debug)]
pub(crate) struct PolicyInForce {
    durable: LoggedPolicy,
    on_its_way: VecDeque<(Seq, LoggedPolicy)>,
    in_force: Policy,
    /// Whether grants and leases of Mooncake's may run, of which nobody of ours knows how long: until a POLICY entry says so.
    imported: bool,
}

impl Default for PolicyInForce {
    fn default() -> Self {
        Self { durable: LoggedPolicy::INITIAL, on_its_way: VecDeque::new(), in_force: Policy::INITIAL, imported: false }
    }
}

impl PolicyInForce {
    pub(crate) fn in_force(&self) -> Policy {
        self.in_force
    }

    /// The last change on its way, which the times in force may rest on.
    pub(crate) fn on_its_way(&self) -> Option<Seq> {
        self.on_its_way.back().map(|(seq, _)| *seq)
    }

    /// What the log says, entries on their way included.
    pub(crate) fn logged(&self) -> LoggedPolicy {
        self.on_its_way.back().map_or(self.durable, |(_, logged)| *logged)
    }

    /// The longest span of any entry that is durable or on its way.
    pub(crate) fn longest_quarantine_ms(&self) -> u64 {
        self.on_its_way.iter().map(|(_, l)| l.quarantine_ms).fold(self.durable.quarantine_ms, u64::max)
    }

    /// An entry of Mooncake's was replayed: whoever leads next waits for the clients of its primary.
    #[cfg(feature = "mooncake")]
    pub(crate) fn imported(&mut self) {
        self.durable.quarantine_ms = self.durable.quarantine_ms.max(Policy::AFTER_MOONCAKE_MS);
        self.imported = true;
    }

    /// Whether the log says nothing later about grants and leases than that they were Mooncake's.
    pub(crate) fn is_imported(&self) -> bool {
        self.imported
    }

    /// An entry was replayed.
    pub(crate) fn replace(&mut self, logged: LoggedPolicy) {
        *self = Self { durable: logged, on_its_way: VecDeque::new(), in_force: logged.policy, imported: false };
    }

    /// An entry was committed.
    pub(crate) fn committed(&mut self, seq: Seq, logged: LoggedPolicy) {
        self.on_its_way.push_back((seq, logged));
        self.recompute();
    }

    /// The entry `seq` became durable.
    pub(crate) fn became_durable(&mut self, seq: Seq) {
        while self.on_its_way.front().is_some_and(|(first, _)| *first <= seq) {
            if let Some((_, logged)) = self.on_its_way.pop_front() {
                self.durable = logged;
                self.imported = false;
            }
        }
        self.recompute();
    }

    fn recompute(&mut self) {
        self.in_force = self.on_its_way.iter().fold(self.durable.policy, |p, (_, logged)| p.shorter(&logged.policy));
    }
}
