//! Owns what the scenarios share: a claimed log with its writer, a clock that moves when it is read, and the checks at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::Kv as _;
use ha_types::{AlwaysLeads, Clock, ClusterId, MonoTime, SeededEntropy, Seq};
use oplog_core::record::BatchRecord;
use oplog_core::{
    ApplyError, BatchId, BatchStorage, DurablePrefix, EntryRef, LogKeys, NewEntry, OpenOptions, OrderedWriter, Outcome,
    Replica, Reservation, ReserveError, StateMachine, WriterConfig, WriterEnv, WriterStatus, claim_and_verify,
};
use parking_lot::Mutex;
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::watch;

use crate::store::Store;

/// A machine that knows how far it is.
#[derive(Debug, Default)]
pub(crate) struct Count(u64);

impl StateMachine for Count {
    fn last_applied(&self) -> Seq {
        Seq::new(self.0)
    }

    fn apply(&mut self, _: EntryRef<'_>) -> Result<(), ApplyError> {
        self.0 += 1;
        Ok(())
    }
}

/// Time that passes when somebody looks, so that every wait by the clock ends.
#[derive(Debug, Default)]
struct Stepping(AtomicU64);

impl Clock for Stepping {
    fn now(&self) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(20 * self.0.fetch_add(1, Ordering::SeqCst)))
    }

    fn unix_ms(&self) -> u64 {
        0
    }
}

/// One log, its writer, and what was committed.
pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    watcher: JoinHandle<WriterStatus>,
    /// The last sequence that anybody was told to be durable.
    told_durable: AtomicU64,
    committed: Arc<Committed>,
}

/// Entries by sequence.
#[derive(Default)]
struct Committed(Mutex<Vec<(Seq, u8)>>);

/// What a task needs to write; clones share the writer.
#[derive(Clone)]
pub(crate) struct Hand {
    pub(crate) writer: OrderedWriter,
    pub(crate) store: Arc<Store>,
    limit: u64,
    committed: Arc<Committed>,
}

impl World {
    /// A claimed log, and the one hand on its writer.
    pub(crate) fn start(config: WriterConfig) -> (Self, Hand) {
        let store = Store::new();
        let limit = config.oplog_batch_max_entries as u64;
        let WriterEnv { clock, entropy } = env();
        let claimed = block_on(async {
            let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
            let storage = BatchStorage::open(store.clone(), keys(), options).await.expect("the log opens");
            storage.create_first_prefix().await.expect("a fresh log");
            let replica = Replica::empty(Count::default());
            let claim =
                claim_and_verify(storage, replica, &AlwaysLeads, &*clock, &*entropy, Duration::from_millis(1)).await;
            claim.expect("the claim").into_parts().1
        });
        let writer = OrderedWriter::start(claimed, config, WriterEnv { clock, entropy }).expect("the writer starts");
        let committed = Arc::<Committed>::default();
        let watcher = spawn(watch_to_the_end(writer.status()));
        let world = Self {
            store: Arc::clone(&store),
            watcher,
            told_durable: AtomicU64::new(0),
            committed: Arc::clone(&committed),
        };
        (world, Hand { writer, store, limit, committed })
    }

    /// Waits until the driver is gone and nobody holds the writer: nothing may keep it. Then checks what the store has.
    pub(crate) fn close(mut self) -> Vec<u8> {
        let last = block_on(&mut self.watcher).expect("the watcher ends with the writer");
        assert!(last.terminal.is_some(), "a writer that is gone has ended");
        let stored = self.stored();
        let shown = self.told_durable.into_inner()..=stored.len() as u64;
        let at = last.durable.last_seq.get();
        assert!(shown.contains(&at), "the prefix shown last is {at}; what was told and what is stored say {shown:?}");
        stored
    }

    /// Every entry in the store, gap-free (L1, L2), each the one that was committed with its sequence.
    pub(crate) fn stored(&self) -> Vec<u8> {
        let batches = block_on(batches(&self.store));
        let stored: Vec<u8> =
            batches.iter().flat_map(|b| b.entries().map(|e| e.payload[0]).collect::<Vec<_>>()).collect();
        for (seq, payload) in self.committed.0.lock().iter() {
            let at = usize::try_from(seq.get() - 1).expect("few entries");
            assert!(stored.get(at).is_none_or(|found| found == payload), "another entry is stored as {seq}");
        }
        stored
    }

