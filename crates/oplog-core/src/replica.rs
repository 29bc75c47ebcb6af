//! Owns a state machine with its place in the log; the only way to apply a batch. It reads no store.

#[cfg(feature = "mooncake")]
use bytes::Bytes;
use ha_types::{BatchId, Epoch, Seq};

#[cfg(feature = "mooncake")]
use crate::record::{BatchRecord, Encoding};
use crate::record::{BatchRef, Inflated, RecordError};
use crate::{DurablePrefix, EntryRef, FaultKind, Position, ReplayFault, StateMachine};

/// A state machine and where it stands: always at the end of a batch, or inside the next one after an entry that could not
/// be applied.
#[derive(Debug)]
pub struct Replica<S> {
    machine: S,
    position: Position,
    inflated: Inflated,
}

/// What one record brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedBatch {
    /// How many entries.
    pub entries: u64,
    /// Where the replica stands now.
    pub position: Position,
}

/// Why a machine cannot be continued from a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the restored state stands at sequence {machine}, its position at {position}; restore it from one snapshot")]
pub struct RestoreError {
    /// Where the machine stands.
    pub machine: Seq,
    /// Where it was said to stand.
    pub position: Seq,
}

impl<S: StateMachine> Replica<S> {
    /// A machine that has applied nothing. One that has is found out at its first batch.
    pub fn empty(machine: S) -> Self {
        Self { machine, position: Position::default(), inflated: Inflated::new() }
    }

    /// A machine restored at `position`.
    ///
    /// # Errors
    /// [`RestoreError`] if the machine does not stand at `position.last_seq`.
    pub fn restored(machine: S, position: Position) -> Result<Self, RestoreError> {
        match machine.last_applied() {
            seq if seq == position.last_seq => Ok(Self { machine, position, inflated: Inflated::new() }),
            seq => Err(RestoreError { machine: seq, position: position.last_seq }),
        }
    }

    /// The machine.
    pub fn machine(&self) -> &S {
        &self.machine
    }

    /// The end of the last whole batch applied.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The last entry applied. Above [`Position::last_seq`] only after an apply fault inside a batch.
    pub fn applied(&self) -> Seq {
        self.machine.last_applied()
    }

    /// Gives up the pair for the machine.
    pub fn into_machine(self) -> S {
        self.machine
    }

    /// Checks the whole record and its place after this replica's position, then applies its entries in order. A fault of the
    /// record or its place leaves the state at the previous batch, an apply fault at the previous entry; asked again after
    /// one, it goes on at the entry that failed, so that no entry is applied twice.
    ///
    /// `id` is the batch of the key that held the record, `prefix` the durable prefix read before the record.
    ///
    /// # Errors
    /// [`ReplayFault`], its key the part below the log's root; [`catch_up`](crate::catch_up) names the whole key.
    pub fn apply_record(
        &mut self,
        id: BatchId,
        record: &[u8],
        prefix: &DurablePrefix,
    ) -> Result<AppliedBatch, ReplayFault> {
        let undecodable = |e: RecordError| ReplayFault::batch_undecodable(&short_key(id), &e);
        #[cfg(feature = "mooncake")]
        if Encoding::of(record) == Encoding::MooncakeJson {
            let batch = BatchRecord::decode(Bytes::copy_from_slice(record)).map_err(undecodable)?;
            return self.apply_batch(id, &Joints::of_mooncakes(&batch), batch.entries(), prefix);
        }
        let mut inflated = std::mem::take(&mut self.inflated);
        let decoded = BatchRef::decode_in(record, &mut inflated).map_err(undecodable);
        let applied = decoded.and_then(|batch| self.apply_batch(id, &Joints::of(&batch), batch.entries(), prefix));
        self.inflated = inflated;
        applied
    }

