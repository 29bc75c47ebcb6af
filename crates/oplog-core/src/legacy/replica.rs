//! Owns a state machine that stands in the legacy log; the only way to apply a legacy entry. It reads no store.

use bytes::Bytes;
use ha_types::{BatchId, Epoch, MonoTime, Seq};

use super::{KeyDisorder, KeySequences, LegacyEntry};
use crate::{FaultKind, LogKeys, Position, ReplayFault, Replica, RestoreError, StateMachine};

/// A state machine with its place in the legacy log: always after a whole entry, or at the end of a hole that was accepted.
#[derive(Debug)]
pub struct LegacyReplica<S> {
    machine: S,
    key_sequences: KeySequences,
}

/// Why an entry was not applied.
pub(super) enum NotApplied {
    /// The reading, or the log, is wrong about one key.
    Disorder(KeyDisorder),
    /// A fault.
    Fault(ReplayFault),
}

impl From<ReplayFault> for NotApplied {
    fn from(fault: ReplayFault) -> Self {
        Self::Fault(fault)
    }
}

impl<S: StateMachine> LegacyReplica<S> {
    /// A machine that has applied nothing. One that has is found out at its first entry.
    pub fn empty(machine: S) -> Self {
        Self { machine, key_sequences: KeySequences::default() }
    }

    /// The machine.
    pub fn machine(&self) -> &S {
        &self.machine
    }

    /// The last entry applied, or the end of a hole that was passed.
    pub fn applied(&self) -> Seq {
        self.machine.last_applied()
    }

    /// The counts by key.
    pub fn key_sequences(&self) -> &KeySequences {
        &self.key_sequences
    }

    /// Gives up the pair for its parts.
    pub fn into_parts(self) -> (S, KeySequences) {
        (self.machine, self.key_sequences)
    }

    /// The same state at the base of the log in batch records, from where batch 1 goes on.
    ///
    /// # Errors
    /// [`RestoreError`] if the machine does not stand at `base`: below it entries are missing, above it holds what is not in the log.
    pub fn into_replica(self, base: Seq) -> Result<Replica<S>, RestoreError> {
        Replica::restored(
            self.machine,
            Position { batch_id: BatchId::ZERO, last_seq: base, epoch: Epoch::ZERO, crc: 0 },
        )
    }

    /// Decodes the entry under the key of `seq` and applies it, if it is the next one. On a fault the state is where it was.
    /// `now` is when, for forgetting keys.
    ///
    /// # Errors
    /// [`ReplayFault`]: undecodable, not the next entry, a `key_sequence_id` that does not rise, or the machine refused it.
    pub fn apply_record(
        &mut self,
        keys: &LogKeys,
        seq: Seq,
        value: &Bytes,
        now: MonoTime,
    ) -> Result<LegacyEntry, ReplayFault> {
        self.apply_next(keys, seq, value, now).map_err(|error| match error {
            NotApplied::Disorder(disorder) => disorder.fault(keys),
            NotApplied::Fault(fault) => fault,
        })
    }

    /// As [`Self::apply_record`], and tells what a second reading may take back.
    pub(super) fn apply_next(
        &mut self,
        keys: &LogKeys,
        seq: Seq,
        value: &Bytes,
        now: MonoTime,
    ) -> Result<LegacyEntry, NotApplied> {
        let key = keys.legacy_entry(seq);
        let fault = |kind, expected: String, found: String| ReplayFault::new(kind, &key, expected, found).at(seq);
        let applied = self.applied();
        if applied.next() != Some(seq) {
            let expected = format!("the entry after {applied}");
            return Err(fault(FaultKind::LegacyGap, expected, format!("entry {seq}")).into());
        }
        let entry = LegacyEntry::decode_at(&key, seq, value).map_err(|e| ReplayFault::from(e).at(seq))?;
        if let Some(disorder) = self.key_sequences.disorder(&entry) {
            return Err(NotApplied::Disorder(disorder));
        }
        if let Err(error) = self.machine.apply(entry.as_ref()) {
            let (op, tenant, object) = (entry.op_type, &entry.tenant, entry.key.escape_debug());
            let found = format!("op type {op} of tenant {tenant:?}, key \"{object}\": {error}");
            return Err(fault(FaultKind::Apply, "an entry that can be applied".into(), found).into());
        }
        self.check_stands_at(&key, seq)?;
        self.key_sequences.record(&entry, now);
        Ok(entry)
    }

    /// Goes on behind a hole whose loss was accepted in words: the entries after [`Self::applied`] and up to `through` are missing.
    ///
    /// # Errors
    /// [`ReplayFault`] if `through` is not above what was applied, or the machine refuses.
    pub fn pass_hole(&mut self, keys: &LogKeys, through: Seq) -> Result<(), ReplayFault> {
        let (applied, key) = (self.applied(), keys.legacy_entry(through));
        if through <= applied {
            let expected = format!("a hole that ends above entry {applied}, the last applied");
            return Err(ReplayFault::new(FaultKind::LegacyGap, &key, expected, format!("one that ends at {through}")));
        }
        if let Err(error) = self.machine.pass_hole(through) {
            let expected = "a state that passes the hole";
            return Err(ReplayFault::new(FaultKind::Apply, &key, expected, error).at(through));
        }
        self.check_stands_at(&key, through)
    }

    fn check_stands_at(&self, key: &[u8], seq: Seq) -> Result<(), ReplayFault> {
        match self.applied() {
            at if at == seq => Ok(()),
            at => {
                let expected = format!("a state machine at entry {seq}");
                Err(ReplayFault::new(FaultKind::Machine, key, expected, format!("one at {at}")).at(seq))
            }
        }
    }
}