    /// Checks the truth that a ticket was told.
    pub(crate) fn check(&self, seq: Seq, outcome: Outcome) {
        let stored = self.stored().len() as u64 >= seq.get();
        match outcome {
            Outcome::Durable => {
                assert!(stored, "told durable, and {seq} is not in the store");
                self.told_durable.fetch_max(seq.get(), Ordering::SeqCst);
            }
            Outcome::Never => assert!(!stored, "told never, and {seq} is in the store"),
            Outcome::Unknown => {}
        }
    }
}

impl Hand {
    /// A slot, or `None` if the queue is full now.
    pub(crate) fn try_reserve(&self) -> Option<Reservation> {
        match self.writer.reserve() {
            Ok(slot) => {
                assert!(self.writer.metrics().slots <= self.limit, "more slots are taken than there are");
                Some(slot)
            }
            Err(ReserveError::QueueFull) => None,
            Err(e) => panic!("no slot, and not because the queue is full: {e}"),
        }
    }

    /// Commits with `slot`. The sequence is kept beside the payload.
    pub(crate) fn commit(&self, slot: Reservation, payload: u8) -> Option<oplog_core::Ticket> {
        let ticket = slot.commit(entry(&[payload])).ok()?;
        self.kept(ticket.seq(), payload);
        Some(ticket)
    }

    /// Notes what was committed another way.
    pub(crate) fn kept(&self, seq: Seq, payload: u8) {
        let mut committed = self.committed.0.lock();
        assert!(committed.iter().all(|(other, _)| *other != seq), "{seq} was given out twice");
        committed.push((seq, payload));
    }
}

/// Time that passes when somebody looks, and jitter.
pub(crate) fn env() -> WriterEnv {
    WriterEnv { clock: Arc::new(Stepping::default()), entropy: Arc::new(SeededEntropy::new(7)) }
}

/// An entry that carries `payload`.
pub(crate) fn entry(payload: &[u8]) -> NewEntry<'_> {
    NewEntry { op_type: 1, tenant: "t", key: b"k", payload }
}

/// Settings with `limit` slots.
pub(crate) fn slots(limit: usize) -> WriterConfig {
    WriterConfig { oplog_batch_max_entries: limit, ..WriterConfig::default() }
}

/// A choice that belongs to the schedule.
pub(crate) fn toss() -> bool {
    thread_rng().gen_bool(0.5)
}

/// Looks at every status that it can, until the writer is gone; gives the last one.
async fn watch_to_the_end(mut status: watch::Receiver<WriterStatus>) -> WriterStatus {
    let mut shown = status.borrow_and_update().clone();
    while status.changed().await.is_ok() {
        let next = status.borrow_and_update().clone();
        assert!(next.durable.last_seq >= shown.durable.last_seq, "L3: the prefix that is shown went back");
        assert!(shown.terminal.is_none() || next.terminal == shown.terminal, "the end that is shown was taken back");
        shown = next;
    }
    shown
}

pub(crate) fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c1").expect("a cluster id"))
}

async fn batches(store: &Store) -> Vec<BatchRecord> {
    let value = store.memory.get(&keys().durable_prefix()).await.expect("memory").expect("a prefix");
    let prefix = DurablePrefix::decode(&value).expect("a prefix that decodes");
    let mut batches: Vec<BatchRecord> = Vec::new();
    for id in 1..=prefix.batch_id.get() {
        let bytes = store.memory.get(&keys().batch(BatchId::new(id))).await.expect("memory").expect("a batch");
        let batch = BatchRecord::decode(bytes).expect("a batch that decodes");
        let last = batches.last().map_or(0, |b| b.last_seq().get());
        assert_eq!(batch.header().first_seq.get(), last + 1, "batch {id} does not follow");
        batches.push(batch);
    }
    assert_eq!(batches.last().map_or(0, |b| b.last_seq().get()), prefix.last_seq.get());
    batches
}