    fn apply_batch<'b>(
        &mut self,
        id: BatchId,
        batch: &Joints,
        all: impl Iterator<Item = EntryRef<'b>>,
        prefix: &DurablePrefix,
    ) -> Result<AppliedBatch, ReplayFault> {
        self.check_place(id, batch, prefix)?;
        let applied = self.machine.last_applied();
        if applied < self.position.last_seq || applied > batch.last_seq {
            let expected = format!("a state machine at sequence {}", self.position.last_seq);
            return Err(self.fault(FaultKind::Machine, id, &expected, format!("one at {applied}")));
        }
        let mut entries = 0;
        for entry in all.filter(|entry| entry.seq > applied) {
            self.apply_entry(id, entry)?;
            entries += 1;
        }
        if self.machine.last_applied() != batch.last_seq {
            let expected = format!("a state machine at sequence {} after the batch", batch.last_seq);
            let found = format!("one at {}", self.machine.last_applied());
            return Err(self.fault(FaultKind::Machine, id, &expected, found));
        }
        self.position = Position { batch_id: id, last_seq: batch.last_seq, epoch: batch.epoch, crc: batch.crc };
        Ok(AppliedBatch { entries, position: self.position })
    }

    fn apply_entry(&mut self, id: BatchId, entry: EntryRef<'_>) -> Result<(), ReplayFault> {
        let seq = entry.seq;
        if let Err(error) = self.machine.apply(entry) {
            let (op, tenant, key) = (entry.op_type, entry.tenant, entry.key.escape_ascii());
            let expected = "an entry that can be applied";
            let found = format!("op type {op} of tenant {tenant:?}, key \"{key}\": {error}");
            return Err(self.fault(FaultKind::Apply, id, expected, found).at(seq));
        }
        if self.machine.last_applied() == seq {
            return Ok(());
        }
        let found = format!("one at {}", self.machine.last_applied());
        Err(self.fault(FaultKind::Machine, id, "a state machine at the entry just applied", found).at(seq))
    }

    fn check_place(&self, id: BatchId, batch: &Joints, prefix: &DurablePrefix) -> Result<(), ReplayFault> {
        let at = &self.position;
        let fault = |kind, expected: String, found: String| Err(self.fault(kind, id, &expected, found));
        if batch.batch_id != id {
            let found = format!("the record of batch {}", batch.batch_id);
            return fault(FaultKind::WrongBatchId, format!("the record of batch {id}"), found);
        }
        if at.batch_id.next() != Some(id) {
            let expected = format!("the batch after {}", at.batch_id);
            return fault(FaultKind::BatchMissing, expected, format!("batch {id}"));
        }
        if at.last_seq.next() != Some(batch.first_seq) {
            let expected = format!("first_seq one above {}", at.last_seq);
            let kind = if id.get() == 1 { FaultKind::BaseNotHeld } else { FaultKind::SequenceGap };
            return fault(kind, expected, format!("first_seq {}", batch.first_seq));
        }
        if batch.epoch < at.epoch || batch.epoch > prefix.epoch {
            let expected = format!("an epoch from {} to {}", at.epoch, prefix.epoch);
            return fault(FaultKind::WrongEpoch, expected, format!("epoch {}", batch.epoch));
        }
        if let Some(prev_crc) = batch.prev_crc
            && prev_crc != at.crc
        {
            let expected = format!("prev_crc {:08x}, the CRC of the batch before", at.crc);
            let found = format!("{prev_crc:08x}: the store was rolled back under this reader");
            return fault(FaultKind::BrokenChain, expected, found);
        }
        let (last, end) = (batch.last_seq, prefix.last_seq);
        let fits = match id.cmp(&prefix.batch_id) {
            std::cmp::Ordering::Less => last < end,
            std::cmp::Ordering::Equal => last == end,
            std::cmp::Ordering::Greater => {
                let expected = format!("no batch above the durable prefix's {}", prefix.batch_id);
                return fault(FaultKind::AppliedAbovePrefix, expected, format!("batch {id}"));
            }
        };
        match fits {
            true => Ok(()),
            false => {
                let expected = format!("a last sequence that fits the durable prefix ({prefix})");
                fault(FaultKind::SequenceGap, expected, format!("last sequence {last}"))
            }
        }
    }

    #[cold]
    fn fault(&self, kind: FaultKind, id: BatchId, expected: &str, found: String) -> ReplayFault {
        ReplayFault::new(kind, &short_key(id), expected, found)
    }
}

fn short_key(id: BatchId) -> Vec<u8> {
    format!("batches/{:020}", id.get()).into_bytes()
}

/// What joins a record to its neighbours and to the prefix.
struct Joints {
    batch_id: BatchId,
    first_seq: Seq,
    last_seq: Seq,
    epoch: Epoch,
    /// The CRC of the record before, where the encoding has it.
    prev_crc: Option<u32>,
    crc: u32,
}

impl Joints {
    fn of(batch: &BatchRef<'_>) -> Self {
        let header = batch.header();
        Self {
            batch_id: header.batch_id,
            first_seq: header.first_seq,
            last_seq: batch.last_seq(),
            epoch: header.epoch,
            prev_crc: Some(header.prev_crc),
            crc: batch.crc(),
        }
    }

    /// Epoch 0 keeps such a record from ever following one of ours: epochs never fall.
    #[cfg(feature = "mooncake")]
    fn of_mooncakes(batch: &BatchRecord) -> Self {
        let header = batch.header();
        Self {
            batch_id: header.batch_id,
            first_seq: header.first_seq,
            last_seq: batch.last_seq(),
            epoch: header.epoch,
            prev_crc: None,
            crc: batch.crc(),
        }
    }
}
