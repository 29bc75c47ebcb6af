//! Owns the judge: it sees every request at every client, keeps its own copy of the log, and checks the invariants after each
//! step. It shares the published decoders with the code under test and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use ha_kv::faulty::{Op, Stage};
use ha_kv::{Compare, Kv, MemoryKv, RangeLimit, Txn};
use oplog_core::record::BatchRecord;
use oplog_core::{BatchId, DurablePrefix, LogKeys, Outcome, Seq};

use crate::situation::{Counts, Situation};

/// The name of one entry: unique over the whole run, and its payload.
pub(crate) type EntryId = u64;

#[derive(Debug)]
struct Submitted {
    writer: u64,
    seq: Seq,
    told: Option<Outcome>,
}

/// What the oracle knows.
pub(crate) struct Oracle {
    store: Arc<MemoryKv>,
    keys: LogKeys,
    prefix: DurablePrefix,
    /// Entry ids of the log; index = sequence − 1.
    log: Vec<EntryId>,
    batches: BTreeMap<u64, Bytes>,
    chain: u32,
    submitted: BTreeMap<EntryId, Submitted>,
    in_log: BTreeSet<EntryId>,
    /// Sequences told durable, over all writers.
    told_durable: BTreeMap<u64, EntryId>,
    /// The last sequence a callback of each writer named.
    last_called: BTreeMap<u64, Seq>,
    /// For each client: the epoch it last read, and the batch it last sent.
    seen: BTreeMap<usize, (u64, Option<BatchId>)>,
    pub(crate) counts: Counts,
}

/// The memory store answers at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the memory store answers at once"),
    }
}

