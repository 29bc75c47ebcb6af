//! Owns a node's state as a fold of the log, moved on by the product's own reader and record codec.

use bytes::Bytes;
use ha_types::{BatchId, Epoch, Seq};
use oplog_core::record::{BatchHeader, BatchRecord, BatchRef, OpenBatch};
use oplog_core::{
    ApplyError, DurablePrefix, EntryRef, FaultKind, NewEntry, Position, ReplayFault, Replica, StateMachine,
};

use super::rules::{Rule, Rules};
use super::store::Store;

/// What an entry holds: a number that no other entry has.
pub(super) type Content = u8;

/// A state machine that keeps every entry.
#[derive(Debug)]
struct Entries(Vec<Content>);

impl StateMachine for Entries {
    fn last_applied(&self) -> Seq {
        Seq::new(self.0.len() as u64)
    }

    fn apply(&mut self, entry: EntryRef<'_>) -> Result<(), ApplyError> {
        self.0.push(entry.payload[0]);
        Ok(())
    }
}

/// A state and where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fold {
    pub(super) entries: Vec<Content>,
    pub(super) position: Position,
}

/// Why a reader did not reach the prefix.
#[derive(Debug)]
pub(super) enum Miss {
    /// The batch is not there.
    Batch(BatchId),
    /// The log is wrong.
    Fault(ReplayFault),
    /// The state is above the prefix.
    Above,
}

impl Fold {
    /// Applies what lies between this state and `through`. The state is at the last good batch afterwards.
    pub(super) fn catch_up(&mut self, store: &Store, through: &DurablePrefix, rules: Rules) -> Result<(), Miss> {
        self.read_legacy(store, through)?;
        let above = self.position.batch_id > through.batch_id || self.position.last_seq > through.last_seq;
        if above {
            return if rules.keep(Rule::ReaderAboveStops) { Err(Miss::Above) } else { Ok(()) };
        }
        let mut id = self.position.batch_id;
        while id < through.batch_id {
            id = id.next().expect("ids are small");
            let record = store.batch(id).ok_or(Miss::Batch(id))?;
            if !rules.keep(Rule::ReaderChecksChain) {
                self.position.crc = header(record).prev_crc;
            }
            self.apply(id, record, through).map_err(Miss::Fault)?;
        }
        match self.position.last_seq == through.last_seq {
            true => Ok(()),
            false => Err(Miss::Batch(id)),
        }
    }

    fn apply(&mut self, id: BatchId, record: &[u8], through: &DurablePrefix) -> Result<(), ReplayFault> {
        let machine = Entries(std::mem::take(&mut self.entries));
        let mut replica = Replica::restored(machine, self.position).expect("a state stands where it says");
        let applied = replica.apply_record(id, record, through).map(drop);
        self.position = replica.position();
        self.entries = replica.into_machine().0;
        applied
    }

    /// A state below the cutover's base takes the legacy entries up to it.
    fn read_legacy(&mut self, store: &Store, through: &DurablePrefix) -> Result<(), Miss> {
        if self.position.batch_id != BatchId::ZERO {
            return Ok(());
        }
        let Some(base) = base(store, through) else { return Ok(()) };
        let base = base.get();
        for seq in self.position.last_seq.get() + 1..=base {
            let Some(content) = store.legacy_entry(seq) else { return Err(Miss::Batch(BatchId::ZERO)) };
            self.entries.push(content);
            self.position.last_seq = Seq::new(seq);
        }
        Ok(())
    }

    /// The record that appends `contents` under the claim of `at`, with its CRC and the prefix it makes.
    pub(super) fn seal(&self, at: &DurablePrefix, contents: &[Content]) -> (Bytes, u32, DurablePrefix) {
        let mut batch = OpenBatch::new();
        for content in contents {
            let entry = NewEntry { op_type: 1, tenant: "default", key: b"k", payload: &[*content] };
            batch.push(&entry).expect("a small entry fits");
        }
        let header = BatchHeader {
            batch_id: at.batch_id.next().expect("ids are small"),
            first_seq: at.last_seq.next().expect("sequences are small"),
            epoch: at.epoch,
            prev_crc: self.position.crc,
            timestamp_ms: 0,
        };
        let sealed = batch.seal(header).expect("a small batch seals");
        (sealed.bytes, sealed.crc, DurablePrefix { batch_id: header.batch_id, last_seq: sealed.last_seq, ..*at })
    }

    /// Takes in a batch of its own.
    pub(super) fn wrote(&mut self, new: &DurablePrefix, crc: u32, contents: &[Content]) {
        self.entries.extend(contents);
        self.position = Position { batch_id: new.batch_id, last_seq: new.last_seq, epoch: new.epoch, crc };
    }
}

impl Miss {
    /// Whether the reader met a log that is wrong, and not one that was truncated.
    pub(super) fn kind(&self) -> Option<FaultKind> {
        match self {
            Self::Batch(_) => None,
            Self::Fault(fault) => Some(fault.kind),
            Self::Above => Some(FaultKind::AppliedAbovePrefix),
        }
    }
}

/// Where the legacy log ends, if that can still be told: the product's `base_of`, which reads a store.
pub(super) fn base(store: &Store, prefix: &DurablePrefix) -> Option<Seq> {
    if prefix.batch_id == BatchId::ZERO {
        return Some(prefix.last_seq);
    }
    store.batch(BatchId::new(1)).map(|first| Seq::new(header(first).first_seq.get() - 1))
}

/// How a record of Mooncake's begins, and none of ours.
const MOONCAKES: u8 = b'[';

fn mooncakes(record: &[u8]) -> BatchRecord {
    BatchRecord::decode(Bytes::copy_from_slice(record)).expect("nothing in the model damages a record")
}

fn ours(record: &[u8]) -> BatchRef<'_> {
    BatchRef::decode(record).expect("nothing in the model damages a record")
}

/// A record's numbers; epoch 0 if it is Mooncake's.
pub(super) fn header(record: &[u8]) -> BatchHeader {
    if record[0] == MOONCAKES { *mooncakes(record).header() } else { *ours(record).header() }
}

/// What the next record names as its predecessor.
pub(super) fn crc(record: &[u8]) -> u32 {
    if record[0] == MOONCAKES { mooncakes(record).crc() } else { ours(record).crc() }
}

/// The epoch inside a record.
pub(super) fn epoch(record: &[u8]) -> Epoch {
    header(record).epoch
}

/// What a record's entries hold.
pub(super) fn contents(record: &[u8]) -> Vec<Content> {
    if record[0] == MOONCAKES {
        return mooncakes(record).entries().map(|entry| entry.payload[0]).collect();
    }
    ours(record).entries().map(|entry| entry.payload[0]).collect()
}