impl Oracle {
    pub(crate) fn new(store: Arc<MemoryKv>, keys: LogKeys) -> Self {
        Self {
            store,
            keys,
            prefix: DurablePrefix::FRESH,
            log: Vec::new(),
            batches: BTreeMap::new(),
            chain: 0,
            submitted: BTreeMap::new(),
            in_log: BTreeSet::new(),
            told_durable: BTreeMap::new(),
            last_called: BTreeMap::new(),
            seen: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// `client` called, or the store did, something.
    pub(crate) fn step(&mut self, client: usize, op: &Op, stage: Stage) {
        match (op, stage) {
            (Op::Get { key }, Stage::Applied) if *key == self.keys.durable_prefix() => {
                self.seen.entry(client).or_default().0 = self.prefix.epoch.get();
            }
            (Op::Txn(txn), Stage::Called) => self.audit(client, txn),
            (Op::Txn(txn), Stage::NotTaken) => self.refused(client, txn),
            (Op::Txn(_), Stage::Applied) => self.applied(),
            (op, Stage::Applied) if op.kind().is_write() => panic!("W19: a write outside a transaction: {op:?}"),
            _ => {}
        }
        self.check_boundary();
    }

    /// The prefix a transaction compares, if it writes the log.
    fn expected(&self, txn: &Txn) -> Option<DurablePrefix> {
        let prefix_key = self.keys.durable_prefix();
        txn.compares.iter().find_map(|c| match c {
            Compare::ValueEquals { key, value } if *key == prefix_key => DurablePrefix::decode(value).ok(),
            _ => None,
        })
    }

    /// W17, W19.
    fn audit(&mut self, client: usize, txn: &Txn) {
        assert!(txn.deletes.is_empty(), "W17: {txn:?}");
        let touches_log = txn.puts.iter().any(|p| p.key.starts_with(b"/oplog/"));
        let compares_prefix = txn.compares.iter().any(|c| *c.key() == self.keys.durable_prefix());
        let probe = txn.puts.iter().all(|p| p.key.starts_with(&self.keys.probe()[..]));
        assert!(!touches_log || compares_prefix || probe, "W19: {:?}", txn.compares);
        if let Some(expected) = self.expected(txn).filter(|_| txn.puts.len() == 2) {
            let sent = expected.batch_id.next();
            let entry = self.seen.entry(client).or_default();
            entry.1 = sent;
        }
    }

    fn refused(&mut self, client: usize, txn: &Txn) {
        let Some(expected) = self.expected(txn) else { return };
        let is_append = txn.puts.len() == 2;
        if is_append && expected.epoch < self.prefix.epoch {
            self.counts.note(Situation::AppendRefusedByFence);
            let (read, sent) = self.seen.get(&client).copied().unwrap_or_default();
            if read == expected.epoch.get() && sent == expected.batch_id.next() {
                self.counts.note(Situation::ClaimBetweenReadAndRetry);
            }
        }
        if !is_append && expected.epoch == self.prefix.epoch && expected.batch_id < self.prefix.batch_id {
            self.counts.note(Situation::BatchBetweenReadAndClaim);
        }
    }

    /// A transaction applied: L1 to L4, L11, L13, L16 by what is in the store now.
    fn applied(&mut self) {
        let raw = now(self.store.get(&self.keys.durable_prefix())).expect("memory").expect("a prefix, once created");
        let next = DurablePrefix::decode(&raw).expect("the prefix decodes");
        let old = std::mem::replace(&mut self.prefix, next);
        assert!(old.may_become(&next), "L3: {old} became {next}");
        if next.batch_id == old.batch_id {
            assert!(next.epoch > old.epoch || next == old, "only a claim leaves the boundary: {old} became {next}");
            return;
        }
        assert_eq!(
            (next.epoch, next.owner),
            (old.epoch, old.owner),
            "L11: an append under another claim than the last"
        );
        assert_eq!(old.batch_id.next(), Some(next.batch_id), "L1: one batch at a time");
        let bytes = now(self.store.get(&self.keys.batch(next.batch_id))).expect("memory").expect("L1: the batch");
        let batch = BatchRecord::decode(bytes.clone()).expect("the batch decodes");
        let header = batch.header();
        assert_eq!(header.batch_id, next.batch_id);
        assert_eq!(Some(header.first_seq), old.last_seq.next(), "L1: sequences follow");
        assert_eq!(batch.last_seq(), next.last_seq, "L2");
        assert_eq!(header.epoch, next.epoch, "L11: the batch names the claim it was written under");
        assert_eq!(header.prev_crc, self.chain, "L16");
        self.counts.note(if batch.count() == 1 { Situation::BatchOfOne } else { Situation::BatchOfMany });
        for entry in batch.entries() {
            let id = EntryId::from_le_bytes(entry.payload[..8].try_into().expect("eight bytes"));
            let submitted = self.submitted.get(&id).unwrap_or_else(|| panic!("L13: {id} was never submitted"));
            assert_eq!(submitted.seq, entry.seq, "entry {id} has another sequence than its caller was given");
            let told_never = submitted.told == Some(Outcome::Never);
            assert!(!told_never, "L12: entry {id} at {} was told never", entry.seq);
            assert!(self.in_log.insert(id), "entry {id} is in the log twice");
            self.log.push(id);
        }
        self.chain = batch.crc();
        self.batches.insert(next.batch_id.get(), bytes);
    }

    /// L1, L4: the batch at the prefix is there as it was, and there is none above.
    fn check_boundary(&self) {
        let at = self.prefix.batch_id;
        if let Some(bytes) = self.batches.get(&at.get()) {
            let stored = now(self.store.get(&self.keys.batch(at))).expect("memory");
            assert_eq!(stored.as_ref(), Some(bytes), "L4: batch {at} changed");
        }
        let above = self.keys.batch(at.next().expect("room"));
        assert_eq!(now(self.store.get(&above)).expect("memory"), None, "L1: a batch above the prefix");
    }

    /// `writer` was given `seq` for its entry.
    pub(crate) fn submitted(&mut self, id: EntryId, writer: u64, seq: Seq) {
        let before = self.submitted.insert(id, Submitted { writer, seq, told: None });
        assert!(before.is_none(), "the simulation used {id} twice");
    }

    /// A ticket or callback told what became of an entry.
    pub(crate) fn told(&mut self, id: EntryId, seq: Seq, outcome: Outcome) {
        let submitted = self.submitted.get_mut(&id).expect("told of what was never submitted");
        assert_eq!(submitted.seq, seq);
        let before = submitted.told.replace(outcome);
        assert!(before.is_none(), "L6: entry {id} at {seq} was told {before:?} and then {outcome:?}");
        let index = usize::try_from(seq.get()).expect("small") - 1;
        match outcome {
            Outcome::Durable => {
                assert!(self.prefix.last_seq >= seq, "L5: {seq} is above {}", self.prefix);
                assert_eq!(self.log.get(index), Some(&id), "L5: the log holds another entry at {seq}");
                let other = self.told_durable.insert(seq.get(), id);
                assert_eq!(other, None, "L6: two successes for {seq}");
            }
            Outcome::Never => assert!(!self.in_log.contains(&id), "L12: {id} at {seq} is in the log"),
            Outcome::Unknown => {}
        }
    }

    /// A callback of `writer` ran: those of one writer come in order of sequence (L6).
    pub(crate) fn called(&mut self, writer: u64, seq: Seq) {
        let last = self.last_called.insert(writer, seq);
        assert!(last.is_none_or(|last| last < seq), "L6: {last:?} then {seq}");
    }

    /// Everything has come to rest: every batch is as it was, nobody is without an answer (V1).
    pub(crate) fn check_end(&self) {
        let (start, end) = (self.keys.batch(BatchId::ZERO), self.keys.batch(BatchId::new(u64::MAX)));
        let page = now(self.store.range(&start, &end, RangeLimit::pairs(usize::MAX))).expect("memory");
        let stored: Vec<_> = page.pairs.iter().map(|p| (&p.key[..], &p.value)).collect();
        let keys: Vec<_> = self.batches.keys().map(|id| self.keys.batch(BatchId::new(*id))).collect();
        let expected: Vec<_> = keys.iter().map(|k| &k[..]).zip(self.batches.values()).collect();
        assert!(stored == expected, "L1, L4: the batches in the store are not those that were written");
        for (id, submitted) in &self.submitted {
            assert!(submitted.told.is_some(), "V1: entry {id} of writer {} has no outcome", submitted.writer);
        }
        assert!(self.told_durable.keys().zip(1..).all(|(seq, _)| *seq <= self.prefix.last_seq.get()));
    }

    /// Whether the boundary is still the claimant's.
    pub(crate) fn holds(&self, prefix: &DurablePrefix) -> bool {
        self.prefix == *prefix
    }

    /// A claimant's state is the log, entry by entry.
    pub(crate) fn check_state(&self, state: &[EntryId]) {
        assert_eq!(state, self.log, "a claimed state is not the fold of the log");
    }
}
